//! Output in the form of `rbd`.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_rados::{PoolId, Rados, SnapId};
use loligo_rbd::group::{Belonging, InGroup};
use loligo_rbd::{Image, Parent, SnapKind, Snapshot, Usage, features};
use loligo_wire::UTime;
use serde_json::{Value, json};

use crate::args::Format;
use crate::name::{Name, shown};
use crate::say::say_line;
use crate::table;

/// The relations of an image.
pub(super) struct Of<'a> {
    pub(super) snap: Option<&'a Snapshot>,
    pub(super) parent: Option<&'a Parent>,
    pub(super) group: Option<&'a Belonging>,
}

/// Shows an image's properties.
pub(super) fn info(rados: &Rados, image: &Image, Of { snap, parent, group }: Of<'_>, format: Format) {
    let view = image.view();
    // A snapshot has an object map of its own.
    let flags = snap.map_or(view.flags, |snap| snap.flags);
    let layout = image.layout();
    let (size, objects) = (image.size(), layout.object_count(image.size()));
    let [created, accessed, modified] = view.times.map(date);
    let striping = (layout.stripe_unit() != layout.object_size() || layout.stripe_count() != 1)
        .then(|| (layout.stripe_unit(), layout.stripe_count()));
    let data_pool = image.data_pool().map(|pool| pool_name(rados, pool));
    let group = group.map(|group| path(rados, group.pool, &group.namespace, &group.name));
    let is_old = image.format() == loligo_rbd::Format::First;
    if format != Format::Plain {
        let mut all = json!({
            "name": shown(image.name()), "id": image.id(), "size": size, "objects": objects, "order": image.order(),
            "object_size": layout.object_size(), "snapshot_count": view.snapshots.len(),
            "block_name_prefix": image.block_name_prefix(), "format": image.format().number(),
        });
        if !is_old {
            all["features"] = json!(features::names(view.features));
            all["op_features"] = json!(features::op_names(view.op_features));
            all["flags"] = json!(features::flag_names(flags));
            all["create_timestamp"] = created.into();
            all["access_timestamp"] = accessed.into();
            all["modify_timestamp"] = modified.into();
        }
        if let Some(pool) = data_pool {
            all["data_pool"] = pool.into();
        }
        if let Some(group) = group {
            all["group"] = group.into();
        }
        if let Some(snap) = snap {
            // A text, as in `rbd`.
            all["protected"] = snap.protected.to_string().into();
        }
        if let Some(parent) = parent {
            all["parent"] = json!({
                "pool": pool_name(rados, parent.pool), "pool_namespace": shown(&parent.namespace),
                "image": shown(&parent.image), "id": parent.id, "snapshot": shown(&parent.snapshot), "trash": parent.in_trash, "overlap": parent.overlap,
            });
        }
        if let Some((unit, count)) = striping {
            all["stripe_unit"] = unit.into();
            all["stripe_count"] = count.into();
        }
        format.print("image", "item", &all);
        return;
    }
    say_line(&format!("rbd image '{}':", shown(image.name())));
    sayln!("\tsize {} in {objects} objects", bytes(size));
    sayln!("\torder {} ({} objects)", image.order(), bytes(layout.object_size()));
    sayln!("\tsnapshot_count: {}", view.snapshots.len());
    if !is_old {
        sayln!("\tid: {}", image.id());
    }
    if let Some(pool) = data_pool {
        sayln!("\tdata_pool: {pool}");
    }
    sayln!("\tblock_name_prefix: {}", image.block_name_prefix());
    sayln!("\tformat: {}", image.format().number());
    if !is_old {
        sayln!("\tfeatures: {}", features::names(view.features).join(", "));
        sayln!("\top_features: {}", features::op_names(view.op_features).join(", "));
        sayln!("\tflags: {}", features::flag_names(flags).join(", "));
    }
    if let Some(group) = group {
        say_line(&format!("\tgroup: {group}"));
    }
    if !is_old {
        sayln!("\tcreate_timestamp: {created}");
        sayln!("\taccess_timestamp: {accessed}");
        sayln!("\tmodify_timestamp: {modified}");
    }
    if let Some(snap) = snap {
        sayln!("\tprotected: {}", if snap.protected { "True" } else { "False" });
    }
    if let Some(parent) = parent {
        let trash = if parent.in_trash { format!(" (trash {})", parent.id) } else { String::new() };
        let of = path(rados, parent.pool, &parent.namespace, &parent.image);
        say_line(&format!("\tparent: {of}@{}{trash}", shown(&parent.snapshot)));
        sayln!("\toverlap: {}", bytes(parent.overlap));
    }
    if let Some((unit, count)) = striping {
        sayln!("\tstripe unit: {}\n\tstripe count: {count}", bytes(unit));
    }
}

