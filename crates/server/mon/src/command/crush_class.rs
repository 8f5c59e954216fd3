//! `osd crush class …`, `osd crush set-device-class | rm-device-class | get-device-class`, `osd crush
//! rule ls-by-class`: device classes. The texts are those of a monitor of 16.2.15.

use super::crush_edit::{change, replace};
use super::crush_place::named_osds;
use super::{Call, Errno, Failure, Outcome, Reply};
use crate::output::json::{Node, object};
use az::SaturatingAs as _;
use loligo_maps::Name;
use loligo_maps::crush::CrushMap;
use loligo_wire::OsdId;

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let class = call.args.required("class").to_owned();
    let crush = &call.state.osdmap().crush;
    let (mut changed, mut said) = (Vec::new(), String::new());
    for named in named_osds(call) {
        let osd = match named {
            Ok(osd) => osd,
            Err((_, why)) => {
                said += &why;
                continue;
            }
        };
        match crush.class_of(osd.0) {
            Some(has) if has == class => {
                said += &format!(
                    "osd.{osd} already set to class {class}. set-device-class item id {osd} name 'osd.{osd}' \
                     device_class '{class}': no change. "
                );
            }
            Some(has) => {
                let status = format!(
                    "{said}osd.{osd} has already bound to class '{has}', can not reset class to '{class}'; use \
                     'ceph osd crush rm-device-class <id>' to remove old class first"
                );
                return Err(Failure::new(Errno::EBUSY, status));
            }
            None => changed.push(osd),
        }
    }
    if !changed.is_empty() {
        change(call, |crush| changed.iter().try_for_each(|osd| crush.set_device_class(osd.0, &class)))?;
    }
    Ok(Reply::status(format!("{said}set osd(s) {} to class '{class}'", listed(&changed))))
}

fn listed(osds: &[OsdId]) -> String {
    osds.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

pub(super) fn rm(call: &mut Call<'_>) -> Outcome {
    let crush = &call.state.osdmap().crush;
    let (mut with, mut said) = (Vec::new(), String::new());
    for named in named_osds(call) {
        match named {
            Ok(osd) if crush.class_of(osd.0).is_some() => with.push(osd),
            Ok(osd) => said += &format!("osd.{osd} belongs to no class, "),
            Err((true, why)) => return Err(Failure::invalid(said + &why)),
            Err((false, why)) => said += &why,
        }
    }
    if !with.is_empty() {
        change(call, |crush| {
            crush.classes.retain(|item, _| !with.contains(&OsdId(*item)));
            Ok(())
        })?;
    }
    Ok(Reply::status(format!("{said}done removing class of osd(s): {}", listed(&with))))
}

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let crush = &call.state.osdmap().crush;
    let mut osds = Vec::new();
    for word in call.args.texts("ids") {
        let number =
            word.strip_prefix("osd.").unwrap_or(word).parse::<i32>().ok().filter(|number| *number >= 0);
        osds.push(number.ok_or_else(|| Failure::invalid(format!("unable to parse osd id:'{word}'")))?);
    }
    osds.sort_unstable();
    osds.dedup();
    let class = |osd: &i32| crush.class_of(*osd).unwrap_or_default();
    let node = |_: &Call<'_>| {
        Node::array(osds.iter().map(|osd| object! { "osd": *osd, "device_class": class(osd) }))
    };
    let plain = |_: &Call<'_>| match &osds[..] {
        [one] => class(one) + "\n",
        several => several.iter().map(|osd| format!("osd.{osd} {}\n", class(osd))).collect(),
    };
    Ok(call.print(node, plain))
}

pub(super) fn ls_osd(call: &mut Call<'_>) -> Outcome {
    let crush = &call.state.osdmap().crush;
    let class = crush.class_by_name(call.args.required("class"));
    let in_class = |(item, of): (&i32, &i32)| (*item >= 0 && Some(*of) == class).then_some(*item);
    let osds: Vec<i32> = crush.classes.iter().filter_map(in_class).collect();
    let node = |_: &Call<'_>| Node::array(osds.iter().copied());
    Ok(call.print(node, |_| osds.iter().map(|osd| format!("{osd}\n")).collect()))
}

