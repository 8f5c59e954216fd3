//! `osd tree`, `osd crush …`: the CRUSH hierarchy and its rules.

use az::SaturatingAs as _;
use loligo_maps::OsdMap;
use loligo_maps::crush::{CrushMap, Rule, Step, StepOp};
use loligo_wire::OsdId;

use super::osd_args::map_of_epoch;
use super::{Call, Failure, Outcome, Reply};
use crate::hierarchy::{DEPTH_MAX, fraction, name_of, set_name, type_name};
use crate::output::json::{Node, object};
use crate::output::table::{Align, Table};

pub(super) fn osd_tree(call: &mut Call<'_>) -> Outcome {
    let map = map_of_epoch(call)?;
    let wanted = call.args.texts("states");
    let shown = |osd: i32| wanted.iter().all(|state| is(&map, OsdId(osd), state));
    let all = walk(&map.crush, false);
    let nodes: Vec<_> =
        all.into_iter().filter(|n| wanted.is_empty() || n.holds(&map.crush, &shown)).collect();
    Ok(print_tree(call, &map, &nodes, Shown { state: true, weight_sets: false }))
}

/// `osd tree-from`: the tree below a bucket.
pub(super) fn tree_from(call: &mut Call<'_>) -> Outcome {
    let map = map_of_epoch(call)?;
    let wanted = call.args.texts("states");
    if wanted.contains(&"up") && wanted.contains(&"down") {
        return Err(Failure::invalid("can specify only one of 'up', 'down' and 'destroyed'"));
    }
    let bucket = call.args.required("bucket");
    let missing = || Failure::missing(format!("bucket '{bucket}' does not exist"));
    let id = map.crush.item_by_name(bucket).ok_or_else(missing)?;
    let root = map.crush.bucket(id);
    let root = root.ok_or_else(|| Failure::invalid(format!("\"{bucket}\" is not a bucket")))?;
    let mut nodes = Vec::new();
    push(&map.crush, id, root.weight, 0, &mut nodes);
    let shown = |osd: i32| wanted.iter().all(|state| is(&map, OsdId(osd), state));
    nodes.retain(|node| wanted.is_empty() || node.holds(&map.crush, &shown));
    let node =
        |_: &Call<'_>| object! { "nodes": Node::array(nodes.iter().map(|n| tree_node(&map, n, true))) };
    let plain =
        |_: &Call<'_>| tree_table(&map, &nodes, Shown { state: true, weight_sets: false }).to_string();
    Ok(call.print(node, plain))
}

pub(super) fn crush_tree(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let nodes = walk(&map.crush, call.args.text("shadow").is_some());
    Ok(print_tree(call, map, &nodes, Shown { state: false, weight_sets: true }))
}

/// Optional columns of a tree's table.
#[derive(Clone, Copy)]
struct Shown {
    /// The state of OSDs.
    state: bool,
    /// The weights in weight sets.
    weight_sets: bool,
}

/// Whether an OSD is in a state that `osd tree` was asked for.
fn is(map: &OsdMap, osd: OsdId, state: &str) -> bool {
    match state {
        "up" => map.is_up(osd),
        "down" => !map.is_up(osd),
        "in" => map.is_in(osd),
        "out" => !map.is_in(osd),
        _ => false,
    }
}

/// A bucket or device in the order of the tree.
struct TreeNode {
    id: i32,
    depth: usize,
    weight: u32,
}

impl TreeNode {
    /// Whether this is a device to be shown, or a bucket that contains one.
    fn holds(&self, crush: &CrushMap, shown: &impl Fn(i32) -> bool) -> bool {
        fn any(crush: &CrushMap, id: i32, shown: &impl Fn(i32) -> bool, depth: usize) -> bool {
            let Some(bucket) = crush.bucket(id) else { return id >= 0 && shown(id) };
            // An empty bucket contains no such device.
            depth < DEPTH_MAX && bucket.items.iter().any(|item| any(crush, *item, shown, depth + 1))
        }
        any(crush, self.id, shown, 0)
    }
}

/// All buckets and devices: each root, followed by its content in depth-first order. `with_shadows`
/// includes the shadow buckets, which hold only the devices of one class.
fn walk(crush: &CrushMap, with_shadows: bool) -> Vec<TreeNode> {
    let buckets = || crush.buckets.iter().flatten();
    let is_root = |id: i32| !buckets().any(|b| b.items.contains(&id));
    let mut roots: Vec<_> = buckets().filter(|b| with_shadows || !crush.is_shadow(b.id)).collect();
    roots.retain(|root| is_root(root.id));
    roots.sort_unstable_by_key(|root| root.id);
    let mut nodes = Vec::new();
    for root in roots {
        push(crush, root.id, root.weight, 0, &mut nodes);
    }
    nodes
}

fn push(crush: &CrushMap, id: i32, weight: u32, depth: usize, nodes: &mut Vec<TreeNode>) {
    if depth > DEPTH_MAX {
        return;
    }
    nodes.push(TreeNode { id, depth, weight });
    for (item, weight) in children(crush, id) {
        push(crush, item, weight, depth + 1, nodes);
    }
}

