//! `osd pool get | set`: a pool's settings.

use loligo_maps::{OsdMap, PgPool, PoolFlags, PoolOpt};

use super::crush_change::is_replicated;
use super::pool_opts::{PoolSetting, UNSET, integer};
use super::{Call, Errno, Failure, Outcome, Reply};
use crate::output::json::Node;
use crate::view;

/// What `osd pool get` knows.
pub(super) const READABLE: [&str; 58] = [
    "size",
    "min_size",
    "pg_num",
    "pgp_num",
    "crush_rule",
    "hashpspool",
    "nodelete",
    "nopgchange",
    "nosizechange",
    "write_fadvise_dontneed",
    "noscrub",
    "nodeep-scrub",
    "hit_set_type",
    "hit_set_period",
    "hit_set_count",
    "hit_set_fpp",
    "use_gmt_hitset",
    "target_max_objects",
    "target_max_bytes",
    "cache_target_dirty_ratio",
    "cache_target_dirty_high_ratio",
    "cache_target_full_ratio",
    "cache_min_flush_age",
    "cache_min_evict_age",
    "erasure_code_profile",
    "min_read_recency_for_promote",
    "min_write_recency_for_promote",
    "fast_read",
    "hit_set_grade_decay_rate",
    "hit_set_search_last_n",
    "scrub_min_interval",
    "scrub_max_interval",
    "deep_scrub_interval",
    "recovery_priority",
    "recovery_op_priority",
    "scrub_priority",
    "compression_mode",
    "compression_algorithm",
    "compression_required_ratio",
    "compression_max_blob_size",
    "compression_min_blob_size",
    "csum_type",
    "csum_max_block",
    "csum_min_block",
    "allow_ec_overwrites",
    "fingerprint_algorithm",
    "pg_autoscale_mode",
    "pg_num_min",
    "target_size_bytes",
    "target_size_ratio",
    "pg_autoscale_bias",
    "dedup_tier",
    "dedup_chunk_algorithm",
    "dedup_cdc_chunk_size",
    "pg_num_max",
    "bulk",
    EIO,
    "all",
];
/// What `osd pool set` changes.
pub(super) const WRITABLE: [&str; 57] = [
    "size",
    "min_size",
    "pg_num",
    "pgp_num",
    "pgp_num_actual",
    "crush_rule",
    "hashpspool",
    "nodelete",
    "nopgchange",
    "nosizechange",
    "write_fadvise_dontneed",
    "noscrub",
    "nodeep-scrub",
    "hit_set_type",
    "hit_set_period",
    "hit_set_count",
    "hit_set_fpp",
    "use_gmt_hitset",
    "target_max_bytes",
    "target_max_objects",
    "cache_target_dirty_ratio",
    "cache_target_dirty_high_ratio",
    "cache_target_full_ratio",
    "cache_min_flush_age",
    "cache_min_evict_age",
    "min_read_recency_for_promote",
    "min_write_recency_for_promote",
    "fast_read",
    "hit_set_grade_decay_rate",
    "hit_set_search_last_n",
    "scrub_min_interval",
    "scrub_max_interval",
    "deep_scrub_interval",
    "recovery_priority",
    "recovery_op_priority",
    "scrub_priority",
    "compression_mode",
    "compression_algorithm",
    "compression_required_ratio",
    "compression_max_blob_size",
    "compression_min_blob_size",
    "csum_type",
    "csum_min_block",
    "csum_max_block",
    "allow_ec_overwrites",
    "fingerprint_algorithm",
    "pg_autoscale_mode",
    "pg_autoscale_bias",
    "pg_num_min",
    "pg_num_max",
    "target_size_bytes",
    "target_size_ratio",
    "dedup_tier",
    "dedup_chunk_algorithm",
    "dedup_cdc_chunk_size",
    "bulk",
    EIO,
];
/// A setting of later releases than the rest: operations on the pool's objects fail with EIO.
const EIO: &str = "eio";

/// Settings of tiers of caches, which pools here are not.
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
/// Settings of erasure-coded pools, which there are none of.
const OF_ERASURE: [&str; 2] = ["erasure_code_profile", "allow_ec_overwrites"];

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("pool");
    let id = call.state.pool_id(name)?;
    let map = call.state.osdmap();
    let Some(pool) = map.pool(id) else { return Ok(Reply::default()) };
    let values = match call.args.required("var") {
        // As in the release that the rest is of.
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

/// One setting, or why there is none.
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
    if let Some(flag) = flag(var) {
        return Some(Node::from(pool.flags.has(flag)));
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
        "fast_read" => Node::from(u8::from(pool.fast_read)),
        "pg_autoscale_mode" => Node::from(view::autoscale_mode(pool.pg_autoscale_mode)),
        _ => return PoolSetting::find(var)?.shown(pool),
    })
}

