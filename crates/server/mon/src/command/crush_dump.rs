//! `osd crush dump`: the whole CRUSH map (`CrushWrapper::dump` in Ceph's `src/crush/CrushWrapper.cc`).

use loligo_maps::crush::{Bucket, BucketAlg, CrushMap, StepOp, Tunables};

use super::crush::rule_nodes;
use super::{Call, Outcome, crush_weights};
use crate::hierarchy::{name_of, type_name};
use crate::output::json::{Node, object};

pub(super) fn crush_dump(call: &mut Call<'_>) -> Outcome {
    Ok(call.print_json(&describe(call)))
}

/// The whole CRUSH map.
pub(super) fn describe(call: &Call<'_>) -> Node {
    let crush = &call.state.osdmap().crush;
    let types =
        crush.type_names.iter().map(|(id, name)| object! { "type_id": *id, "name": name.to_string() });
    object! {
        "devices": Node::array((0..crush.max_devices).map(|id| device(crush, id))),
        "types": Node::array(types),
        "buckets": Node::array(crush.buckets.iter().flatten().map(|b| bucket(crush, b))),
        "rules": rule_nodes(crush),
        "tunables": tunables(crush),
        "choose_args": crush_weights::choose_args(call),
    }
}

pub(super) fn show_tunables(call: &mut Call<'_>) -> Outcome {
    Ok(call.print_json(&tunables(&call.state.osdmap().crush)))
}

pub(super) fn get_tunable(call: &mut Call<'_>) -> Outcome {
    let version = i32::from(call.state.osdmap().crush.tunables.straw_calc_version);
    Ok(call.print(|_| object! { "straw_calc_version": version }, |_| format!("{version}\n")))
}

fn device(crush: &CrushMap, id: i32) -> Node {
    let name = crush.names.get(&id).map_or_else(|| format!("device{id}"), ToString::to_string);
    let mut node = object! { "id": id, "name": name };
    if let Some(class) = crush.classes.get(&id).and_then(|class| crush.class_names.get(class)) {
        node.push("class", class.to_string());
    }
    node
}

fn bucket(crush: &CrushMap, bucket: &Bucket) -> Node {
    let item = |(pos, id): (usize, &i32)| {
        object! { "id": *id, "weight": bucket.item_weight(pos).unwrap_or(0), "pos": pos }
    };
    object! {
        "id": bucket.id,
        "name": name_of(crush, bucket.id),
        "type_id": i32::from(bucket.kind),
        "type_name": type_name(crush, i32::from(bucket.kind)),
        "weight": bucket.weight,
        "alg": alg_name(&bucket.alg),
        "hash": if bucket.hash == 0 { "rjenkins1" } else { "unknown" },
        "items": Node::array(bucket.items.iter().enumerate().map(item)),
    }
}

fn alg_name(alg: &BucketAlg) -> &'static str {
    match alg {
        BucketAlg::Uniform { .. } => "uniform",
        BucketAlg::List { .. } => "list",
        BucketAlg::Tree { .. } => "tree",
        BucketAlg::Straw { .. } => "straw",
        BucketAlg::Straw2 { .. } => "straw2",
    }
}

fn tunables(crush: &CrushMap) -> Node {
    let t = &crush.tunables;
    let uses = |ops: &[StepOp]| {
        let rules = crush.rules.iter().flatten();
        i32::from(rules.flat_map(|rule| &rule.steps).any(|step| ops.contains(&step.op)))
    };
    let has_v2_rules = uses(&[
        StepOp::CHOOSE_INDEP,
        StepOp::CHOOSELEAF_INDEP,
        StepOp::SET_CHOOSE_TRIES,
        StepOp::SET_CHOOSELEAF_TRIES,
    ]);
    let has_v3_rules = uses(&[StepOp::SET_CHOOSELEAF_VARY_R]);
    let has_v5_rules = uses(&[StepOp::SET_CHOOSELEAF_STABLE]);
    let straw2 = |bucket: &Bucket| matches!(bucket.alg, BucketAlg::Straw2 { .. });
    let has_v4_buckets = i32::from(crush.buckets.iter().flatten().any(straw2));
    let legacy = &Tunables::LEGACY;
    let tries = |t: &Tunables| (t.choose_local_tries, t.choose_local_fallback_tries, t.choose_total_tries);
    let differs = [
        tries(t) != tries(legacy),
        t.chooseleaf_descend_once != legacy.chooseleaf_descend_once,
        t.chooseleaf_vary_r != legacy.chooseleaf_vary_r,
        t.chooseleaf_stable != legacy.chooseleaf_stable,
    ];
    let minimum = match differs {
        _ if has_v5_rules == 1 || differs[3] => "jewel",
        _ if has_v4_buckets == 1 => "hammer",
        [.., true, _] => "firefly",
        [true, ..] | [_, true, ..] => "bobtail",
        _ => "argonaut",
    };
    let [one, two, three, five] = differs.map(i32::from);
    let profile = profile(t);
    object! {
        "choose_local_tries": t.choose_local_tries,
        "choose_local_fallback_tries": t.choose_local_fallback_tries,
        "choose_total_tries": t.choose_total_tries,
        "chooseleaf_descend_once": t.chooseleaf_descend_once,
        "chooseleaf_vary_r": i32::from(t.chooseleaf_vary_r),
        "chooseleaf_stable": i32::from(t.chooseleaf_stable),
        "straw_calc_version": i32::from(t.straw_calc_version),
        "allowed_bucket_algs": t.allowed_bucket_algs,
        "profile": profile,
        "optimal_tunables": i32::from(profile == "jewel"),
        "legacy_tunables": i32::from(profile == "argonaut"),
        "minimum_required_version": minimum,
        "require_feature_tunables": one,
        "require_feature_tunables2": two,
        "has_v2_rules": has_v2_rules,
        "require_feature_tunables3": three,
        "has_v3_rules": has_v3_rules,
        "has_v4_buckets": has_v4_buckets,
        "require_feature_tunables5": five,
        "has_v5_rules": has_v5_rules,
    }
}

/// The release with these default tunables. The computation of straw lengths is ignored.
fn profile(tunables: &Tunables) -> &'static str {
    let known = [
        (Tunables::JEWEL, "jewel"),
        (Tunables::HAMMER, "hammer"),
        (Tunables::FIREFLY, "firefly"),
        (Tunables::BOBTAIL, "bobtail"),
        (Tunables::LEGACY, "argonaut"),
    ];
    let same = |profile: &Tunables| {
        *tunables == Tunables { straw_calc_version: tunables.straw_calc_version, ..*profile }
    };
    known.iter().find(|(profile, _)| same(profile)).map_or("unknown", |(_, name)| name)
}