/// A snapshot of an image, and the group snapshot that it was created with.
pub(super) struct MadeWith {
    pub(super) id: SnapId,
    pub(super) pool: String,
    pub(super) of: InGroup,
}

/// Lists an image's snapshots: those of users, or all.
pub(super) fn snapshots(snaps: &[Snapshot], made_with: &[MadeWith], all: bool, format: Format) {
    let made_with = |snap: &Snapshot| made_with.iter().find(|made| made.id == snap.info.id);
    let snaps = snaps.iter().filter(|snap| all || snap.info.kind == SnapKind::User);
    if format != Format::Plain {
        let one = |snap: &Snapshot| {
            let info = &snap.info;
            // `protected` is a text, as in `rbd`.
            let mut one = json!({
                "id": info.id.0, "name": shown(&info.name), "size": info.size, "protected": snap.protected.to_string(),
                "timestamp": date_if_known(info.taken),
            });
            if all {
                one["namespace"] = json!({"type": kind(&info.kind)});
                if let SnapKind::Trash { name, .. } = &info.kind {
                    one["namespace"]["original_name"] = shown(name).into();
                }
                if let Some(MadeWith { pool, of, .. }) = made_with(snap) {
                    one["namespace"]["pool"] = pool.clone().into();
                    one["namespace"]["group"] = shown(&of.group).into();
                    one["namespace"]["group snap"] = shown(&of.snapshot).into();
                }
            }
            one
        };
        format.print("snapshots", "snapshot", &Value::from(snaps.map(one).collect::<Vec<_>>()));
        return;
    }
    let row = |snap: &Snapshot| {
        let info = &snap.info;
        let protected = if snap.protected { "yes" } else { "" };
        let namespace = match (&info.kind, made_with(snap)) {
            (SnapKind::Trash { name, .. }, _) => format!("trash ({})", shown(name)),
            (_, Some(MadeWith { pool, of, .. })) => {
                format!("group ({pool}/{}@{})", shown(&of.group), shown(&of.snapshot))
            }
            (kind_of, None) => kind(kind_of).to_owned(),
        };
        let [size, taken] = [bytes(info.size), date_if_known(info.taken)];
        [info.id.0.to_string(), shown(&info.name), size, protected.to_owned(), taken, namespace]
    };
    let titles = ["SNAPID", "NAME", "SIZE", "PROTECTED", "TIMESTAMP", "NAMESPACE"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(titles).chain(snaps.map(row)).collect();
    let right = [true, false, true, false, false, false];
    match rows.len() {
        1 => {}
        _ if all => table(right, rows),
        _ => table([true, false, true, false, false], rows.into_iter().map(without_last).collect()),
    }
}

fn without_last([a, b, c, d, e, _]: [String; 6]) -> [String; 5] {
    [a, b, c, d, e]
}

/// Names the origin of a snapshot, as `rbd snap ls --all` does.
fn kind(kind: &SnapKind) -> &'static str {
    match kind {
        SnapKind::User => "user",
        SnapKind::Group { .. } => "group",
        SnapKind::Trash { .. } => "trash",
        SnapKind::Mirror(_) => "mirror",
        SnapKind::Unknown(_) => "unknown",
    }
}

/// Shows an image's metadata in the form of `rbd`.
pub(super) fn metadata(pairs: &BTreeMap<Name, Bytes>) {
    match pairs.len() {
        0 => return,
        1 => sayln!("There is 1 metadatum on this image:\n"),
        count => sayln!("There are {count} metadata on this image:\n"),
    }
    let titles = ["Key", "Value"].map(str::to_owned);
    let rows = pairs.iter().map(|(key, value)| [shown(key), shown(value)]);
    table([false; 2], std::iter::once(titles).chain(rows).collect());
}

/// Lists a pool's namespaces.
pub(super) fn namespaces(names: &[Name], format: Format) {
    if format != Format::Plain {
        let all: Vec<Value> = names.iter().map(|name| json!({"name": shown(name)})).collect();
        format.print("namespaces", "namespace", &Value::from(all));
    } else if !names.is_empty() {
        let rows = names.iter().map(|name| [shown(name)]);
        table([false], std::iter::once(["NAME".to_owned()]).chain(rows).collect());
    }
}

