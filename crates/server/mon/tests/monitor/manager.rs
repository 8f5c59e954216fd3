//! The manager: a second address of the monitor's process.

use loligo_wire::message::mgr::{MMgrCommand, MMgrCommandReply};
use loligo_wire::message::mon::{MCommand, MCommandReply, MMgrMap, MMonCommand, MMonSubscribe, Subscription};
use loligo_wire::{EntityAddr, EntityAddrVec, Uuid};

use crate::common::{FSID, Mon, NOW, opened};

fn addrs() -> EntityAddrVec {
    EntityAddrVec::from(EntityAddr::msgr2(([127, 0, 0, 1], 6900).into()).with_nonce(5))
}

fn ask(mon: &mut Mon, session: u64, text: &str) -> (i32, String, String) {
    let command = MCommand { fsid: Uuid::default(), cmd: vec![text.to_owned()], input: Default::default() };
    let effects = mon.send(session, &MMgrCommand(command));
    let MMgrCommandReply(MCommandReply { result, status, output }) =
        opened(&effects, session).pop().expect("an answer");
    (result, status, String::from_utf8_lossy(&output).into_owned())
}

/// A monitor with a manager, and `client.x` with these capabilities for each.
fn with_manager(mon_caps: &str, mgr_caps: &str) -> (Mon, u64) {
    let mut mon = Mon::new();
    mon.monitor.change(|state| state.set_manager(NOW, addrs()));
    let admin = mon.client("admin", "allow *");
    let caps = if mon_caps.is_empty() { String::new() } else { format!(r#","caps":["mon","{mon_caps}"]"#) };
    mon.output(admin, &format!(r#"{{"prefix":"auth get-or-create","entity":"client.x"{caps}}}"#));
    let session = mon.client_of_manager("x", mgr_caps);
    (mon, session)
}

#[test]
fn its_map_is_told_and_shown() {
    let (mut mon, _) = with_manager("", "");
    let client = mon.client("admin", "allow *");
    let what = [("mgrmap".to_owned(), Subscription { start: 0, onetime: false })].into();
    let effects = mon.send(client, &MMonSubscribe { what, ..MMonSubscribe::default() });
    let MMgrMap { map } = opened(&effects, client).pop().expect("the map");
    let facts = (map.available, map.active_name.as_str(), &map.active_addrs);
    assert_eq!(facts, (true, "a", &addrs()));
    let stat = mon.output(client, r#"{"prefix":"mgr stat","format":"json"}"#);
    assert!(stat.ends_with(r#""available":true,"active_name":"a","num_standby":0}"#), "{stat}");
    assert!(mon.output(client, r#"{"prefix":"status"}"#).contains("    mgr: a(active, since "));
    let nodes = mon.output(client, r#"{"prefix":"node ls","type":"mgr","format":"json"}"#);
    assert_eq!(nodes, "{\"host\":[\"a\"]}\n");
    let who = mon.output(client, r#"{"prefix":"mgr metadata","who":"a","format":"json"}"#);
    assert!(who.starts_with(r#"{"name":"a","addrs":"[v2:127.0.0.1:6900/5]""#), "{who}");
    assert_eq!(mon.output(client, r#"{"prefix":"mgr fail","who":"a"}"#), "");
    assert!(mon.output(client, r#"{"prefix":"versions"}"#).contains("\"mgr\": {\n"));
}

/// The texts are those of a manager of 16.2.15.
#[test]
fn commands_are_answered_as_by_a_stock_manager() {
    let (mut mon, session) = with_manager("allow *", "allow *");
    let (result, _, output) = ask(&mut mon, session, r#"{"prefix":"pg stat","format":"json"}"#);
    assert!(result == 0 && output.starts_with("{\"pg_ready\":true,"), "{output}");
    for (text, status) in [
        (r#"{"prefix":"status"}"#, "No handler found for 'status'"),
        (r#"{"prefix":"nosuch"}"#, "No handler found for 'nosuch'"),
        ("{}", "No handler found for ''"),
        (r#"{"prefix":5}"#, "bad or missing field 'prefix'"),
        ("[]", "not JSON object []"),
        ("x", "unparseable JSON x"),
    ] {
        assert_eq!(ask(&mut mon, session, text), (-22, status.to_owned(), String::new()), "{text}");
    }
    let (result, _, output) = ask(&mut mon, session, "\n{\"prefix\":\"pg stat\",\"format\":\"json\"}\"");
    assert!(result == 0 && output.starts_with("{\"pg_ready\":true,"), "a word behind the object: {output}");
    let (result, status, _) = ask(&mut mon, session, r#"{"prefix":"pg ls","pool":77}"#);
    assert_eq!((result, status.as_str()), (-2, "pool 77 does not exist"));
    let descriptions = ask(&mut mon, session, r#"{"prefix":"get_command_descriptions"}"#).2;
    assert!(descriptions.contains(r#"["pg","getmap"]"#) && !descriptions.contains(r#"["mon","dump""#));
}

#[test]
fn commands_of_modules_are_refused_at_both_doors_whatever_goes_with_them() {
    let (mut mon, session) = with_manager("profile rbd", "profile rbd");
    let client = mon.client("x", "profile rbd");
    for (command, module) in [
        (r#""rbd trash purge schedule list","level_spec":"""#, "rbd_support"),
        (r#""rbd task add flatten","image_spec":"rbd/i""#, "rbd_support"),
        (r#""osd status""#, "status"),
        (r#""fs subvolume ls","vol_name":"v""#, "volumes"),
        (r#""fs snap-schedule list""#, "snap_schedule"),
        (r#""device ls""#, "devicehealth"),
        (r#""orch ls""#, "orchestrator"),
        (r#""influx send""#, "influx"),
        (r#""mgr self-test run""#, "selftest"),
        (r#""healthcheck history ls""#, "prometheus"),
    ] {
        let prefix = command.split('"').nth(1).expect("a prefix");
        let status = format!(
            "Module '{module}' is not enabled/loaded (required by command '{prefix}'): use `ceph mgr module enable \
             {module}` to enable it"
        );
        let text = format!(r#"{{"prefix":{command}}}"#);
        assert_eq!(ask(&mut mon, session, &text), (-95, status.clone(), String::new()));
        let ack = mon.command(client, &text);
        assert_eq!((ack.result, ack.status), (-95, status));
    }
}

#[test]
fn a_client_may_there_what_it_may_at_the_monitor() {
    let stat = r#"{"prefix":"pg stat"}"#;
    let denied = "access denied: does your client key have mgr caps? See \
                  http://docs.ceph.com/en/latest/mgr/administrator/#client-authentication";
    for (mon_caps, mgr_caps, expected) in [
        ("allow *", "", (-13, denied)),
        ("", "allow *", (-13, "access denied")),
        ("allow r", "allow r", (0, "")),
    ] {
        let (mut mon, session) = with_manager(mon_caps, mgr_caps);
        let (result, status, _) = ask(&mut mon, session, stat);
        assert_eq!((result, status.as_str()), expected, "{mon_caps} {mgr_caps}");
    }
    // Manager capabilities alone do not allow changes.
    let (mut mon, session) = with_manager("allow r", "allow *");
    let (result, status, _) = ask(&mut mon, session, r#"{"prefix":"osd pool scrub","who":["p"]}"#);
    assert_eq!((result, status.as_str()), (-13, "access denied"));
}

#[test]
fn nothing_but_commands_is_heard_there() {
    let (mut mon, session) = with_manager("allow *", "allow *");
    let before = mon.monitor.describe_sessions().to_string();
    let command =
        MMonCommand { fsid: FSID, cmd: vec![r#"{"prefix":"status"}"#.into()], ..MMonCommand::default() };
    assert!(mon.send(session, &command).out.is_empty());
    let what = [("osdmap".to_owned(), Subscription { start: 0, onetime: false })].into();
    assert!(mon.send(session, &MMonSubscribe { what, ..MMonSubscribe::default() }).out.is_empty());
    assert!(!before.contains("client.x"), "sessions with the monitor only: {before}");
}
