//! `osd set-group | unset-group`: flags of single OSDs, of CRUSH buckets and of device classes.

use std::collections::{BTreeMap, BTreeSet};

use loligo_maps::{OsdMap, OsdState};
use loligo_wire::OsdId;

use super::{Call, Failure, Outcome, Reply};
use crate::view;

/// The flags that may be set, with their bits.
const FLAGS: [(&str, u32); 4] = [("noup", 1 << 8), ("nodown", 1 << 9), ("noin", 1 << 10), ("noout", 1 << 11)];
/// All these bits.
const ALL: u32 = 0xF << 8;

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    change(call, flags(call.args.required("flags"))?, &call.args.texts("who"), true)
}

pub(super) fn unset(call: &mut Call<'_>) -> Outcome {
    change(call, flags(call.args.required("flags"))?, &call.args.texts("who"), false)
}

/// `osd add-noout` and similar commands, whose name contains the flag.
pub(super) fn add_one(call: &mut Call<'_>) -> Outcome {
    change(call, named_flag(call)?, &call.args.texts("ids"), true)
}

/// `osd rm-noout` and similar commands.
pub(super) fn rm_one(call: &mut Call<'_>) -> Outcome {
    change(call, named_flag(call)?, &call.args.texts("ids"), false)
}

fn named_flag(call: &Call<'_>) -> Result<u32, Failure> {
    let prefix = call.args.prefix()?;
    flags(prefix.rsplit('-').next().unwrap_or_default())
}

fn flags(text: &str) -> Result<u32, Failure> {
    let bit = |word: &str| {
        let known = FLAGS.iter().find(|(name, _)| *name == word).map(|(_, bit)| *bit);
        let why = || format!("unrecognized flag '{word}', must be one of {{noup,nodown,noin,noout}}");
        known.ok_or_else(|| Failure::invalid(why()))
    };
    text.split(',').try_fold(0, |all, word| Ok(all | bit(word)?))
}

/// The items that the words name.
#[derive(Default)]
struct Named {
    osds: BTreeSet<OsdId>,
    nodes: BTreeSet<i32>,
    classes: BTreeSet<i32>,
    /// The text about the other words.
    status: String,
}

impl Named {
    /// Whether any item was named. Unknown words are an error only if not.
    fn any(&self) -> bool {
        !(self.osds.is_empty() && self.nodes.is_empty() && self.classes.is_empty())
    }

    fn of(map: &OsdMap, words: &[&str]) -> Self {
        let mut named = Self::default();
        for word in words {
            named.add(map, word);
        }
        named
    }

    fn add(&mut self, map: &OsdMap, word: &str) {
        let crush = &map.crush;
        let class = || crush.class_names.iter().find(|(_, name)| **name == *word).map(|(id, _)| *id);
        let number = word.strip_prefix("osd.").unwrap_or(word).parse::<i32>().ok().filter(|id| *id >= 0);
        match (number, crush.item_by_name(word)) {
            _ if matches!(word, "all" | "any" | "*") => self.osds.extend(map.osd_ids()),
            (Some(osd), _) => drop(self.osds.insert(OsdId(osd))),
            (None, Some(node)) => drop(self.nodes.insert(node)),
            (None, None) => match class() {
                Some(class) => drop(self.classes.insert(class)),
                None => {
                    self.status +=
                        &format!("unable to parse osd id or crush node or device class: \"{word}\". ");
                }
            },
        }
    }
}

fn change(call: &mut Call<'_>, flags: u32, words: &[&str], set: bool) -> Outcome {
    let map = call.state.osdmap();
    let Named { osds, nodes, classes, mut status } = match Named::of(map, words) {
        named if named.any() => named,
        nothing => return Err(Failure::invalid(nothing.status)),
    };
    let after = |before: u32| if set { before | flags } else { before & !flags };
    let mut states = BTreeMap::new();
    for osd in osds {
        let state = map.state(osd).bits();
        match map.exists(osd) {
            true => drop(states.insert(osd, OsdState::from_bits_retain(after(state) ^ state))),
            false => status += &format!("osd.{osd} does not exist. "),
        }
    }
    states.retain(|_, change| !change.is_empty());
    let changed = |ids: BTreeSet<i32>, known: &BTreeMap<i32, u32>| -> BTreeMap<i32, u32> {
        let before = |id: &i32| known.get(id).copied().unwrap_or_default();
        ids.into_iter()
            .filter(|id| after(before(id)) != before(id))
            .map(|id| (id, after(before(&id))))
            .collect()
    };
    let (nodes, classes) = (changed(nodes, &map.crush_node_flags), changed(classes, &map.device_class_flags));
    if !(states.is_empty() && nodes.is_empty() && classes.is_empty()) {
        call.state.change_osdmap(call.now, |_, inc| {
            inc.new_state = states;
            inc.new_crush_node_flags = nodes;
            inc.new_device_class_flags = classes;
        })?;
    }
    Ok(Reply::status(status))
}

/// The items that have such flags, each with its flags: `osd.0`, `root default`, `device class 'hdd'`.
pub(super) fn flagged(map: &OsdMap) -> Vec<(String, String)> {
    let osds = map.osd_ids().map(|osd| (format!("osd.{osd}"), map.state(osd).bits() & ALL));
    let nodes = map.crush_node_flags.iter().map(|(node, flags)| (node_title(map, *node), *flags));
    let classes = map.device_class_flags.iter().map(|(class, flags)| {
        let name = map.crush.class_names.get(class).map(ToString::to_string).unwrap_or_default();
        (format!("device class '{name}'"), *flags)
    });
    let all = osds.chain(nodes).chain(classes).filter(|(_, flags)| *flags != 0);
    all.map(|(what, flags)| (what, view::osd_state(OsdState::from_bits_retain(flags)).join(","))).collect()
}

fn node_title(map: &OsdMap, node: i32) -> String {
    let name = crate::hierarchy::name_of(&map.crush, node);
    let kind = map.crush.bucket(node).map(|bucket| i32::from(bucket.kind)).unwrap_or_default();
    format!("{} {name}", crate::hierarchy::type_name(&map.crush, kind))
}
