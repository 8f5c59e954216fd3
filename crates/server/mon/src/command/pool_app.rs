//! `osd pool application …`: the applications that use a pool.

use std::collections::BTreeMap;

use loligo_maps::{Name, PgPool};
use loligo_wire::PoolId;

use super::osd_dump::applications;
use super::{Call, Errno, Failure, Outcome, Reply};
use crate::output::json::Node;
use crate::text;
use crate::view::name_map;

pub(super) fn enable(call: &mut Call<'_>) -> Outcome {
    let (name, app) = (call.args.required("pool"), call.args.required("app"));
    let id = call.state.pool_id(name)?;
    let apps = &apps_of(call, id);
    if !apps.is_empty()
        && !apps.contains_key(text::to_bytes(app).as_slice())
        && !call.args.flag("yes_i_really_mean_it")
    {
        let status = format!(
            "Are you SURE? Pool '{name}' already has an enabled application; pass --yes-i-really-mean-it to \
             proceed anyway"
        );
        return Err(Failure::new(Errno::EPERM, status));
    }
    call.state.change_pool(call.now, id, |pool| {
        pool.application_metadata.entry(text::name(app)).or_default();
    })?;
    Ok(Reply::status(format!("enabled application '{app}' on pool '{name}'")))
}

pub(super) fn disable(call: &mut Call<'_>) -> Outcome {
    let (name, app) = (call.args.required("pool"), call.args.required("app"));
    let id = call.state.pool_id(name)?;
    if !call.args.flag("yes_i_really_mean_it") {
        let status = "Are you SURE? Disabling an application within a pool might result in loss of application \
                      functionality; pass --yes-i-really-mean-it to proceed anyway";
        return Err(Failure::new(Errno::EPERM, status));
    }
    if !apps_of(call, id).contains_key(text::to_bytes(app).as_slice()) {
        return Ok(Reply::status(format!("application '{app}' is not enabled on pool '{name}'")));
    }
    call.state.change_pool(call.now, id, |pool| {
        pool.application_metadata.remove(text::to_bytes(app).as_slice());
    })?;
    Ok(Reply::status(format!("disable application '{app}' on pool '{name}'")))
}

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let (name, app) = (call.args.required("pool"), call.args.required("app"));
    let (key, value) = (call.args.required("key"), call.args.required("value"));
    let id = enabled(call, name, app)?;
    change(call, id, app, |settings| drop(settings.insert(text::name(key), text::name(value))))?;
    Ok(Reply::status(format!("set application '{app}' key '{key}' to '{value}' on pool '{name}'")))
}

pub(super) fn rm(call: &mut Call<'_>) -> Outcome {
    let (name, app) = (call.args.required("pool"), call.args.required("app"));
    let key = call.args.required("key");
    let id = enabled(call, name, app)?;
    change(call, id, app, |settings| drop(settings.remove(text::to_bytes(key).as_slice())))?;
    Ok(Reply::status(format!("removed application '{app}' key '{key}' on pool '{name}'")))
}

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let Some(name) = call.args.text("pool") else {
        let name_of = |id: &PoolId| map.pool_name(*id).map(text::of).unwrap_or_default();
        let all = map.pools.iter().map(|(id, pool)| (name_of(id), applications(pool)));
        return Ok(call.print_json(&Node::map(all)));
    };
    let id = call.state.pool_id(name)?;
    let apps = apps_of(call, id);
    let Some(app) = call.args.text("app") else {
        return Ok(call.print_json(&map.pool(id).map_or_else(|| Node::map::<&str, Node>([]), applications)));
    };
    let no_app = || Failure::missing(format!("pool '{name}' has no application '{app}'"));
    let settings = apps.get(text::to_bytes(app).as_slice()).ok_or_else(no_app)?;
    let Some(key) = call.args.text("key") else { return Ok(call.print_json(&name_map(settings))) };
    let no_key =
        || Failure::missing(format!("application '{app}' on pool '{name}' does not have key '{key}'"));
    let value = settings.get(text::to_bytes(key).as_slice()).ok_or_else(no_key)?;
    let value = text::of(value);
    Ok(call.print(|_| Node::from(value.as_str()), |_| format!("{value}\n")))
}

type Apps = BTreeMap<Name, BTreeMap<Name, Name>>;

fn apps_of(call: &Call<'_>, id: PoolId) -> Apps {
    call.state.osdmap().pool(id).map(|pool| pool.application_metadata.clone()).unwrap_or_default()
}

/// The pool's id, if the application is enabled there.
fn enabled(call: &Call<'_>, name: &str, app: &str) -> Result<PoolId, Failure> {
    let id = call.state.pool_id(name)?;
    match apps_of(call, id).contains_key(text::to_bytes(app).as_slice()) {
        true => Ok(id),
        false => Err(Failure::missing(format!("application '{app}' is not enabled on pool '{name}'"))),
    }
}

fn change(
    call: &mut Call<'_>,
    id: PoolId,
    app: &str,
    change: impl FnOnce(&mut BTreeMap<Name, Name>),
) -> Result<(), Failure> {
    let change = |pool: &mut PgPool| {
        if let Some(settings) = pool.application_metadata.get_mut(text::to_bytes(app).as_slice()) {
            change(settings);
        }
    };
    call.state.change_pool(call.now, id, change)
}