/// Shows the space that images use, by name and id. The JSON has totals only if the images are `all_of`
/// the pool's, as in `rbd`.
pub(super) fn usage(images: &[(Name, String, Vec<Usage>)], all_of: bool, format: Format) {
    let rows = images.iter().flat_map(|(name, id, all)| all.iter().map(move |usage| (name, id, usage)));
    let sum = |of: fn(&Usage) -> u64| rows.clone().map(|(_, _, usage)| of(usage)).sum::<u64>();
    let heads = images.iter().filter_map(|(_, _, all)| all.last());
    let (provisioned, used) = (heads.map(|usage| usage.provisioned).sum::<u64>(), sum(|usage| usage.used));
    if format != Format::Plain {
        let one = |(name, id, usage): (&Name, &String, &Usage)| {
            let mut all = json!({
                "name": shown(name), "id": id, "provisioned_size": usage.provisioned, "used_size": usage.used,
            });
            if let Some((snap_id, snap)) = &usage.snapshot {
                all["snapshot"] = shown(snap).into();
                all["snapshot_id"] = snap_id.0.into();
            }
            all
        };
        let all: Vec<Value> = rows.map(one).collect();
        let mut total = json!({"images": all});
        if all_of {
            total["total_provisioned_size"] = provisioned.into();
            total["total_used_size"] = used.into();
        }
        format.print("stats", "item", &total);
        return;
    }
    let row = |(name, _, usage): (&Name, &String, &Usage)| {
        let name = match &usage.snapshot {
            Some((_, snap)) => format!("{}@{}", shown(name), shown(snap)),
            None => shown(name),
        };
        [name, bytes(usage.provisioned), bytes(usage.used)]
    };
    let count = rows.clone().count();
    let titles = ["NAME", "PROVISIONED", "USED"].map(str::to_owned);
    let mut all: Vec<_> = std::iter::once(titles).chain(rows.map(row)).collect();
    if count > 1 {
        all.push(["<TOTAL>".to_owned(), bytes(provisioned), bytes(used)]);
    }
    table([false, true, true], all);
}

/// Returns the name of a pool, or its number if it does not exist any more.
pub(super) fn pool_name(rados: &Rados, id: PoolId) -> String {
    rados.pools().into_iter().find(|(pool, _)| *pool == id).map_or(id.0.to_string(), |(_, name)| name)
}

/// Returns an image's path as `rbd` writes it. Names are in the form of [`shown`].
pub(super) fn path(rados: &Rados, pool: PoolId, namespace: &Name, image: &Name) -> String {
    let (pool, image) = (pool_name(rados, pool), shown(image));
    if namespace.is_empty() {
        format!("{pool}/{image}")
    } else {
        format!("{pool}/{}/{image}", shown(namespace))
    }
}

/// Prints a table with titles and two spaces between columns. `right` selects the columns that are
/// right-aligned; titles are always left-aligned. Names are in the form of [`shown`].
pub(super) fn table<const N: usize>(right: [bool; N], rows: Vec<[String; N]>) {
    table::lines(right, &rows).iter().for_each(|line| say_line(line));
}

/// Formats a number of bytes as Ceph does: with one decimal if there is only one digit before the point.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let index = (n.max(1).ilog2() / 10) as usize;
    let unit = 1u64 << (10 * index);
    if n.is_multiple_of(unit) {
        return format!("{} {}", n / unit, UNITS[index]);
    }
    let number = n as f64 / unit as f64;
    let short = format!("{number:.1}");
    let text = if short.len() < 4 { short } else { format!("{number:.0}") };
    format!("{text} {}", UNITS[index])
}

/// Formats a time as C's `ctime` does, in UTC.
pub(super) fn date(time: UTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    // The form of `civil`: 2026-11-21T01:11:23.895810
    let civil = time.civil();
    let number =
        |from: usize, to: usize| civil.get(from..to).and_then(|n| n.parse::<usize>().ok()).unwrap_or(1);
    let day = DAYS[(time.sec / 86_400 % 7) as usize];
    let (month, clock) = (MONTHS[(number(5, 7) - 1) % 12], civil.get(11..19).unwrap_or_default());
    format!("{day} {month} {:>2} {clock} {}", number(8, 10), number(0, 4))
}

/// Formats a time; it is unknown for a snapshot of an image of the first format.
fn date_if_known(time: UTime) -> String {
    if time.is_zero() { String::new() } else { date(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ceph_s() {
        for (n, text) in [
            (0, "0 B"),
            (1000, "1000 B"),
            (64 << 20, "64 MiB"),
            (9_000_000, "8.6 MiB"),
            (30_000_001, "29 MiB"),
            (1023 << 20 | 1, "1023 MiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
    }

    #[test]
    fn dates_are_ctime_s() {
        assert_eq!(date(UTime { sec: 1_795_400_000, nsec: 0 }), "Mon Nov 23 02:13:20 2026");
        assert_eq!(date(UTime::default()), "Thu Jan  1 00:00:00 1970");
    }
}
