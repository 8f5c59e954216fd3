//! `osd erasure-code-profile …`, and `osd crush rule create-erasure`.

use loligo_maps::Name;
use loligo_maps::crush::CrushMap;

use super::{Call, Failure, Outcome, Reply};
use crate::output::json::Node;
use crate::state::erasure::{Code, DEFAULT_PROFILE};

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let (name, force) = (call.args.required("name"), call.args.flag("force"));
    let code = Code::of_words(&call.args.texts("profile"), force)?;
    call.state.set_profile(call.now, name, code, force)?;
    Ok(Reply::default())
}

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let profile = call.state.profile(call.args.required("name"))?;
    let node =
        |_: &Call<'_>| Node::map(profile.iter().map(|(key, value)| (key.to_string(), value.to_string())));
    Ok(call.print(node, |_| profile.iter().map(|(key, value)| format!("{key}={value}\n")).collect()))
}

pub(super) fn ls(call: &mut Call<'_>) -> Outcome {
    let names = || call.state.osdmap().erasure_code_profiles.keys().map(Name::to_string);
    Ok(call.print(|_| Node::array(names()), |_| names().map(|name| name + "\n").collect()))
}

pub(super) fn rm(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("name");
    Ok(match call.state.remove_profile(call.now, name)? {
        true => Reply::default(),
        false => Reply::status(format!("erasure-code-profile {name} does not exist")),
    })
}

pub(super) fn rule_create_erasure(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("name");
    let code = call.state.code(call.args.text("profile").unwrap_or(DEFAULT_PROFILE))?;
    create_rule(call, |crush| {
        code.add_rule(crush, name).map(|number| format!("created rule {name} at {number}"))
    })
}

fn create_rule(call: &mut Call<'_>, add: impl FnOnce(&mut CrushMap) -> Result<String, Failure>) -> Outcome {
    let (map, name) = (call.state.osdmap(), call.args.required("name"));
    if map.crush.rule_by_name(name).is_some() {
        return Ok(Reply::status(format!("rule {name} already exists")));
    }
    let mut crush = CrushMap::clone(&map.crush);
    let status = add(&mut crush)?;
    call.state.change_osdmap(call.now, |_, inc| inc.set_crush(&crush))?;
    Ok(Reply::status(status))
}
