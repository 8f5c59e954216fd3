//! `osd …`: OSDs, objects and flags in the osdmap.

use az::Az as _;
use loligo_maps::{MapFlags, OsdMap, OsdSet};
use loligo_wire::{OsdId, PgId, PoolId};

use super::osd_args::{map_of_epoch, osd_arg};
use super::{Call, Errno, Failure, Outcome, Reply};
use crate::output::json::{Node, object};
use crate::{text, view};

/// Flags that may be set. `pause` and `full` stop the clients, `noup` keeps OSDs down, `noscrub` and
/// `nodeep-scrub` stop scheduled scrubs. The others have no effect here: nothing is recovered or
/// rebalanced.
pub(super) const SETTABLE_FLAGS: [&str; 12] = [
    "full",
    "pause",
    "noup",
    "nodown",
    "noout",
    "noin",
    "nobackfill",
    "norebalance",
    "norecover",
    "noscrub",
    "nodeep-scrub",
    "notieragent",
];

pub(super) fn stat(call: &mut Call<'_>) -> Outcome {
    let summary = Summary::of(call.state.osdmap());
    let plain = |call: &Call<'_>| format!("{}; epoch: e{}\n", summary.text(call), summary.epoch);
    Ok(call.print(|_| summary.node(), plain))
}

/// Counts of OSDs by state.
pub(super) struct Summary {
    epoch: u32,
    all: usize,
    up: usize,
    inside: usize,
    up_since: loligo_wire::UTime,
    in_since: loligo_wire::UTime,
}

impl Summary {
    pub(super) fn of(map: &OsdMap) -> Self {
        Self {
            epoch: map.epoch.0,
            all: map.osd_ids().count(),
            up: map.osd_ids().filter(|osd| map.is_up(*osd)).count(),
            inside: map.osd_ids().filter(|osd| map.is_in(*osd)).count(),
            up_since: map.last_up_change,
            in_since: map.last_in_change,
        }
    }

    pub(super) fn node(&self) -> Node {
        object! {
            "epoch": self.epoch,
            "num_osds": self.all,
            "num_up_osds": self.up,
            "osd_up_since": self.up_since.sec,
            "num_in_osds": self.inside,
            "osd_in_since": self.in_since.sec,
            "num_remapped_pgs": 0,
        }
    }

    pub(super) fn text(&self, call: &Call<'_>) -> String {
        let since = |t: loligo_wire::UTime| match t {
            loligo_wire::UTime { sec: 0, nsec: 0 } => String::new(),
            t => format!(" (since {})", crate::output::units::age_of(call.now, t)),
        };
        let Self { all, up, inside, .. } = self;
        format!("{all} osds: {up} up{}, {inside} in{}", since(self.up_since), since(self.in_since))
    }
}

pub(super) fn ls(call: &mut Call<'_>) -> Outcome {
    let map = map_of_epoch(call)?;
    let node = |_: &Call<'_>| Node::array(map.osd_ids().map(|osd| osd.0));
    Ok(call.print(node, |_| map.osd_ids().map(|osd| format!("{osd}\n")).collect()))
}

pub(super) fn lspools(call: &mut Call<'_>) -> Outcome {
    let names = &call.state.osdmap().pool_names;
    let node = |_: &Call<'_>| {
        Node::array(names.iter().map(|(id, name)| object! { "poolnum": id.0, "poolname": text::of(name) }))
    };
    Ok(call.print(node, |_| names.iter().map(|(id, name)| format!("{id} {}\n", text::of(name))).collect()))
}

pub(super) fn getmap(call: &mut Call<'_>) -> Outcome {
    let map = map_of_epoch(call)?;
    let kept = call.state.maps().epoch(map.epoch);
    let bytes = kept.map(|kept| kept.full.clone()).unwrap_or_default();
    Ok(Reply::output(bytes).with_status(format!("got osdmap epoch {}", map.epoch)))
}