pub(super) fn rules(call: &mut Call<'_>) -> Outcome {
    let crush = &call.state.osdmap().crush;
    let class = call.args.required("class");
    if crush.class_by_name(class).is_none() {
        return Err(Failure::missing(format!("failed to get rules by class '{class}'")));
    }
    let name = |rule: usize| crush.rule_names.get(&rule.saturating_as::<i32>()).map(ToString::to_string);
    let mut names: Vec<String> = crush.rules_of_class(class).into_iter().filter_map(name).collect();
    names.sort_unstable();
    let node = |_: &Call<'_>| Node::array(names.iter().map(String::as_str));
    Ok(call.print(node, |_| names.iter().map(|name| format!("{name}\n")).collect()))
}

pub(super) fn create(call: &mut Call<'_>) -> Outcome {
    let class = call.args.required("class").to_owned();
    let mut crush = CrushMap::clone(&call.state.osdmap().crush);
    if crush.class_by_name(&class).is_some() {
        return Ok(Reply::status(format!("class '{class}' already exists")));
    }
    // A class without devices has no shadow buckets. The next change of the hierarchy drops it, as in a
    // stock cluster.
    let id = crush.add_class(&class);
    replace(call, &crush)?;
    Ok(Reply::status(format!("created class {class} with id {id} to crush map")))
}

pub(super) fn remove(call: &mut Call<'_>) -> Outcome {
    let class = call.args.required("class").to_owned();
    let crush = &call.state.osdmap().crush;
    let Some(id) = crush.class_by_name(&class) else { return Ok(Reply::default()) };
    let name = |rule: &usize| {
        let name = crush
            .rule_names
            .get(&(*rule).saturating_as::<i32>())
            .map(ToString::to_string)
            .unwrap_or_default();
        format!("'{name}'")
    };
    let rules: Vec<String> = crush.rules_of_class(&class).iter().map(name).collect();
    if !rules.is_empty() {
        let status = format!("class '{class}' still referenced by crush_rule(s): {}", rules.join(","));
        return Err(Failure::new(Errno::EBUSY, status));
    }
    change(call, |crush| {
        crush.classes.retain(|item, of| *of != id || *item < 0);
        // The next change would drop a class without devices; this one is dropped now.
        if !crush.classes.values().any(|of| *of == id) {
            crush.class_names.remove(&id);
        }
        Ok(())
    })?;
    Ok(Reply::status(format!("removed class {class} with id {id} from crush map")))
}

pub(super) fn rename(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (call.args.required("srcname").to_owned(), call.args.required("dstname").to_owned());
    let crush = &call.state.osdmap().crush;
    let failed = |errno, why: &str| Failure::new(errno, format!("fail to rename '{from}' to '{to}' : {why}"));
    let id = match (crush.class_by_name(&from), crush.class_by_name(&to)) {
        (None, Some(_)) => return Ok(Reply::status(format!("already renamed to '{to}'"))),
        (None, None) => return Err(failed(Errno::ENOENT, "(2) No such file or directory")),
        (Some(_), Some(_)) => return Err(failed(Errno::EEXIST, "(17) File exists")),
        (Some(id), None) => id,
    };
    let mut renamed = CrushMap::clone(crush);
    renamed.class_names.insert(id, Name::from(to.as_str()));
    // Shadow buckets are named after their class.
    let shadows: Vec<(i32, i32)> =
        renamed.class_buckets.iter().filter_map(|(bucket, of)| Some((*bucket, *of.get(&id)?))).collect();
    for (bucket, shadow) in shadows {
        let name = crate::hierarchy::name_of(&renamed, bucket);
        renamed.names.insert(shadow, Name::from(format!("{name}~{to}").as_str()));
    }
    replace(call, &renamed)?;
    Ok(Reply::status(format!("rename class '{from}' to '{to}'")))
}
