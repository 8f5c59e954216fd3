//! `osd pool get | set`: a pool's settings.

use az::SaturatingAs as _;
use loligo_maps::crush::CrushMap;
use loligo_maps::{OsdMap, PgPool, PoolFlags, PoolOpt};

use super::pool_opts::{PoolSetting, UNSET, integer};
use super::{Call, Errno, Failure, Outcome, Reply};
use crate::output::json::Node;
use crate::state::State;
use crate::state::erasure::Code;
use crate::view;

/// The commands that support a setting.
#[derive(Clone, Copy)]
enum Known {
    Both,
    Get,
    Set,
}

/// The settings, in the order in which `osd pool get … all` shows them.
const VARS: [(&str, Known); 59] = [
    ("size", Known::Both),
    ("min_size", Known::Both),
    ("pg_num", Known::Both),
    ("pgp_num", Known::Both),
    ("pgp_num_actual", Known::Set),
    ("crush_rule", Known::Both),
    ("hashpspool", Known::Both),
    ("allow_ec_overwrites", Known::Both),
    ("nodelete", Known::Both),
    ("nopgchange", Known::Both),
    ("nosizechange", Known::Both),
    ("write_fadvise_dontneed", Known::Both),
    ("noscrub", Known::Both),
    ("nodeep-scrub", Known::Both),
    ("hit_set_type", Known::Both),
    ("hit_set_period", Known::Both),
    ("hit_set_count", Known::Both),
    ("hit_set_fpp", Known::Both),
    ("use_gmt_hitset", Known::Both),
    ("target_max_objects", Known::Both),
    ("target_max_bytes", Known::Both),
    ("cache_target_dirty_ratio", Known::Both),
    ("cache_target_dirty_high_ratio", Known::Both),
    ("cache_target_full_ratio", Known::Both),
    ("cache_min_flush_age", Known::Both),
    ("cache_min_evict_age", Known::Both),
    ("erasure_code_profile", Known::Get),
    ("min_read_recency_for_promote", Known::Both),
    ("min_write_recency_for_promote", Known::Both),
    ("fast_read", Known::Both),
    ("hit_set_grade_decay_rate", Known::Both),
    ("hit_set_search_last_n", Known::Both),
    ("scrub_min_interval", Known::Both),
    ("scrub_max_interval", Known::Both),
    ("deep_scrub_interval", Known::Both),
    ("recovery_priority", Known::Both),
    ("recovery_op_priority", Known::Both),
    ("scrub_priority", Known::Both),
    ("compression_mode", Known::Both),
    ("compression_algorithm", Known::Both),
    ("compression_required_ratio", Known::Both),
    ("compression_max_blob_size", Known::Both),
    ("compression_min_blob_size", Known::Both),
    ("csum_type", Known::Both),
    ("csum_max_block", Known::Both),
    ("csum_min_block", Known::Both),
    ("fingerprint_algorithm", Known::Both),
    ("pg_autoscale_mode", Known::Both),
    ("pg_num_min", Known::Both),
    ("target_size_bytes", Known::Both),
    ("target_size_ratio", Known::Both),
    ("pg_autoscale_bias", Known::Both),
    ("dedup_tier", Known::Both),
    ("dedup_chunk_algorithm", Known::Both),
    ("dedup_cdc_chunk_size", Known::Both),
    ("pg_num_max", Known::Both),
    ("bulk", Known::Both),
    (EIO, Known::Both),
    ("all", Known::Get),
];
/// The settings that `osd pool get` accepts.
pub(super) const READABLE: [&str; 58] = known_to(Known::Get);
/// The settings that `osd pool set` accepts.
pub(super) const WRITABLE: [&str; 57] = known_to(Known::Set);

const fn known_to<const N: usize>(command: Known) -> [&'static str; N] {
    let (mut names, mut at, mut found) = ([""; N], 0, 0);
    while at < VARS.len() {
        let (name, known) = VARS[at];
        if matches!((known, command), (Known::Both, _) | (Known::Get, Known::Get) | (Known::Set, Known::Set))
        {
            names[found] = name;
            found += 1;
        }
        at += 1;
    }
    assert!(found == N, "the number of names is known");
    names
}

/// A setting from later releases than the others: operations on the pool's objects fail with EIO.
const EIO: &str = "eio";

