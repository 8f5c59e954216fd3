//! `config help` and `config generate-minimal-conf`: the facts about an option, and the minimal
//! ceph.conf of a client.

use loligo_conf::table::{self as options, OptionFacts};
use loligo_wire::{EntityName, EntityType};

use super::{Call, Failure, Outcome, Reply};
use crate::output::json::{Node, object};
use crate::view;

/// Shows the facts about an option. Ceph's descriptions are not included.
pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    let key = call.args.required("key");
    let Some(option) = options::find(key) else { return Err(Failure::missing(String::new())) };
    let kind = kind_of(option);
    let default = default_of(option);
    let (min, max) = option.bounds();
    let (min, max) = (min.unwrap_or_default(), max.unwrap_or_default());
    let words: Vec<&str> = option.words().collect();
    let node = |_: &Call<'_>| option_facts(option);
    let plain = |_: &Call<'_>| {
        let mut out = format!("{} - \n  ({kind}, {})\n", option.name, option.level);
        let mut line = |title: &str, value: &str| out += &format!("  {title}: {value}\n");
        if option.daemon_default().is_empty() {
            line("Default", &default);
        } else {
            line("Default (non-daemon)", &default);
            line("Default (daemon)", option.daemon_default());
        }
        if !(min.is_empty() && max.is_empty()) {
            line("Minimum", min);
            line("Maximum", max);
        }
        if !words.is_empty() {
            line("Possible values", &format!(" {}", words.join(" ")));
        }
        line("Can update at runtime", if option.at_runtime { "true" } else { "false" });
        out
    };
    Ok(call.print(node, plain))
}

fn kind_of(option: &OptionFacts) -> &'static str {
    if option.kind() == "level" { "str" } else { option.kind() }
}

fn default_of(option: &OptionFacts) -> String {
    option.default_for(&EntityName { kind: EntityType::CLIENT, id: String::new() })
}

/// The facts about an option, in a stock monitor's order.
pub fn option_facts(option: &OptionFacts) -> Node {
    let (kind, default) = (kind_of(option), default_of(option));
    let (min, max) = option.bounds();
    let (min, max) = (min.unwrap_or_default(), max.unwrap_or_default());
    let mut node = object! {
        "name": option.name, "type": kind, "level": option.level, "desc": "", "long_desc": "",
        "default": typed(kind, &default), "daemon_default": typed(kind, option.daemon_default()),
        "tags": Vec::new(), "services": Vec::new(), "see_also": Vec::new(),
    };
    if kind == "str" {
        node.push("enum_values", Node::array(option.words()));
    }
    node.push("min", typed(kind, min));
    node.push("max", typed(kind, max));
    node.push("can_update_at_runtime", option.at_runtime);
    // Only this flag is known. For others the table does not record whether Ceph sets the flag or only
    // behaves as if it were set.
    node.push("flags", Node::array((!option.storable).then_some("no_mon_update")));
    node
}

/// A value in the JSON type of its option; an empty value is a string.
fn typed(kind: &str, text: &str) -> Node {
    let text_as_is = || Node::from(text);
    match kind {
        _ if text.is_empty() => text_as_is(),
        "bool" => Node::from(text == "true"),
        "int" => text.parse::<i64>().map_or_else(|_| text_as_is(), Node::from),
        "uint" => text.parse::<u64>().map_or_else(|_| text_as_is(), Node::from),
        "float" => text.parse::<f64>().map_or_else(|_| text_as_is(), Node::from),
        _ => text_as_is(),
    }
}

pub(super) fn minimal_conf(call: &mut Call<'_>) -> Outcome {
    let (fsid, map) = (call.state.fsid(), call.state.monmap());
    let hosts: Vec<_> = map.mons.values().map(|mon| view::bracketed(&mon.public_addrs)).collect();
    Ok(Reply::output(format!(
        "# minimal ceph.conf for {fsid}\n[global]\n\tfsid = {fsid}\n\tmon_host = {}\n",
        hosts.join(" ")
    )))
}