pub(super) fn getcrushmap(call: &mut Call<'_>) -> Outcome {
    let map = map_of_epoch(call)?;
    let mut w = loligo_wire::Writer::new();
    map.crush.encode(loligo_maps::Features::PACIFIC, &mut w);
    Ok(Reply::output(w.into_bytes()).with_status(map.crush_version.to_string()))
}

pub(super) fn getmaxosd(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let node = |_: &Call<'_>| object! { "epoch": map.epoch.0, "max_osd": map.max_osd() };
    Ok(call.print(node, |_| format!("max_osd = {} in epoch {}\n", map.max_osd(), map.epoch)))
}

/// The maximum of `max_osd` (`mon_max_osd`).
const MAX_OSD_MAX: i64 = 10_000;

pub(super) fn setmaxosd(call: &mut Call<'_>) -> Outcome {
    let wanted = call.args.int("newmax").unwrap_or_default();
    if wanted > MAX_OSD_MAX {
        let status = format!("cannot set max_osd to {wanted} which is > conf.mon_max_osd ({MAX_OSD_MAX})");
        return Err(Failure::new(Errno::ERANGE, status));
    }
    if let Some(used) = call.state.osdmap().osd_ids().find(|osd| i64::from(osd.0) >= wanted) {
        let status = format!(
            "cannot shrink max_osd to {wanted} because osd.{used} (and possibly others) still in use"
        );
        return Err(Failure::new(Errno::EBUSY, status));
    }
    call.state.change_osdmap(call.now, |_, inc| inc.new_max_osd = u32::try_from(wanted).ok())?;
    Ok(Reply::status(format!("set new max_osd = {wanted}")))
}

pub(super) fn min_compat_client(call: &mut Call<'_>) -> Outcome {
    let release = view::release(call.state.osdmap().require_min_compat_client);
    Ok(Reply::output(format!("{release}\n")))
}

/// The placement of an object.
pub(super) fn map(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let (pool, object) = (call.args.required("pool"), call.args.required("object"));
    let nspace = call.args.required("nspace");
    let id = map.pool_by_name(&text::to_bytes(pool));
    let id = id.ok_or_else(|| Failure::missing(format!("pool {pool} does not exist")))?;
    let Placement { raw, pg, up, up_primary, acting, acting_primary } = place(map, id, nspace, object)
        .ok_or_else(|| Failure::missing(format!("pool {pool} does not exist")))?;
    let shown = if nspace.is_empty() { object.to_owned() } else { format!("{nspace}/{object}") };
    let node = |_: &Call<'_>| {
        object! {
            "epoch": map.epoch.0, "pool": pool, "pool_id": id.0, "objname": shown.as_str(),
            "raw_pgid": raw.to_string(), "pgid": pg.to_string(),
            "up": Node::array(up.iter().map(|o| o.0)), "up_primary": primary(up_primary),
            "acting": Node::array(acting.iter().map(|o| o.0)), "acting_primary": primary(acting_primary),
        }
    };
    let plain = |_: &Call<'_>| {
        format!(
            "osdmap e{} pool '{pool}' ({id}) object '{shown}' -> pg {raw} ({pg}) -> up ({}, p{}) acting ({}, p{})\n",
            map.epoch,
            list(&up),
            primary(up_primary),
            list(&acting),
            primary(acting_primary),
        )
    };
    Ok(call.print(node, plain))
}

/// The placement of a placement group.
pub(super) fn pg_map(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let text = call.args.required("pgid");
    let pg: PgId = text.parse().map_err(|_| Failure::invalid(format!("invalid pgid '{text}'")))?;
    let exists = map.pool(pg.pool).is_some_and(|pool| pg.seed < pool.pg_num());
    if !exists {
        return Err(Failure::missing(format!("pg '{pg}' does not exist")));
    }
    let at = map.pg_to_up_acting(pg);
    let node = |_: &Call<'_>| {
        object! {
            "epoch": map.epoch.0, "raw_pgid": pg.to_string(), "pgid": pg.to_string(),
            "up": Node::array(at.up.iter().map(|o| o.0)), "acting": Node::array(at.acting.iter().map(|o| o.0)),
        }
    };
    let plain = |_: &Call<'_>| {
        format!("osdmap e{} pg {pg} ({pg}) -> up {} acting {}\n", map.epoch, list(&at.up), list(&at.acting))
    };
    Ok(call.print(node, plain))
}