/// A value for people. One boolean is printed as a number there, as Ceph does.
fn bare(var: &str, value: &Node) -> String {
    match value {
        Node::Str(text) => text.clone(),
        Node::Bool(set) if var == "use_gmt_hitset" => u8::from(*set).to_string(),
        other => other.to_string(),
    }
}

/// The flag that a setting is.
fn flag(var: &str) -> Option<PoolFlags> {
    Some(match var {
        "hashpspool" => PoolFlags::HASHPSPOOL,
        "nodelete" => PoolFlags::NODELETE,
        "nopgchange" => PoolFlags::NOPGCHANGE,
        "nosizechange" => PoolFlags::NOSIZECHANGE,
        "write_fadvise_dontneed" => PoolFlags(1 << 7),
        "noscrub" => PoolFlags::NOSCRUB,
        "nodeep-scrub" => PoolFlags::NODEEP_SCRUB,
        "bulk" => PoolFlags::BULK,
        EIO => PoolFlags::EIO,
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

/// A change of a pool that was found to be possible.
enum Change {
    Nothing,
    /// See [`State::set_pg_num`](crate::state::State::set_pg_num).
    PgNum(u32),
    PgpNum(u32),
    CrushRule(u8),
    Flag(PoolFlags, bool),
    AutoscaleMode(u8),
    Setting(&'static PoolSetting, Option<PoolOpt>),
}

impl Change {
    fn apply(self, pool: &mut PgPool) {
        match self {
            Self::Nothing | Self::PgNum(_) => {}
            Self::CrushRule(rule) => pool.crush_rule = rule,
            Self::PgpNum(pgp_num) => pool.set_pgp_num(pgp_num),
            Self::Flag(flag, true) => pool.flags = pool.flags.with(flag),
            Self::Flag(flag, false) => pool.flags = pool.flags.without(flag),
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
        "min_size" => min_size(pool, val),
        "pg_num" => pg_num(pool, integer("integer", val)?),
        "pgp_num" | "pgp_num_actual" => pgp_num(pool, integer("integer", val)?),
        "crush_rule" => crush_rule(call.state.osdmap(), val),
        "pg_autoscale_mode" => match ["off", "warn", "on"].iter().position(|mode| *mode == val) {
            Some(mode) => Ok(Change::AutoscaleMode(mode as u8)),
            None => Err(Failure::invalid(format!("specified invalid mode {val}"))),
        },
        "fast_read" => Err(Failure::invalid("fast read is not supported in replication pool")),
        "allow_ec_overwrites" => {
            Err(Failure::invalid("ec overwrites can only be enabled for an erasure coded pool"))
        }
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

/// The least and the greatest number of copies.
const SIZES: std::ops::RangeInclusive<i64> = 1..=10;

/// A pool has as many copies as there are OSDs.
fn size(call: &Call<'_>, pool: &PgPool, val: &str) -> Result<Change, Failure> {
    if pool.flags.has(PoolFlags::NOSIZECHANGE) {
        let status = "pool size change is disabled; you must unset nosizechange flag for the pool first";
        return Err(Failure::new(Errno::EPERM, status));
    }
    let size = integer("integer", val)?;
    if !SIZES.contains(&size) {
        return Err(Failure::invalid("pool size must be between 1 and 10"));
    }
    super::pool::check_size(size)?;
    if !call.args.flag("yes_i_really_mean_it") {
        let status = "WARNING: setting pool size 1 could lead to data loss without recovery. If you are *ABSOLUTELY \
                      CERTAIN* that is what you want, pass the flag --yes-i-really-mean-it.";
        return Err(Failure::new(Errno::EPERM, status));
    }
    Ok(Change::Nothing)
}

fn min_size(pool: &PgPool, val: &str) -> Result<Change, Failure> {
    if pool.flags.has(PoolFlags::NOSIZECHANGE) {
        let status = "pool min size change is disabled; you must unset nosizechange flag for the pool first";
        return Err(Failure::new(Errno::EPERM, status));
    }
    if integer("integer", val)? == i64::from(pool.size) {
        return Ok(Change::Nothing);
    }
    let status = format!("pool min_size must be between 1 and size, which is set to {}", pool.size);
    Err(Failure::invalid(status))
}

fn crush_rule(map: &OsdMap, val: &str) -> Result<Change, Failure> {
    let rule = map.crush.rule_by_name(val);
    let rule = rule.ok_or_else(|| Failure::missing(format!("crush rule {val} does not exist")))?;
    match u8::try_from(rule).ok().filter(|_| is_replicated(&map.crush, rule)) {
        Some(rule) => Ok(Change::CrushRule(rule)),
        None => Err(Failure::invalid(format!("crush rule {rule} type does not match pool"))),
    }
}

fn pg_num(pool: &PgPool, number: i64) -> Result<Change, Failure> {
    may_change_pgs(pool, "pg_num")?;
    // What is out of range for a number of placement groups is refused with what is out of the pool's range.
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
    if !pool.flags.has(PoolFlags::NOPGCHANGE) {
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
