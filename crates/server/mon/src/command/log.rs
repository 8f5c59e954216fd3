//! `log …`: writes to and reads the cluster's log.

use az::SaturatingAs as _;
use loligo_wire::message::mon::LogEntry;
use loligo_wire::{EntityAddrVec, EntityNum};

use super::{Call, Failure, Outcome, Reply};
use crate::output::json::{Node, object};
use crate::output::units;
use crate::state::log::{Line, Severity, rank, severity};
use crate::view::addrvec;

const LINES_DEFAULT: i64 = 20;

pub(super) fn write(call: &mut Call<'_>) -> Outcome {
    let entry = LogEntry {
        name: call.caller.name.clone(),
        rank: EntityNum { kind: call.caller.name.kind, num: -1 },
        addrs: EntityAddrVec::from(call.caller.addr),
        stamp: call.now,
        seq: 0,
        prio: Severity::Info as u16,
        message: call.args.texts("logtext").join(" "),
        channel: "cluster".to_owned(),
    };
    call.state.log_mut().push(entry);
    Ok(Reply::default())
}

pub(super) fn last(call: &mut Call<'_>) -> Outcome {
    let n = call.args.int("num").unwrap_or(LINES_DEFAULT).max(0).saturating_as::<usize>();
    let level = call.args.text("level").unwrap_or("info");
    let least =
        Severity::from_word(level).ok_or_else(|| Failure::invalid(format!("unknown level '{level}'")))?;
    let lines = call.state.log().last(n, least, call.args.text("channel").unwrap_or("cluster"));
    let node = |_: &Call<'_>| Node::array(lines.iter().map(|line| describe(line)));
    Ok(call.print(node, |_| lines.iter().map(|line| format!("{}\n", Line(line))).collect()))
}

fn describe(entry: &LogEntry) -> Node {
    object! {
        "name": entry.name.to_string(),
        "rank": rank(entry),
        "addrs": addrvec(&entry.addrs),
        "stamp": units::stamp(entry.stamp),
        "seq": entry.seq,
        "channel": entry.channel.as_str(),
        "priority": severity(entry).tag(),
        "message": entry.message.as_str(),
    }
}