struct Placement {
    raw: PgId,
    pg: PgId,
    up: OsdSet,
    up_primary: Option<OsdId>,
    acting: OsdSet,
    acting_primary: Option<OsdId>,
}

fn place(map: &OsdMap, pool: PoolId, nspace: &str, object: &str) -> Option<Placement> {
    let raw = map.object_to_pg(pool, &text::to_bytes(nspace), b"", &text::to_bytes(object))?;
    let pg = map.raw_pg_to_pg(raw)?;
    let at = map.pg_to_up_acting(pg);
    Some(Placement {
        raw,
        pg,
        up: at.up,
        up_primary: at.up_primary,
        acting: at.acting,
        acting_primary: at.acting_primary,
    })
}

fn primary(osd: Option<OsdId>) -> i32 {
    osd.map_or(-1, |osd| osd.0)
}

fn list(osds: &OsdSet) -> String {
    let each: Vec<_> = osds.iter().map(|osd| osd.0.to_string()).collect();
    format!("[{}]", each.join(","))
}

pub(super) fn find(call: &mut Call<'_>) -> Outcome {
    let id = osd_arg(call, "id")?;
    let map = call.state.osdmap();
    let missing = || Failure::missing(format!("osd.{id} does not exist"));
    let osd = map.osd(id).ok_or_else(missing)?;
    let location = crate::hierarchy::location(&map.crush, id.0);
    let host = location.iter().find(|(kind, _)| kind == "host").map(|(_, name)| name.clone());
    let node = object! {
        "osd": id.0,
        "addrs": view::addrvec(&osd.client_addrs),
        "osd_fsid": osd.uuid.to_string(),
        "host": host.unwrap_or_default(),
        "crush_location": Node::map(location.iter().map(|(kind, name)| (kind, name.as_str()))),
    };
    Ok(call.print_json(&node))
}

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    change_flag(call, "set", MapFlags::union)
}

pub(super) fn unset(call: &mut Call<'_>) -> Outcome {
    change_flag(call, "unset", MapFlags::difference)
}

/// Sets a ratio. The text is a stock monitor's.
pub(super) fn set_ratio(call: &mut Call<'_>) -> Outcome {
    let prefix = call.args.prefix()?.to_owned();
    let ratio = call.args.float("ratio").unwrap_or_default();
    call.state.change_osdmap(call.now, |_, inc| {
        let place = match prefix.as_str() {
            "osd set-full-ratio" => &mut inc.new_full_ratio,
            "osd set-backfillfull-ratio" => &mut inc.new_backfillfull_ratio,
            _ => &mut inc.new_nearfull_ratio,
        };
        *place = Some(ratio.az::<f32>());
    })?;
    Ok(Reply::status(format!("{prefix} {ratio}")))
}

fn change_flag(call: &mut Call<'_>, word: &str, change: fn(MapFlags, MapFlags) -> MapFlags) -> Outcome {
    let key = call.args.required("key");
    let Some(flag) = flag(key) else {
        return Err(Failure::invalid(format!("unrecognized flag '{key}'")));
    };
    let shown = if key == "pause" { "pauserd,pausewr" } else { key };
    let before = call.state.osdmap().flags;
    let after = change(before, flag);
    if after != before {
        call.state.change_osdmap(call.now, |_, inc| inc.new_flags = Some(after))?;
    }
    Ok(Reply::status(format!("{shown} is {word}")))
}

fn flag(key: &str) -> Option<MapFlags> {
    if !SETTABLE_FLAGS.contains(&key) {
        return None;
    }
    if key == "pause" {
        return Some(MapFlags::PAUSERD.union(MapFlags::PAUSEWR));
    }
    let named = view::MAP_FLAG_NAMES.iter().find(|(_, name)| *name == key);
    named.map(|(bit, _)| MapFlags::from_bits_retain(1 << bit))
}
