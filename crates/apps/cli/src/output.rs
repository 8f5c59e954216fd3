//! Output for programs: JSON, or XML in the form of Ceph's programs.

use loligo_mon::output::json::Node;
use loligo_mon::output::xml::{self, Names};
use serde_json::Value;

use crate::format::Format;
use crate::name;

/// Element names of arrays' items in XML, by the array's name, where they differ from those of a
/// monitor's replies; as `rbd` and `rados` of 16.2.15 write them.
const ITEMS: &[(&str, &str)] = &[
    ("clones", "clone"),
    ("features", "feature"),
    ("flags", "flag"),
    ("images", "image"),
    ("lockers", "locker"),
    ("locks", "lock"),
    ("objects", "object"),
    ("op_features", "op_feature"),
    ("overlap", "section"),
    ("pools", "pool"),
    ("snapshots", "snapshot"),
    ("watchers", "watcher"),
];

impl Format {
    /// Prints a value. In XML, `root` names the outermost element, and `item` each item if the value is
    /// an array.
    pub(crate) fn print(self, root: &str, item: &'static str, value: &Value) {
        match self {
            Self::XmlPretty => crate::say::say_bytes(&self.text(root, item, value)),
            _ => crate::say::say_bytes(&[&self.text(root, item, value)[..], b"\n"].concat()),
        }
    }

    /// Returns the same as text, without the final line feed.
    pub(crate) fn text(self, root: &str, item: &'static str, value: &Value) -> Vec<u8> {
        match self {
            Self::Plain | Self::Json => name::line(value).into_bytes(),
            Self::JsonPretty => node(value).pretty().into_bytes(),
            Self::Xml | Self::XmlPretty => {
                let names = Names { root: root.to_owned(), item, special: ITEMS };
                let text = xml::write(&listed(item, value), &names, self == Self::XmlPretty);
                name::as_bytes(&text)
            }
        }
    }
}

/// Names the items of a list of images: a snapshot in it has an element name of its own.
fn listed(item: &str, value: &Value) -> Node {
    match value {
        Value::Array(items) if item == "image" => {
            let name = |one: &Value| if one.get("snapshot_id").is_some() { "snapshot" } else { item };
            Node::Object(items.iter().map(|one| (name(one).to_owned(), node(one))).collect())
        }
        _ => node(value),
    }
}

fn node(value: &Value) -> Node {
    match value {
        Value::Null => Node::Str(String::new()),
        Value::Bool(is) => Node::Bool(*is),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Node::UInt(number),
            (_, Some(number)) => Node::Int(number),
            _ => Node::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Node::Str(text.clone()),
        Value::Array(items) => Node::Array(items.iter().map(node).collect()),
        Value::Object(fields) => Node::map(fields.iter().map(|(name, value)| (name, node(value)))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn xml(root: &str, item: &'static str, value: &Value) -> String {
        String::from_utf8(Format::Xml.text(root, item, value)).expect("text")
    }

    /// The elements are those of `rbd` and `rados` of 16.2.15.
    #[test]
    fn values_are_elements() {
        for (root, item, value, written) in [
            ("images", "name", json!(["a", "c<"]), "<images><name>a</name><name>c&lt;</name></images>"),
            (
                "images",
                "image",
                json!([{"image": "a"}, {"image": "a", "snapshot_id": 4}]),
                "<images><image><image>a</image></image>\
                 <snapshot><image>a</image><snapshot_id>4</snapshot_id></snapshot></images>",
            ),
            (
                "image",
                "item",
                json!({"features": ["layering"], "flags": [], "name": "a"}),
                "<image><features><feature>layering</feature></features><flags></flags><name>a</name></image>",
            ),
            (
                "stats",
                "item",
                json!({"images": [{"name": "a", "snapshot_id": 4}]}),
                "<stats><images><image><name>a</name><snapshot_id>4</snapshot_id></image></images></stats>",
            ),
        ] {
            assert_eq!(xml(root, item, &value), written);
        }
    }

    #[test]
    fn names_are_their_bytes_in_xml() {
        let value = json!([name::text(b"a\xff")]);
        assert_eq!(Format::Xml.text("images", "name", &value), b"<images><name>a\xff</name></images>");
        assert_eq!(Format::Json.text("images", "name", &value), br#"["a\udcff"]"#);
    }
}
