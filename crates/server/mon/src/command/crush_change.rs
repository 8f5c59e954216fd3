//! `osd setcrushmap`, `osd crush …`: changes of the CRUSH map. They change where clients look for their
//! objects, as in a stock cluster. Placement groups that a map or rule leaves without an OSD wait until
//! a later map gives them one.

use loligo_maps::crush::{CrushMap, RuleKind, StepOp, Tunables};
use loligo_maps::{Name, OsdMap};
use loligo_wire::Reader;

use super::crush_edit::change;
use super::crush_place::{location, shown};
use super::{Call, Errno, Failure, Outcome, Reply};

/// Replaces the whole map with the one in the input.
pub(super) fn set_map(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let (given, version) = (call.args.int("prior_version"), i64::from(map.crush_version));
    if let Some(prior) = given.filter(|prior| *prior != version) {
        let status = format!("prior_version {prior} != crush version {version}");
        return Err(Failure::new(Errno::EPERM, status));
    }
    if call.input.is_empty() {
        return Err(Failure::invalid("Failed to parse crushmap: End of buffer"));
    }
    let crush = CrushMap::decode(&mut Reader::new(call.input))
        .map_err(|e| Failure::invalid(format!("Failed to parse crushmap: {e}")))?;
    check_pools(map, &crush)?;
    call.state.change_osdmap(call.now, |_, inc| inc.set_crush(&crush))?;
    Ok(Reply::status(call.state.osdmap().crush_version.to_string()))
}

/// Checks that each pool's rule exists.
fn check_pools(map: &OsdMap, crush: &CrushMap) -> Result<(), Failure> {
    let lost = map.pools.iter().find(|(_, pool)| crush.rule(usize::from(pool.crush_rule)).is_none());
    lost.map_or(Ok(()), |(id, pool)| {
        let status = format!("pool {id} references crush_rule {} but it is not present", pool.crush_rule);
        Err(Failure::invalid(status))
    })
}

/// `osd crush rule create-simple | create-replicated`.
pub(super) fn rule_create(call: &mut Call<'_>) -> Outcome {
    let crush = &call.state.osdmap().crush;
    let (name, root, kind) =
        (call.args.required("name"), call.args.required("root"), call.args.required("type"));
    if crush.rule_by_name(name).is_some() {
        return Ok(Reply::status(format!("rule {name} already exists")));
    }
    let missing = || Failure::missing(format!("root item {root} does not exist"));
    let root = crush.item_by_name(root).ok_or_else(missing)?;
    let unknown = || Failure::invalid(format!("unknown type {kind}"));
    let kind = crush.type_by_name(kind).ok_or_else(unknown)?;
    let root = match call.args.text("class").filter(|class| !class.is_empty()) {
        Some(class) => shadow(crush, root, class)?,
        None => root,
    };
    let indep = call.args.text("mode") == Some("indep");
    change(call, |crush| {
        // A rule with the steps of erasure-coded pools is for such pools.
        let rule_kind = if indep { RuleKind::ERASURE } else { RuleKind::REPLICATED };
        crush.add_simple_rule(name, rule_kind, root, kind).map(|_| ())
    })?;
    Ok(Reply::default())
}

/// The bucket at which a rule for a device class starts.
fn shadow(crush: &CrushMap, root: i32, class: &str) -> Result<i32, Failure> {
    if crush.class_by_name(class).is_none() {
        return Err(Failure::invalid(format!("device class {class} does not exist")));
    }
    let none = || {
        let name = crate::hierarchy::name_of(crush, root);
        Failure::invalid(format!("root {name} has no devices with class {class}"))
    };
    crush.shadow(root, class).ok_or_else(none)
}

pub(super) fn rule_rename(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (call.args.required("srcname"), call.args.required("dstname"));
    let crush = &call.state.osdmap().crush;
    let rule = match (crush.rule_by_name(from), crush.rule_by_name(to)) {
        (None, Some(_)) => return Ok(Reply::status(format!("already renamed to '{to}'"))),
        (None, None) => {
            return Err(Failure::missing(format!("source rule name '{from}' does not exist")));
        }
        (Some(_), Some(_)) => {
            let status = format!("destination rule name '{to}' already exists");
            return Err(Failure::new(Errno::EEXIST, status));
        }
        (Some(rule), None) => rule,
    };
    change(call, |crush| {
        crush.rule_names.insert(rule, Name::from(to));
        Ok(())
    })?;
    Ok(Reply::default())
}

pub(super) fn rule_rm(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("name");
    let map = call.state.osdmap();
    let Some(rule) = map.crush.rule_by_name(name) else {
        return Ok(Reply::status(format!("rule {name} does not exist")));
    };
    if map.pools.values().any(|pool| i32::from(pool.crush_rule) == rule) {
        return Err(Failure::new(Errno::EBUSY, format!("crush ruleset {name} {rule} is in use")));
    }
    change(call, |crush| {
        crush.rule_names.remove(&rule);
        if let Some(place) = usize::try_from(rule).ok().and_then(|rule| crush.rules.get_mut(rule)) {
            *place = None;
        }
        Ok(())
    })?;
    Ok(Reply::default())
}