/// The items of a bucket with their weights, in the order in which trees show them: buckets by name,
/// then devices by class and number, those without a class first.
fn children(crush: &CrushMap, id: i32) -> Vec<(i32, u32)> {
    let Some(bucket) = crush.bucket(id) else { return Vec::new() };
    let weight = |at| bucket.item_weight(at).unwrap_or_default();
    let mut items: Vec<_> = bucket.items.iter().enumerate().map(|(at, item)| (*item, weight(at))).collect();
    items.sort_by_cached_key(|(item, _)| match *item >= 0 {
        true => format!("{}_osd.{item:08}", crush.class_of(*item).unwrap_or_default()),
        false => format!("_{}", name_of(crush, *item)),
    });
    items
}

fn print_tree(call: &Call<'_>, map: &OsdMap, nodes: &[TreeNode], shown: Shown) -> Reply {
    let node = |_: &Call<'_>| {
        object! {
            "nodes": Node::array(nodes.iter().map(|n| tree_node(map, n, shown.state))),
            "stray": Vec::new(),
        }
    };
    call.print(node, |_| tree_table(map, nodes, shown).to_string())
}

fn tree_node(map: &OsdMap, node: &TreeNode, with_state: bool) -> Node {
    let crush = &map.crush;
    let mut out = object! { "id": node.id };
    if let Some(class) = crush.class_of(node.id) {
        out.push("device_class", class);
    }
    out.push("name", name_of(crush, node.id));
    if let Some(bucket) = crush.bucket(node.id) {
        out.push("type", type_name(crush, i32::from(bucket.kind)));
        out.push("type_id", i32::from(bucket.kind));
        if node.depth > 0 {
            out.push("pool_weights", pool_weights(map, node.id));
        }
        out.push("children", Node::array(children(crush, node.id).into_iter().rev().map(|(item, _)| item)));
        return out;
    }
    let osd = OsdId(node.id);
    out.push("type", "osd");
    out.push("type_id", 0);
    out.push("crush_weight", fraction(node.weight));
    out.push("depth", node.depth);
    out.push("pool_weights", pool_weights(map, node.id));
    if with_state {
        out.push("exists", i32::from(map.exists(osd)));
        out.push("status", status(map, osd));
        out.push("reweight", fraction(map.weight(osd)));
        out.push("primary_affinity", fraction(map.primary_affinity(osd)));
    }
    out
}

/// The weights of an item in each weight set.
fn pool_weights(map: &OsdMap, item: i32) -> Node {
    let sets = map.crush.choose_args.keys().filter_map(|key| {
        let weights = map.crush.weights_of(*key, item)?;
        Some((set_name(map, *key), Node::array(weights.into_iter().map(fraction))))
    });
    Node::map(sets)
}

fn tree_table(map: &OsdMap, nodes: &[TreeNode], shown: Shown) -> Table {
    use Align::{BelowLeft, Left, Right};
    let crush = &map.crush;
    let sets: Vec<i64> = crush.choose_args.keys().copied().filter(|_| shown.weight_sets).collect();
    let positions = |key: &i64| crush.weight_set_positions(*key).max(1);
    let mut titles =
        vec![("ID".to_owned(), Right), ("CLASS".to_owned(), Right), ("WEIGHT".to_owned(), BelowLeft)];
    for key in &sets {
        titles.push((set_name(map, *key), BelowLeft));
        titles.extend((1..positions(key)).map(|_| (String::new(), BelowLeft)));
    }
    titles.push(("TYPE NAME".to_owned(), Left));
    if shown.state {
        titles.extend(["STATUS", "REWEIGHT", "PRI-AFF"].map(|title| (title.to_owned(), Right)));
    }
    let mut table = Table::new(titles);
    for node in nodes {
        let class = crush.class_of(node.id).unwrap_or_default();
        let mut row = vec![node.id.to_string(), class, weight_text(node.weight)];
        for key in &sets {
            let weights = crush.weights_of(*key, node.id).filter(|_| node.depth > 0).unwrap_or_default();
            let weights = weights.into_iter().map(weight_text).chain(std::iter::repeat(String::new()));
            row.extend(weights.take(positions(key)));
        }
        let (indent, name) = ("    ".repeat(node.depth), name_of(crush, node.id));
        row.push(match crush.bucket(node.id) {
            Some(bucket) => format!("{indent}{} {name}", type_name(crush, i32::from(bucket.kind))),
            None => format!("{indent}{name}"),
        });
        if shown.state && node.id >= 0 {
            let osd = OsdId(node.id);
            row.push(status(map, osd).to_owned());
            row.extend([map.weight(osd), map.primary_affinity(osd)].map(weight_text));
        }
        table.row(row);
    }
    table
}

/// A weight in a table: five decimals, or `0`.
fn weight_text(weight: u32) -> String {
    if weight == 0 { "0".to_owned() } else { format!("{:.5}", fraction(weight)) }
}