/// Settings of cache tiers, which do not exist here.
const OF_TIERS: [&str; 15] = [
    "hit_set_type",
    "hit_set_period",
    "hit_set_count",
    "hit_set_fpp",
    "target_max_objects",
    "target_max_bytes",
    "cache_target_dirty_ratio",
    "cache_target_dirty_high_ratio",
    "cache_target_full_ratio",
    "cache_min_flush_age",
    "cache_min_evict_age",
    "min_read_recency_for_promote",
    "min_write_recency_for_promote",
    "hit_set_grade_decay_rate",
    "hit_set_search_last_n",
];
/// Settings that only erasure-coded pools have.
const OF_ERASURE: [&str; 2] = ["erasure_code_profile", "allow_ec_overwrites"];

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("pool");
    let id = call.state.pool_id(name)?;
    let map = call.state.osdmap();
    let Some(pool) = map.pool(id) else { return Ok(Reply::default()) };
    let values = match call.args.required("var") {
        // As in the release of the other settings.
        "all" => READABLE
            .iter()
            .filter(|var| **var != EIO)
            .filter_map(|var| Some((*var, value(map, pool, var)?)))
            .collect(),
        var => vec![one(map, pool, name, var)?],
    };
    let node = |_: &Call<'_>| {
        let mut node = Node::map([("pool", Node::from(name)), ("pool_id", Node::from(id.0))]);
        values.iter().for_each(|(var, value)| node.push(var, value.clone()));
        node
    };
    let plain =
        |_: &Call<'_>| values.iter().map(|(var, value)| format!("{var}: {}\n", bare(var, value))).collect();
    Ok(call.print(node, plain))
}

/// The value of one setting, or the reason why there is none.
fn one(map: &OsdMap, pool: &PgPool, name: &str, var: &str) -> Result<(&'static str, Node), Failure> {
    let eacces = |kind| {
        Failure::new(Errno::EACCES, format!("pool '{name}' is not a {kind} pool: variable not applicable"))
    };
    let Some(known) = READABLE.iter().find(|known| **known == var) else {
        return Err(Failure::invalid(format!("pool '{name}': invalid variable: '{var}'")));
    };
    match value(map, pool, known) {
        Some(value) => Ok((*known, value)),
        None if OF_TIERS.contains(known) => Err(eacces("tier")),
        None if OF_ERASURE.contains(known) => Err(eacces("erasure")),
        None => Err(super::pool_opts::not_set(known, name)),
    }
}

fn value(map: &OsdMap, pool: &PgPool, var: &str) -> Option<Node> {
    if OF_ERASURE.contains(&var) && !pool.is_erasure() {
        return None;
    }
    if let Some(flag) = flag(var) {
        return Some(Node::from(pool.flags.contains(flag)));
    }
    Some(match var {
        "size" => Node::from(pool.size),
        "min_size" => Node::from(pool.min_size),
        "pg_num" => Node::from(pool.pg_num()),
        "pgp_num" => Node::from(pool.pgp_num()),
        "crush_rule" => {
            let name = map.crush.rule_names.get(&i32::from(pool.crush_rule));
            Node::from(name.map(ToString::to_string).unwrap_or_default())
        }
        "use_gmt_hitset" => Node::from(pool.tier.use_gmt_hitset),
        "erasure_code_profile" => Node::from(pool.erasure_code_profile.to_string()),
        "fast_read" => Node::from(u8::from(pool.fast_read)),
        "pg_autoscale_mode" => Node::from(view::autoscale_mode(pool.pg_autoscale_mode)),
        _ => return PoolSetting::find(var)?.shown(pool),
    })
}

/// A value for people. As in Ceph, one boolean prints as a number.
fn bare(var: &str, value: &Node) -> String {
    match value {
        Node::Str(text) => text.clone(),
        Node::Bool(set) if var == "use_gmt_hitset" => u8::from(*set).to_string(),
        other => other.to_string(),
    }
}

