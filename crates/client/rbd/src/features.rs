//! Names of features and flags.

use loligo_wire::rbd::{feature, op_feature};

const OP_FEATURES: [(u64, &str); 4] = [
    (op_feature::CLONE_PARENT, "clone-parent"),
    (op_feature::CLONE_CHILD, "clone-child"),
    (op_feature::GROUP, "group"),
    (op_feature::SNAP_TRASH, "snap-trash"),
];

/// The object map does not reflect which objects exist.
pub(crate) const OBJECT_MAP_INVALID: u64 = 1;
/// The object map does not reflect which objects have changed.
pub(crate) const FAST_DIFF_INVALID: u64 = 2;

const FLAGS: [(u64, &str); 2] =
    [(OBJECT_MAP_INVALID, "object map invalid"), (FAST_DIFF_INVALID, "fast diff invalid")];

/// The features that stock programs give a new image (`rbd_default_features`).
pub const DEFAULT: u64 = feature::LAYERING
    | feature::EXCLUSIVE_LOCK
    | feature::OBJECT_MAP
    | feature::FAST_DIFF
    | feature::DEEP_FLATTEN;

/// The names of features.
pub fn names(features: u64) -> Vec<&'static str> {
    of(&feature::NAMES, features)
}

/// The names of operation features.
pub fn op_names(op_features: u64) -> Vec<&'static str> {
    of(&OP_FEATURES, op_features)
}

/// The names of flags.
pub fn flag_names(flags: u64) -> Vec<&'static str> {
    of(&FLAGS, flags)
}

fn of(table: &[(u64, &'static str)], bits: u64) -> Vec<&'static str> {
    table.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect()
}

/// Returns the feature of this name.
pub fn by_name(name: &str) -> Option<u64> {
    feature::NAMES.iter().find(|(_, known)| *known == name).map(|(bit, _)| *bit)
}

/// Names for an error message; the number if no feature has a name.
pub(crate) fn text(features: u64) -> String {
    let named = names(features);
    if named.is_empty() { format!("{features:#x}") } else { named.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bits_agree() {
        assert_eq!(DEFAULT, 61);
        let named = names(DEFAULT);
        assert_eq!(named, ["layering", "exclusive-lock", "object-map", "fast-diff", "deep-flatten"]);
        assert_eq!(named.iter().filter_map(|name| by_name(name)).sum::<u64>(), DEFAULT);
        assert_eq!(by_name("none"), None);
        assert_eq!(text(1 << 40), "0x10000000000");
    }
}
