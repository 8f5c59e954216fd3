//! Mutes in the outputs of `health` and `status`.

use loligo_wire::UTime;

use super::Call;
use crate::output::json::{Node, object};
use crate::output::units::{age, stamp};
use crate::state::mutes::Mute;

/// The mutes in the output of `health`.
pub(super) fn describe(call: &Call<'_>) -> Node {
    Node::array(call.state.mutes().iter().map(|(code, mute)| {
        let mut node = object! { "code": code.as_str() };
        if let Some(until) = mute.until {
            node.push("ttl", stamp(until));
        }
        node.push("sticky", mute.sticky);
        node.push("summary", mute.summary.as_str());
        node.push("count", mute.count);
        node
    }))
}

/// `(muted: OSD_DOWN(9m) OSDMAP_FLAGS)`; `None` if nothing is muted.
pub(super) fn list(call: &Call<'_>) -> Option<String> {
    let one = |(code, mute): (&String, &Mute)| match mute.until {
        Some(until) => format!("{code}({})", left(call.now, until)),
        None => code.clone(),
    };
    let all: Vec<_> = call.state.mutes().iter().map(one).collect();
    (!all.is_empty()).then(|| format!("(muted: {})", all.join(" ")))
}

/// The prefix of a muted check's details.
pub(super) fn mark(call: &Call<'_>, code: &str) -> String {
    let Some(mute) = call.state.mutes().get(code) else { return String::new() };
    let ttl = mute.until.map(|until| format!(" ttl {}", left(call.now, until))).unwrap_or_default();
    let sticky = if mute.sticky { ", STICKY" } else { "" };
    format!("(MUTED{ttl}{sticky}) ")
}

fn left(now: UTime, until: UTime) -> String {
    age(until.since_epoch().saturating_sub(now.since_epoch()))
}