/// The flag for a setting, if it is one.
fn flag(var: &str) -> Option<PoolFlags> {
    Some(match var {
        "hashpspool" => PoolFlags::HASHPSPOOL,
        "nodelete" => PoolFlags::NODELETE,
        "nopgchange" => PoolFlags::NOPGCHANGE,
        "nosizechange" => PoolFlags::NOSIZECHANGE,
        "write_fadvise_dontneed" => PoolFlags::from_bits_retain(1 << 7),
        "noscrub" => PoolFlags::NOSCRUB,
        "nodeep-scrub" => PoolFlags::NODEEP_SCRUB,
        "bulk" => PoolFlags::BULK,
        EIO => PoolFlags::EIO,
        "allow_ec_overwrites" => PoolFlags::EC_OVERWRITES,
        _ => return None,
    })
}

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let id = call.state.pool_id(call.args.required("pool"))?;
    let (var, val) = (call.args.required("var"), call.args.required("val"));
    let Some(pool) = call.state.osdmap().pool(id) else { return Ok(Reply::default()) };
    match parse_change(call, pool, var, val)? {
        Change::PgNum(pg_num) => call.state.set_pg_num(call.now, id, pg_num)?,
        change => call.state.change_pool(call.now, id, |pool| change.apply(pool))?,
    }
    Ok(Reply::status(match val {
        UNSET => format!("unset pool {id} {var}"),
        _ => format!("set pool {id} {var} to {val}"),
    }))
}

