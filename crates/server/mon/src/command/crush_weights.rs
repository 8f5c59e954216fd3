//! `osd crush weight-set …`: weights that override those of the hierarchy, for one pool or for all pools
//! without a set of their own.

use loligo_maps::OsdMap;
use loligo_maps::crush::{CrushMap, DEFAULT_CHOOSE_ARGS};

use super::crush_edit::{change, replace};
use super::{Call, Failure, Outcome, Reply};
use crate::hierarchy::{fraction, set_name};
use crate::output::json::{Node, object};

pub(super) fn ls(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let names: Vec<String> = map.crush.choose_args.keys().map(|key| set_name(map, *key)).collect();
    let node = |_: &Call<'_>| Node::array(names.iter().map(String::as_str));
    Ok(call.print(node, |_| names.iter().map(|name| format!("{name}\n")).collect()))
}

pub(super) fn dump(call: &mut Call<'_>) -> Outcome {
    Ok(call.print_json(&choose_args(call)))
}

/// All weight sets by key, each with the buckets that it covers.
pub(super) fn choose_args(call: &Call<'_>) -> Node {
    let row = |row: &Vec<u32>| Node::array(row.iter().map(|weight| fraction(*weight)));
    let sets = call.state.osdmap().crush.choose_args.iter().map(|(key, args)| {
        let buckets = args.0.iter().filter(|(_, arg)| !arg.weight_set.is_empty() || !arg.ids.is_empty());
        let buckets = buckets.map(|(index, arg)| {
            let mut node = object! { "bucket_id": -1 - i64::from(*index) };
            if !arg.weight_set.is_empty() {
                node.push("weight_set", Node::array(arg.weight_set.iter().map(row)));
            }
            if !arg.ids.is_empty() {
                node.push("ids", Node::array(arg.ids.iter().copied()));
            }
            node
        });
        (key.to_string(), Node::array(buckets))
    });
    Node::map(sets)
}

/// The key of the weight set that a command names, and its pool's number of copies; without a pool, the
/// set for all pools.
fn key(call: &Call<'_>) -> Result<(i64, usize), Failure> {
    let Some(name) = call.args.text("pool") else { return Ok((DEFAULT_CHOOSE_ARGS, 1)) };
    let map = call.state.osdmap();
    let id = map.pool_by_name(name.as_bytes());
    let id = id.ok_or_else(|| Failure::missing(format!("pool '{name}' not found")))?;
    Ok((id.0, map.pool(id).map_or(1, |pool| pool.size as usize)))
}

pub(super) fn create(call: &mut Call<'_>) -> Outcome {
    let (key, size) = key(call)?;
    if call.state.osdmap().crush.choose_args.contains_key(&key) {
        let status = match call.args.text("pool") {
            Some(pool) => format!("weight-set for pool '{pool}' already created"),
            None => "compat weight-set already created".to_owned(),
        };
        return Ok(Reply::status(status));
    }
    let positions = if call.args.text("mode") == Some("positional") { size } else { 1 };
    change(call, |crush| {
        crush.create_weight_set(key, positions.max(1));
        Ok(())
    })?;
    Ok(Reply::default())
}

pub(super) fn rm(call: &mut Call<'_>) -> Outcome {
    let (key, _) = key(call)?;
    if call.state.osdmap().crush.choose_args.contains_key(&key) {
        change(call, |crush| {
            crush.choose_args.remove(&key);
            Ok(())
        })?;
    }
    Ok(Reply::default())
}

pub(super) fn reweight(call: &mut Call<'_>) -> Outcome {
    let (key, _) = key(call)?;
    let crush = &call.state.osdmap().crush;
    if !crush.choose_args.contains_key(&key) {
        return Err(Failure::missing(match call.args.text("pool") {
            Some(pool) => format!("no weight-set for pool '{pool}'"),
            None => "no backward-compatible weight-set".to_owned(),
        }));
    }
    let name = call.args.required("item");
    let missing = || Failure::missing(format!("item '{name}' does not exist"));
    let item = crush.item_by_name(name).ok_or_else(missing)?;
    let weights: Vec<u32> = call.args.floats("weight").into_iter().map(OsdMap::fixed_weight).collect();
    let positions = crush.weight_set_positions(key).max(1);
    if weights.len() != positions {
        return Err(Failure::invalid(format!("must specify exact {positions} weight values")));
    }
    if !crush.buckets.iter().flatten().any(|bucket| bucket.items.contains(&item)) {
        return Err(Failure::missing("(2) No such file or directory"));
    }
    let mut changed = CrushMap::clone(crush);
    changed.set_weights(key, item, &weights).map_err(|e| Failure::invalid(e.to_string()))?;
    replace(call, &changed)?;
    Ok(Reply::default())
}