pub(super) fn rename_bucket(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (call.args.required("srcname"), call.args.required("dstname"));
    let crush = &call.state.osdmap().crush;
    let id = match (crush.item_by_name(from), crush.item_by_name(to)) {
        (None, Some(_)) => {
            let status = format!("srcname = '{from}' does not exist and dstname = '{to}' already exists");
            return Ok(Reply::status(status));
        }
        (None, None) => return Err(Failure::missing(format!("srcname = '{from}' does not exist"))),
        (Some(_), Some(_)) => {
            return Err(Failure::new(Errno::EEXIST, format!("dstname = '{to}' already exists")));
        }
        (Some(id), None) => id,
    };
    if id >= 0 {
        let status = format!("srcname = '{from}' is not a bucket because its id = {id} is >= 0");
        return Err(Failure::new(Errno::ENOTDIR, status));
    }
    change(call, |crush| {
        crush.names.insert(id, Name::from(to));
        Ok(())
    })?;
    Ok(Reply::status(format!("renamed bucket {from} into {to}")))
}

/// Creates an empty bucket, at a location if one is given.
pub(super) fn add_bucket(call: &mut Call<'_>) -> Outcome {
    let (name, kind) = (call.args.required("name"), call.args.required("type"));
    let crush = &call.state.osdmap().crush;
    if crush.item_by_name(name).is_some() {
        return Ok(Reply::status(format!("bucket '{name}' already exists")));
    }
    let number = crush.type_by_name(kind).and_then(|number| u16::try_from(number).ok());
    let number = number.ok_or_else(|| Failure::invalid(format!("type '{kind}' does not exist")))?;
    if number == 0 {
        return Err(Failure::invalid(format!("type '{kind}' is for devices, not buckets")));
    }
    let at = location(call);
    change(call, |crush| {
        let bucket = crush.add_bucket(name, number)?;
        if at.is_empty() { Ok(()) } else { crush.insert_at(bucket, 0, &at) }
    })?;
    let place = match at.is_empty() {
        true => "crush map".to_owned(),
        false => format!("location {}", shown(&at)),
    };
    Ok(Reply::status(format!("added bucket {name} type {kind} to {place}")))
}

/// Changes a device's weight, and with it the weights of all buckets above.
pub(super) fn reweight(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("name");
    let weight = call.args.float("weight").unwrap_or_default();
    let crush = &call.state.osdmap().crush;
    let missing = || Failure::missing(format!("device '{name}' does not appear in the crush map"));
    let id = crush.item_by_name(name).ok_or_else(missing)?;
    if id < 0 {
        return Err(Failure::invalid(format!("device '{name}' is not a leaf in the crush map")));
    }
    let fixed = OsdMap::fixed_weight(weight);
    let holders = crush.holders(id);
    change(call, |crush| holders.iter().try_for_each(|bucket| crush.set_item_weight(id, fixed, *bucket)))?;
    Ok(Reply::status(format!("reweighted item id {id} name '{name}' to {weight} in crush map")))
}

/// The known profiles.
pub(super) const PROFILES: [&str; 8] =
    ["legacy", "argonaut", "bobtail", "firefly", "hammer", "jewel", "optimal", "default"];

pub(super) fn tunables(call: &mut Call<'_>) -> Outcome {
    let profile = call.args.required("profile");
    let tunables = match profile {
        "legacy" | "argonaut" => Tunables::LEGACY,
        "bobtail" => Tunables::BOBTAIL,
        "firefly" => Tunables::FIREFLY,
        "hammer" => Tunables::HAMMER,
        "jewel" | "optimal" | "default" => Tunables::JEWEL,
        _ => return Err(Failure::invalid(format!("unrecognized profile '{profile}'"))),
    };
    change(call, |crush| {
        // A profile leaves the computation of straws unchanged.
        let straw_calc_version = crush.tunables.straw_calc_version;
        crush.tunables = Tunables { straw_calc_version, ..tunables };
        Ok(())
    })?;
    Ok(Reply::status(format!("adjusted tunables profile to {profile}")))
}

/// Whether a rule is for replicated pools. Rules for erasure-coded pools choose by position (`indep`).
pub(super) fn is_replicated(crush: &CrushMap, rule: i32) -> bool {
    let rule = usize::try_from(rule).ok().and_then(|rule| crush.rule(rule));
    let indep = |op| matches!(op, StepOp::CHOOSE_INDEP | StepOp::CHOOSELEAF_INDEP);
    rule.is_some_and(|rule| {
        rule.kind == RuleKind::REPLICATED && !rule.steps.iter().any(|step| indep(step.op))
    })
}