/// A validated change of a pool.
enum Change {
    /// See [`State::set_pg_num`](crate::state::State::set_pg_num).
    PgNum(u32),
    PgpNum(u32),
    /// The number of copies. Also sets the minimum for I/O.
    Size(u8),
    MinSize(u8),
    Rule(u8),
    FastRead(bool),
    Flag(PoolFlags, bool),
    AutoscaleMode(u8),
    Setting(&'static PoolSetting, Option<PoolOpt>),
}

impl Change {
    fn apply(self, pool: &mut PgPool) {
        match self {
            Self::PgNum(_) => {}
            Self::PgpNum(pgp_num) => pool.set_pgp_num(pgp_num),
            Self::Size(size) => (pool.size, pool.min_size) = (size, size - size / 2),
            Self::MinSize(min_size) => pool.min_size = min_size,
            Self::Rule(rule) => pool.crush_rule = rule,
            Self::FastRead(on) => pool.fast_read = on,
            Self::Flag(flag, true) => pool.flags = pool.flags.union(flag),
            Self::Flag(flag, false) => pool.flags = pool.flags.difference(flag),
            Self::AutoscaleMode(mode) => pool.pg_autoscale_mode = mode,
            Self::Setting(setting, value) => setting.put(pool, value),
        }
    }
}

fn parse_change(call: &Call<'_>, pool: &PgPool, var: &str, val: &str) -> Result<Change, Failure> {
    if OF_TIERS.contains(&var) || var == "use_gmt_hitset" {
        return Err(Failure::new(Errno::EACCES, "(13) Permission denied"));
    }
    if let Some(setting) = PoolSetting::find(var) {
        return Ok(Change::Setting(setting, setting.parse(call, pool, val)?));
    }
    match var {
        "size" => size(call, pool, val),
        "min_size" => min_size(call.state, pool, integer("integer", val)?),
        "pg_num" => pg_num(pool, integer("integer", val)?),
        "pgp_num" | "pgp_num_actual" => pgp_num(pool, integer("integer", val)?),
        "crush_rule" => crush_rule(&call.state.osdmap().crush, pool, val),
        "pg_autoscale_mode" => match ["off", "warn", "on"].iter().position(|mode| *mode == val) {
            Some(mode) => Ok(Change::AutoscaleMode(mode.saturating_as::<u8>())),
            None => Err(Failure::invalid(format!("specified invalid mode {val}"))),
        },
        "fast_read" if pool.is_erasure() => on_or_off(val).map(Change::FastRead),
        "fast_read" => Err(Failure::invalid("fast read is not supported in replication pool")),
        "allow_ec_overwrites" => ec_overwrites(pool, val),
        "hashpspool" if !call.args.flag("yes_i_really_mean_it") => {
            let status = "are you SURE?  this will remap all placement groups in this pool, this triggers large data \
                          movement, pass --yes-i-really-mean-it if you really do.";
            Err(Failure::new(Errno::EPERM, status))
        }
        _ => match flag(var) {
            Some(flag) => Ok(Change::Flag(flag, on_or_off(val)?)),
            None => Err(Failure::invalid(format!("unrecognized variable '{var}'"))),
        },
    }
}

/// The range of the number of copies.
const SIZES: std::ops::RangeInclusive<i64> = 1..=10;

fn size(call: &Call<'_>, pool: &PgPool, val: &str) -> Result<Change, Failure> {
    if pool.is_erasure() {
        return Err(Failure::new(Errno::EOPNOTSUPP, "can not change the size of an erasure-coded pool"));
    }
    if pool.flags.contains(PoolFlags::NOSIZECHANGE) {
        let status = "pool size change is disabled; you must unset nosizechange flag for the pool first";
        return Err(Failure::new(Errno::EPERM, status));
    }
    let size = integer("integer", val)?;
    if !SIZES.contains(&size) {
        return Err(Failure::invalid("pool size must be between 1 and 10"));
    }
    let size = super::pool::check_size(call.state, size)?;
    if size == 1 && !call.args.flag("yes_i_really_mean_it") {
        let status = "WARNING: setting pool size 1 could lead to data loss without recovery. If you are *ABSOLUTELY \
                      CERTAIN* that is what you want, pass the flag --yes-i-really-mean-it.";
        return Err(Failure::new(Errno::EPERM, status));
    }
    Ok(Change::Size(size))
}

/// Overwrites cannot be disabled: there may already be overwritten objects.
fn ec_overwrites(pool: &PgPool, val: &str) -> Result<Change, Failure> {
    if !pool.is_erasure() {
        return Err(Failure::invalid("ec overwrites can only be enabled for an erasure coded pool"));
    }
    match on_or_off(val)? {
        true => Ok(Change::Flag(PoolFlags::EC_OVERWRITES, true)),
        false => Err(Failure::invalid("ec overwrites cannot be disabled once enabled")),
    }
}

fn min_size(state: &State, pool: &PgPool, min_size: i64) -> Result<Change, Failure> {
    if pool.flags.contains(PoolFlags::NOSIZECHANGE) {
        let status = "pool min size change is disabled; you must unset nosizechange flag for the pool first";
        return Err(Failure::new(Errno::EPERM, status));
    }
    let profile = pool.erasure_code_profile.to_string();
    let code = || Code::of(state.profile(&profile)?.clone(), true);
    let least = if pool.is_erasure() { code()?.data } else { 1 };
    match u8::try_from(min_size).ok().filter(|min| (least..=pool.size).contains(min)) {
        Some(min_size) => Ok(Change::MinSize(min_size)),
        None => Err(Failure::invalid(format!(
            "pool min_size must be between {least} and size, which is set to {}",
            pool.size
        ))),
    }
}

fn crush_rule(crush: &CrushMap, pool: &PgPool, name: &str) -> Result<Change, Failure> {
    let number = crush.rule_by_name(name).and_then(|number| u8::try_from(number).ok());
    let number = number.ok_or_else(|| Failure::missing(format!("crush rule {name} does not exist")))?;
    if crush.rule(usize::from(number)).is_some_and(|rule| rule.kind.0 != pool.kind.0) {
        return Err(Failure::invalid("(22) Invalid argument"));
    }
    Ok(Change::Rule(number))
}

fn pg_num(pool: &PgPool, number: i64) -> Result<Change, Failure> {
    may_change_pgs(pool, "pg_num")?;
    // A number that does not fit gets the same error as one outside the pool's range.
    Ok(Change::PgNum(u32::try_from(number).unwrap_or(0)))
}

fn pgp_num(pool: &PgPool, number: i64) -> Result<Change, Failure> {
    may_change_pgs(pool, "pgp_num")?;
    if number <= 0 {
        return Err(Failure::invalid(format!("specified pgp_num must > 0, but you set to {number}")));
    }
    match u32::try_from(number) {
        Ok(number) if number <= pool.pg_num() => Ok(Change::PgpNum(number)),
        _ => Err(Failure::invalid(format!("specified pgp_num {number} > pg_num {}", pool.pg_num()))),
    }
}

fn may_change_pgs(pool: &PgPool, var: &str) -> Result<(), Failure> {
    if !pool.flags.contains(PoolFlags::NOPGCHANGE) {
        return Ok(());
    }
    let status = format!("pool {var} change is disabled; you must unset nopgchange flag for the pool first");
    Err(Failure::new(Errno::EPERM, status))
}

fn on_or_off(val: &str) -> Result<bool, Failure> {
    match (val, val.parse::<i64>()) {
        ("true", _) | (_, Ok(1)) => Ok(true),
        ("false", _) | (_, Ok(0)) => Ok(false),
        _ => Err(Failure::invalid("expecting value 'true', 'false', '0', or '1'")),
    }
}