pub(super) fn status(map: &OsdMap, osd: OsdId) -> &'static str {
    match (map.exists(osd), map.is_up(osd)) {
        (false, _) => "DNE",
        (true, true) => "up",
        (true, false) => "down",
    }
}

/// The names of a bucket's items, or a device's own name.
pub(super) fn ls(call: &mut Call<'_>) -> Outcome {
    let crush = &call.state.osdmap().crush;
    let node = call.args.required("node");
    let id = crush.item_by_name(node);
    let id = id.ok_or_else(|| Failure::missing(format!("node '{node}' does not exist")))?;
    let items = crush.bucket(id).map_or_else(|| vec![id], |bucket| bucket.items.clone());
    let names: Vec<String> = items.into_iter().map(|item| name_of(crush, item)).collect();
    let json = |_: &Call<'_>| Node::array(names.iter().map(String::as_str));
    Ok(call.print(json, |_| names.iter().map(|name| format!("{name}\n")).collect()))
}

/// The OSDs at or below a node.
pub(super) fn ls_tree(call: &mut Call<'_>) -> Outcome {
    let map = map_of_epoch(call)?;
    let name = call.args.required("name");
    let top = map.crush.item_by_name(name);
    let top = top.ok_or_else(|| Failure::missing(format!("\"{name}\" does not exist")))?;
    let mut nodes = Vec::new();
    push(&map.crush, top, 0, 0, &mut nodes);
    let mut osds: Vec<i32> = nodes.iter().map(|node| node.id).filter(|id| *id >= 0).collect();
    osds.sort_unstable();
    let json = |_: &Call<'_>| Node::array(osds.iter().copied());
    Ok(call.print(json, |_| osds.iter().map(|osd| format!("{osd}\n")).collect()))
}

/// The device classes in use.
pub(super) fn class_ls(call: &mut Call<'_>) -> Outcome {
    let names = call.state.osdmap().crush.class_names.values();
    Ok(call.print_json(&Node::array(names.map(ToString::to_string))))
}

pub(super) fn rule_ls(call: &mut Call<'_>) -> Outcome {
    let names = &call.state.osdmap().crush.rule_names;
    let node = |_: &Call<'_>| Node::array(names.values().map(ToString::to_string));
    Ok(call.print(node, |_| names.values().map(|name| format!("{name}\n")).collect()))
}

pub(super) fn rule_dump(call: &mut Call<'_>) -> Outcome {
    let crush = &call.state.osdmap().crush;
    let Some(name) = call.args.text("name") else {
        return Ok(call.print_json(&rule_nodes(crush)));
    };
    let wanted = crush.rule_by_name(name);
    match rules(crush).find(|(id, _)| wanted == Some((*id).saturating_as::<i32>())) {
        Some((id, rule)) => Ok(call.print_json(&rule_node(crush, id, rule))),
        None => Err(Failure::missing(format!("unknown crush rule '{name}'"))),
    }
}

fn rules(crush: &CrushMap) -> impl Iterator<Item = (usize, &Rule)> {
    crush.rules.iter().enumerate().filter_map(|(id, rule)| Some((id, rule.as_ref()?)))
}

pub(super) fn rule_nodes(crush: &CrushMap) -> Node {
    Node::array(rules(crush).map(|(id, rule)| rule_node(crush, id, rule)))
}

fn rule_node(crush: &CrushMap, id: usize, rule: &Rule) -> Node {
    object! {
        "rule_id": id,
        "rule_name": crush.rule_names.get(&id.saturating_as::<i32>()).map(ToString::to_string).unwrap_or_default(),
        "ruleset": id,
        "type": rule.kind.0,
        "min_size": rule.min_size,
        "max_size": rule.max_size,
        "steps": Node::array(rule.steps.iter().map(|step| step_node(crush, step))),
    }
}

fn step_node(crush: &CrushMap, step: &Step) -> Node {
    let choose = |op: &str| {
        object! { "op": op, "num": step.arg1, "type": type_name(crush, step.arg2) }
    };
    let tries = |op: &str| object! { "op": op, "num": step.arg1 };
    match step.op {
        StepOp::TAKE => {
            let name = crush.names.get(&step.arg1).map(ToString::to_string).unwrap_or_default();
            object! { "op": "take", "item": step.arg1, "item_name": name }
        }
        StepOp::EMIT => object! { "op": "emit" },
        StepOp::CHOOSE_FIRSTN => choose("choose_firstn"),
        StepOp::CHOOSE_INDEP => choose("choose_indep"),
        StepOp::CHOOSELEAF_FIRSTN => choose("chooseleaf_firstn"),
        StepOp::CHOOSELEAF_INDEP => choose("chooseleaf_indep"),
        StepOp::SET_CHOOSE_TRIES => tries("set_choose_tries"),
        StepOp::SET_CHOOSELEAF_TRIES => tries("set_chooseleaf_tries"),
        StepOp(other) => object! { "opcode": other, "arg1": step.arg1, "arg2": step.arg2 },
    }
}
