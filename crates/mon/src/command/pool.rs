//! `osd pool create | rm | rename | mksnap | rmsnap`.

use super::crush_change::is_replicated;
use super::{Call, Errno, Failure, Outcome, Reply};
use crate::state::pools::{Created, SIZE};

pub(super) fn create(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("pool");
    if call.args.text("pool_type") == Some("erasure") {
        return Err(Failure::new(Errno::EOPNOTSUPP, "erasure-coded pools are not supported"));
    }
    let rule = rule(call)?;
    check_size(call.args.int("size").unwrap_or(0))?;
    let pg_num = u32::try_from(call.args.int("pg_num").unwrap_or(0)).unwrap_or(u32::MAX);
    match call.state.create_pool(call.now, name, pg_num)? {
        Created::New(id) => {
            if let Some(rule) = rule {
                call.state.change_pool(call.now, id, |pool| pool.crush_rule = rule)?;
            }
            Ok(Reply::status(format!("pool '{name}' created")))
        }
        Created::Existed(_) => Ok(Reply::status(format!("pool '{name}' already exists"))),
    }
}

/// The rule that is asked for. Its name stands where an erasure-coded pool has its profile, or behind it.
fn rule(call: &Call<'_>) -> Result<Option<u8>, Failure> {
    let named = call.args.text("rule").or_else(|| call.args.text("erasure_code_profile"));
    let Some(name) = named.filter(|name| !name.is_empty()) else { return Ok(None) };
    let crush = &call.state.osdmap().crush;
    let missing = || Failure::missing(format!("specified rule {name} doesn't exist"));
    let rule = crush.rule_by_name(name).ok_or_else(missing)?;
    match u8::try_from(rule).ok().filter(|_| is_replicated(crush, rule)) {
        Some(rule) => Ok(Some(rule)),
        None => Err(Failure::invalid(format!("crush rule {rule} type does not match pool"))),
    }
}

/// 0 stands for the default.
pub(super) fn check_size(size: i64) -> Result<(), Failure> {
    if size == 0 || size == i64::from(SIZE) {
        return Ok(());
    }
    Err(Failure::invalid(format!("pool size must be {SIZE}: this cluster has one OSD")))
}

pub(super) fn rm(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    let name = args.required("pool");
    let Some(id) = call.state.osdmap().pool_by_name(name.as_bytes()) else {
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
    match (map.pool_by_name(from.as_bytes()), map.pool_by_name(to.as_bytes())) {
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
