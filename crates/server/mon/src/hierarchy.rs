//! Names and locations of CRUSH items.

use loligo_maps::OsdMap;
use loligo_maps::crush::{CrushMap, DEFAULT_CHOOSE_ARGS};
use loligo_wire::PoolId;

/// The maximum depth of a hierarchy that is shown: CRUSH has a dozen types.
pub(crate) const DEPTH_MAX: usize = 32;

/// The name of the weight set for all pools.
const COMPAT: &str = "(compat)";

pub(crate) fn name_of(crush: &CrushMap, item: i32) -> String {
    crush.names.get(&item).map(ToString::to_string).unwrap_or_default()
}

pub(crate) fn type_name(crush: &CrushMap, kind: i32) -> String {
    crush.type_names.get(&kind).map(ToString::to_string).unwrap_or_default()
}

/// The buckets that contain an item, innermost first, each as type and name.
pub(crate) fn location(crush: &CrushMap, item: i32) -> Vec<(String, String)> {
    let mut path = Vec::new();
    let mut below = item;
    while let Some(bucket) = crush.buckets.iter().flatten().find(|b| b.items.contains(&below)) {
        let name = crush.names.get(&bucket.id).map(ToString::to_string).unwrap_or_default();
        path.push((type_name(crush, i32::from(bucket.kind)), name));
        below = bucket.id;
        if path.len() > DEPTH_MAX {
            break;
        }
    }
    path
}

/// The name of a weight set.
pub(crate) fn set_name(map: &OsdMap, key: i64) -> String {
    if key == DEFAULT_CHOOSE_ARGS {
        return COMPAT.to_owned();
    }
    map.pool_name(PoolId(key)).map(ToString::to_string).unwrap_or_default()
}

/// Converts a weight or an affinity, which is in units of 1/65536.
pub(crate) fn fraction(weight: u32) -> f64 {
    f64::from(weight) / 65_536.0
}
