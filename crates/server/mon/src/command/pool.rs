//! `osd pool create | rm | rename | mksnap | rmsnap`.

use loligo_maps::PgPool;
use loligo_maps::crush::CrushMap;

use super::crush_change::is_replicated;
use super::{Call, Errno, Failure, Outcome, Reply};
use crate::state::State;
use crate::state::erasure::NewErasurePool;
use crate::state::pools::Created;
use crate::text;

pub(super) fn create(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("pool");
    let pg_num = u32::try_from(call.args.int("pg_num").unwrap_or(0)).unwrap_or(u32::MAX);
    let created = match call.args.text("pool_type") {
        Some("erasure") => create_erasure(call, name, pg_num)?,
        _ => create_replicated(call, name, pg_num)?,
    };
    match created {
        Created::New(_) => Ok(Reply::status(format!("pool '{name}' created"))),
        Created::Existed(_) => Ok(Reply::status(format!("pool '{name}' already exists"))),
    }
}

fn create_erasure(call: &mut Call<'_>, name: &str, pg_num: u32) -> Result<Created, Failure> {
    let said = |arg| call.args.text(arg).filter(|text| !text.is_empty());
    let (profile, rule) = (said("erasure_code_profile"), said("rule"));
    call.state.create_erasure_pool(call.now, &NewErasurePool { name, pg_num, profile, rule })
}

fn create_replicated(call: &mut Call<'_>, name: &str, pg_num: u32) -> Result<Created, Failure> {
    // A replicated pool's rule is in the argument for the profile of an erasure-coded pool, or in the
    // next one.
    let named = call.args.text("rule").or_else(|| call.args.text("erasure_code_profile"));
    let rule =
        named.filter(|rule| !rule.is_empty()).map(|rule| rule_number(&call.state.osdmap().crush, rule));
    let size = match call.args.int("size").unwrap_or(0) {
        0 => None,
        size => Some(check_size(call.state, size)?),
    };
    if let Some(pool) = existing(call, name).filter(|pool| pool.is_erasure()) {
        return Err(Failure::invalid(format!(
            "pool '{name}' cannot change to type {}",
            kind_word(!pool.is_erasure())
        )));
    }
    call.state.create_replicated_pool(call.now, name, pg_num, size, rule.transpose()?)
}

fn existing<'a>(call: &'a Call<'_>, name: &str) -> Option<&'a PgPool> {
    let map = call.state.osdmap();
    map.pool_by_name(&text::to_bytes(name)).and_then(|id| map.pool(id))
}

fn kind_word(is_erasure: bool) -> &'static str {
    if is_erasure { "erasure" } else { "replicated" }
}

/// The number of a rule for a replicated pool.
fn rule_number(crush: &CrushMap, name: &str) -> Result<u8, Failure> {
    let missing = || Failure::missing(format!("specified rule {name} doesn't exist"));
    let rule = crush.rule_by_name(name).ok_or_else(missing)?;
    let number = u8::try_from(rule).ok().filter(|_| is_replicated(crush, rule));
    number.ok_or_else(|| Failure::invalid(format!("crush rule {rule} type does not match pool")))
}

/// Checks the number of copies of a pool.
pub(super) fn check_size(state: &State, size: i64) -> Result<u8, Failure> {
    let max = state.size_max();
    let fits = u8::try_from(size).ok().filter(|size| (1..=max).contains(size));
    fits.ok_or_else(|| {
        let most = crate::state::pools::SIZE_MAX;
        Failure::invalid(match max {
            max if max == most => format!("pool size must be between 1 and {most}"),
            max => format!(
                "pool size must be between 1 and {max}: the cluster has {max} OSD(s); start the server with --osds {}",
                size.clamp(1, i64::from(most))
            ),
        })
    })
}

pub(super) fn rm(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    let name = args.required("pool");
    let Some(id) = call.state.osdmap().pool_by_name(&text::to_bytes(name)) else {
        return Ok(Reply::status(format!("pool '{name}' does not exist")));
    };
    let sure =
        args.flag("yes_i_really_really_mean_it") || args.flag("yes_i_really_really_mean_it_not_faking");
    if args.text("pool2") != Some(name) || !sure {
        let status = format!(
            "WARNING: this will *PERMANENTLY DESTROY* all data stored in pool {name}.  If you are *ABSOLUTELY \
             CERTAIN* that is what you want, pass the pool name *twice*, followed by --yes-i-really-really-mean-it."
        );
        return Err(Failure::new(Errno::EPERM, status));
    }
    call.state.remove_pool(call.now, id)?;
    Ok(Reply::status(format!("pool '{name}' removed")))
}

pub(super) fn mksnap(call: &mut Call<'_>) -> Outcome {
    let (name, snap) = (call.args.required("pool"), call.args.required("snap"));
    let id = call.state.pool_id(name)?;
    let new = call.state.create_pool_snap(call.now, id, snap)?;
    Ok(Reply::status(match new {
        true => format!("created pool {name} snap {snap}"),
        false => format!("pool {name} snap {snap} already exists"),
    }))
}

pub(super) fn rmsnap(call: &mut Call<'_>) -> Outcome {
    let (name, snap) = (call.args.required("pool"), call.args.required("snap"));
    let id = call.state.pool_id(name)?;
    let removed = call.state.remove_pool_snap(call.now, id, snap)?;
    Ok(Reply::status(match removed {
        true => format!("removed pool {name} snap {snap}"),
        false => format!("pool {name} snap {snap} does not exist"),
    }))
}

pub(super) fn rename(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (call.args.required("srcpool"), call.args.required("destpool"));
    let map = call.state.osdmap();
    match (map.pool_by_name(&text::to_bytes(from)), map.pool_by_name(&text::to_bytes(to))) {
        (None, None) => Err(Failure::missing(format!("unrecognized pool '{from}'"))),
        (None, Some(_)) => {
            let status =
                format!("pool '{from}' does not exist; pool '{to}' does -- assuming successful rename");
            Ok(Reply::status(status))
        }
        (Some(_), Some(_)) => Err(Failure::new(Errno::EEXIST, format!("pool '{to}' already exists"))),
        (Some(id), None) => {
            call.state.rename_pool(call.now, id, to)?;
            Ok(Reply::status(format!("pool '{from}' renamed to '{to}'")))
        }
    }
}
