//! `osd pool get | set`: a pool's settings.

use loligo_maps::crush::CrushMap;
use loligo_maps::{OsdMap, PgPool, PoolFlags};

use super::{Call, Errno, Failure, Outcome, Reply};
use crate::output::json::Node;
use crate::state::State;
use crate::state::erasure::Code;
use crate::view;

/// What `osd pool get` knows.
pub(super) const READABLE: [&str; 17] = [
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
    "use_gmt_hitset",
    "fast_read",
    "pg_autoscale_mode",
    "bulk",
    "allow_ec_overwrites",
    "erasure_code_profile",
    "all",
];
/// What `osd pool set` changes.
pub(super) const WRITABLE: [&str; 13] = [
    "size",
    "min_size",
    "pg_num",
    "pgp_num",
    "crush_rule",
    "nodelete",
    "nopgchange",
    "nosizechange",
    "write_fadvise_dontneed",
    "pg_autoscale_mode",
    "bulk",
    "fast_read",
    "allow_ec_overwrites",
];
/// Settings that only erasure-coded pools have.
const OF_ERASURE: [&str; 2] = ["allow_ec_overwrites", "erasure_code_profile"];

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("pool");
    let id = call.state.pool_id(name)?;
    let map = call.state.osdmap();
    let Some(pool) = map.pool(id) else { return Ok(Reply::default()) };
    let var = call.args.required("var");
    if !READABLE.contains(&var) {
        return Err(Failure::invalid(format!("unrecognized variable '{var}'")));
    }
    if !pool.is_erasure() && OF_ERASURE.contains(&var) {
        let status = format!("pool '{name}' is not a erasure pool: variable not applicable");
        return Err(Failure::new(Errno::EACCES, status));
    }
    let chosen = READABLE.iter().filter(|v| **v != "all" && (var == "all" || var == **v));
    let chosen = chosen.filter(|v| pool.is_erasure() || !OF_ERASURE.contains(*v));
    let values: Vec<_> = chosen.filter_map(|v| Some((*v, value(map, pool, v)?))).collect();
    let node = |_: &Call<'_>| {
        let mut node = Node::map([("pool", Node::from(name)), ("pool_id", Node::from(id.0))]);
        values.iter().for_each(|(var, value)| node.push(var, value.clone()));
        node
    };
    let plain =
        |_: &Call<'_>| values.iter().map(|(var, value)| format!("{var}: {}\n", bare(var, value))).collect();
    Ok(call.print(node, plain))
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
        "erasure_code_profile" => Node::from(pool.erasure_code_profile.to_string()),
        "fast_read" => Node::from(u8::from(pool.fast_read)),
        "pg_autoscale_mode" => Node::from(view::autoscale_mode(pool.pg_autoscale_mode)),
        _ => return None,
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
        "bulk" => PoolFlags::BULK,
        "allow_ec_overwrites" => PoolFlags::EC_OVERWRITES,
        _ => return None,
    })
}

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let id = call.state.pool_id(call.args.required("pool"))?;
    let (var, val) = (call.args.required("var"), call.args.required("val"));
    if !WRITABLE.contains(&var) {
        return Err(Failure::invalid(format!("unrecognized variable '{var}'")));
    }
    let Some(pool) = call.state.osdmap().pool(id) else { return Ok(Reply::default()) };
    match parse_change(call.state, pool, var, val)? {
        Change::PgNum(pg_num) => call.state.set_pg_num(call.now, id, pg_num)?,
        change => call.state.change_pool(call.now, id, |pool| change.apply(pool))?,
    }
    Ok(Reply::status(format!("set pool {id} {var} to {val}")))
}

/// A change of a pool that was found to be possible.
enum Change {
    /// See [`State::set_pg_num`](crate::state::State::set_pg_num).
    PgNum(u32),
    PgpNum(u32),
    /// With the fewest copies that I/O goes on with.
    Size(u8),
    MinSize(u8),
    Rule(u8),
    FastRead(bool),
    Flag(PoolFlags, bool),
    AutoscaleMode(u8),
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
            Self::Flag(flag, true) => pool.flags = pool.flags.with(flag),
            Self::Flag(flag, false) => pool.flags = pool.flags.without(flag),
            Self::AutoscaleMode(mode) => pool.pg_autoscale_mode = mode,
        }
    }
}

fn parse_change(state: &State, pool: &PgPool, var: &str, val: &str) -> Result<Change, Failure> {
    if var == "allow_ec_overwrites" {
        return ec_overwrites(pool, val);
    }
    if let Some(flag) = flag(var) {
        return Ok(Change::Flag(flag, on_or_off(val)?));
    }
    match var {
        "size" => size(state, pool, number(val)?),
        "min_size" => min_size(state, pool, number(val)?),
        "fast_read" if pool.is_erasure() => on_or_off(val).map(Change::FastRead),
        "fast_read" => Err(Failure::invalid("fast read is not supported in replication pool")),
        "pg_num" => pg_num(pool, number(val)?),
        "pgp_num" => pgp_num(pool, number(val)?),
        "crush_rule" => crush_rule(&state.osdmap().crush, pool, val),
        _ => match ["off", "warn", "on"].iter().position(|mode| *mode == val) {
            Some(mode) => Ok(Change::AutoscaleMode(mode as u8)),
            None => Err(Failure::invalid(format!("specified invalid mode {val}"))),
        },
    }
}

/// Overwrites cannot be taken back: there may be objects that were overwritten.
fn ec_overwrites(pool: &PgPool, val: &str) -> Result<Change, Failure> {
    if !pool.is_erasure() {
        return Err(Failure::invalid("ec overwrites can only be enabled for an erasure coded pool"));
    }
    match on_or_off(val)? {
        true => Ok(Change::Flag(PoolFlags::EC_OVERWRITES, true)),
        false => Err(Failure::invalid("ec overwrites cannot be disabled once enabled")),
    }
}

fn size(state: &State, pool: &PgPool, size: i64) -> Result<Change, Failure> {
    if pool.is_erasure() {
        return Err(Failure::new(Errno::EOPNOTSUPP, "can not change the size of an erasure-coded pool"));
    }
    if pool.flags.has(PoolFlags::NOSIZECHANGE) {
        let status = "pool size change is disabled; you must unset nosizechange flag for the pool first";
        return Err(Failure::new(Errno::EPERM, status));
    }
    super::pool::check_size(state, size).map(Change::Size)
}

fn min_size(state: &State, pool: &PgPool, min_size: i64) -> Result<Change, Failure> {
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
        return Err(Failure::invalid(format!("crush rule {number} type does not match pool")));
    }
    Ok(Change::Rule(number))
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

fn number(val: &str) -> Result<i64, Failure> {
    val.parse().map_err(|_| Failure::invalid(format!("error parsing integer value '{val}': not an integer")))
}

fn on_or_off(val: &str) -> Result<bool, Failure> {
    match val {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(Failure::invalid("expecting value 'true', 'false', '0', or '1'")),
    }
}
