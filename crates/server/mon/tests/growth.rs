//! Goal: the cost of a change of the monitor's state does not grow with the size of the state. Method:
//! one more client is added to a blocklist with few and with thousands of entries. The test runs in a
//! process of its own, and counts allocations and saved bytes.

#[path = "monitor/common.rs"]
#[allow(dead_code, reason = "the rest is for other tests")]
mod common;
#[path = "../../../../fuzz/counting.rs"]
#[allow(dead_code, reason = "the rest is for other tests")]
mod counting;

use common::Mon;
use loligo_mon::{Save, SessionId};
use loligo_wire::message::Msg;
use loligo_wire::message::mon::{MMonCommand, PaxosHeader};

const FEW: u32 = 10;
const MANY: u32 = 3_000;
/// A list with shared parts has one more pointer per several dozen entries.
const PARTS: usize = 64;

/// Puts a client on the blocklist. Returns the number of allocations and of bytes to save.
fn block(mon: &mut Mon, session: SessionId, number: u32) -> (usize, usize) {
    let command = format!(
        r#"{{"prefix": "osd blocklist", "blocklistop": "add", "addr": "10.{}.{}.1:0/{number}"}}"#,
        number / 256,
        number % 256
    );
    let command = MMonCommand {
        paxos: PaxosHeader { version: 0 },
        fsid: common::FSID,
        cmd: vec![command.into()],
        input: bytes::Bytes::new(),
    };
    let before = counting::allocations();
    mon.monitor.handle(session, &Msg::new(&command), common::NOW).expect("a command");
    let effects = mon.monitor.take_effects();
    let allocations = counting::allocations() - before;
    let bytes = match &effects.save {
        Some(Save::Change(change)) => change.len(),
        Some(Save::All) => mon.monitor.state().to_json().len(),
        None => panic!("a change is saved"),
    };
    (allocations, bytes)
}

#[test]
fn one_more_client_on_a_long_blocklist_costs_what_it_costs_on_a_short_one() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    let costs: Vec<_> = (1..=MANY).map(|number| block(&mut mon, admin, number)).collect();
    assert_eq!(mon.monitor.state().osdmap().blocklist.addrs.len(), MANY as usize);
    // The maximum of several neighbours: the map's history and its buffers grow occasionally.
    let most = |until: u32| {
        let some = &costs[until as usize - 8..until as usize];
        let of = |part: fn(&(usize, usize)) -> usize| some.iter().map(part).max().expect("some");
        (of(|cost| cost.0), of(|cost| cost.1))
    };
    let (few, many) = (most(FEW), most(MANY));
    println!("allocations and saved bytes: {few:?} with {FEW} entries, {many:?} with {MANY}");
    assert!(many.0 <= few.0 + PARTS, "allocations: {few:?} with {FEW} entries, {many:?} with {MANY}");
    assert!(many.1 <= few.1 + 64, "saved bytes: {few:?} with {FEW} entries, {many:?} with {MANY}");
}
