//! JSON values as XML, as Ceph's formatter writes it: a field is an element of its name, and each item
//! of an array is an element inside the array's.
//!
//! JSON has no names for the outermost value and for an array's items; [`Names`] has the names that a
//! monitor of 16.2.15 uses. As in Ceph, a field's name becomes the element's name unchanged, except for
//! blanks: names with brackets or slashes, such as versions, make XML that strict readers refuse.

use std::fmt::Write as _;

use super::json::Node;

/// The names of elements for which JSON has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Name of the outermost element.
    pub root: String,
    /// Name of the items, if the outermost value is an array.
    pub item: &'static str,
    /// Names of the items of nested arrays where this command's output differs from the general table.
    pub special: &'static [(&'static str, &'static str)],
}

/// Names of arrays' items, by the array's name.
#[rustfmt::skip] // a table
const ITEMS: &[(&str, &str)] = &[
    ("acting", "osd"), ("addrvec", "addr"), ("auth_dump", "auth_entities"), ("available_modules", "module"),
    ("buckets", "bucket"), ("changes", "change"), ("children", "child"), ("client", "group"),
    ("devices", "device"), ("disabled_modules", "module"), ("enabled_modules", "module"), ("flags_set", "flag"),
    ("mgr", "group"), ("modules", "module"), ("mon", "group"), ("mons", "mon"), ("mutes", "mute"), ("nodes", "item"),
    ("num_pg_by_state", "state"), ("osd", "group"), ("osd_metadata", "osd"), ("osd_stats", "osd_stat"),
    ("osd_xinfo", "xinfo"), ("osds", "osd_info"), ("persistent", "bit_flag"), ("pg_stats", "pg_stat"),
    ("pgs_by_state", "pgs_by_state_element"), ("pool_snaps", "pool_snap_info"), ("pool_stats", "pool_stat"),
    ("pools", "pool"), ("quorum", "mon"), ("quorum_mon", "bit_flag"), ("quorum_names", "mon"),
    ("required", "bit_flag"), ("rules", "rule"), ("services", "service"), ("state", "state"), ("steps", "step"),
    ("supported", "bit_flag"), ("types", "type"), ("up", "osd"),
];
/// The name of an item for which no other name is known.
pub const ITEM: &str = "item";

/// Formats the value as XML on one line, or indented by one blank for each level.
pub fn write(node: &Node, names: &Names, pretty: bool) -> String {
    let mut out = Writer { out: String::new(), pretty, special: names.special };
    out.element(&names.root, node, names.item, 0);
    out.out
}

struct Writer {
    out: String,
    pretty: bool,
    special: &'static [(&'static str, &'static str)],
}

impl Writer {
    /// `item` is the name of the node's items, if it is an array.
    fn element(&mut self, name: &str, node: &Node, item: &str, depth: usize) {
        let name = name.replace(' ', "_");
        self.indent(depth);
        let _ = write!(self.out, "<{name}>");
        match node {
            Node::Object(fields) => {
                self.end_line();
                for (name, value) in fields {
                    self.element(name, value, self.item_of(name), depth + 1);
                }
                self.indent(depth);
            }
            Node::Array(items) => {
                self.end_line();
                items.iter().for_each(|value| self.element(item, value, ITEM, depth + 1));
                self.indent(depth);
            }
            Node::Str(text) => self.text(text),
            number => {
                let _ = write!(self.out, "{number}");
            }
        }
        let _ = write!(self.out, "</{name}>");
        self.end_line();
    }

    fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '&' => self.out.push_str("&amp;"),
                '\'' => self.out.push_str("&apos;"),
                '"' => self.out.push_str("&quot;"),
                c if c.is_control() && !matches!(c, '\n' | '\t') => {
                    let _ = write!(self.out, "&#x{:02x};", u32::from(c));
                }
                c => self.out.push(c),
            }
        }
    }

    fn item_of(&self, array: &str) -> &'static str {
        let special = self.special.iter().find(|(name, _)| *name == array);
        let known = || ITEMS.binary_search_by_key(&array, |(name, _)| name).ok().map(|at| &ITEMS[at]);
        special.or_else(known).map_or(ITEM, |(_, item)| item)
    }

    fn indent(&mut self, depth: usize) {
        if self.pretty {
            (0..depth).for_each(|_| self.out.push(' '));
        }
    }

    fn end_line(&mut self) {
        if self.pretty {
            self.out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::object;
    use super::*;

    #[test]
    fn items_are_sorted() {
        assert!(ITEMS.is_sorted_by(|a, b| a.0 < b.0));
    }

    /// The output of `osd crush tree` from a monitor of 16.2.15, shortened, and a value of `config-key
    /// dump`.
    #[test]
    fn values_are_written_as_by_stock() {
        let node = object! {
            "nodes": Node::array([object! { "id": -1, "pool_weights": object! {}, "children": Node::array([-3]) }]),
            "stray ones": "v<&\"'>",
        };
        let names = Names { root: "crush_tree".to_owned(), item: ITEM, special: &[] };
        assert_eq!(
            write(&node, &names, false),
            "<crush_tree><nodes><item><id>-1</id><pool_weights></pool_weights><children><child>-3</child></children></item></nodes>\
             <stray_ones>v&lt;&amp;&quot;&apos;&gt;</stray_ones></crush_tree>"
        );
        assert_eq!(
            write(&object! { "a": object! {}, "children": Node::array([1]), "b": true }, &names, true),
            "<crush_tree>\n <a>\n </a>\n <children>\n  <child>1</child>\n </children>\n <b>true</b>\n</crush_tree>\n"
        );
    }
}
