//! Goal: settings can be reset to an earlier version, also after a restart, and daemons show their
//! settings. Method: a monitor without sockets; the expected texts are those of a stock 16.2.15 cluster,
//! except for timestamps.

use loligo_mon::state::State;

use crate::common::{Mon, NOW};

const STAMP: &str = "2027-01-15T08:00:00.000000+0000";

#[test]
fn versions_are_logged_and_come_back() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    let log = |mon: &mut Mon, num: u32| {
        let command = format!(r#"{{"prefix":"config log","num":{num}}}"#);
        mon.output(admin, &command).replace(STAMP, "T")
    };
    assert_eq!(log(&mut mon, 9), "--- 1 --- 0.000000 ---\n");
    let set = |who: &str, name: &str, value: &str| {
        format!(r#"{{"prefix":"config set","who":"{who}","name":"{name}","value":"{value}"}}"#)
    };
    mon.output(admin, &set("client.x", "rbd_cache", "false"));
    mon.output(admin, &set("osd", "osd_max_backfills", "3"));
    mon.output(admin, &set("osd", "osd_max_backfills", "4"));
    mon.output(admin, &set("osd", "osd_max_backfills", "4"));
    let rm = r#"{"prefix":"config rm","who":"osd","name":"osd_max_backfills"}"#;
    mon.output(admin, rm);
    mon.output(admin, rm);
    assert_eq!(
        log(&mut mon, 3),
        "--- 5 --- T ---\n- osd/osd_max_backfills = 4\n--- 4 --- T ---\n- osd/osd_max_backfills = 3\n\
         + osd/osd_max_backfills = 4\n--- 3 --- T ---\n+ osd/osd_max_backfills = 3\n"
    );
    let json = mon.output(admin, r#"{"prefix":"config log","num":1,"format":"json"}"#);
    let expected = r#"[{"version":5,"timestamp":"T","name":"","changes":[{"name":"osd/osd_max_backfills","previous_value":"4"}]}]"#;
    assert_eq!(json.replace(STAMP, "T"), expected);
    let reset = |num: u32| format!(r#"{{"prefix":"config reset","num":{num}}}"#);
    mon.output(admin, &reset(1));
    assert_eq!(log(&mut mon, 1), "--- 6 --- T --- reset to 1 ---\n- client.x/rbd_cache = false\n");
    assert_eq!(mon.monitor.state().config().iter().count(), 0);
    mon.output(admin, &reset(4));
    mon.output(admin, &reset(4));
    assert_eq!(
        log(&mut mon, 1),
        "--- 7 --- T --- reset to 4 ---\n+ client.x/rbd_cache = false\n+ osd/osd_max_backfills = 4\n"
    );
    let ack = mon.command(admin, &reset(99));
    assert!(ack.result == -22 && ack.status.starts_with("must specify a valid historical version"));
    let mut again = State::from_json(&mon.monitor.state().to_json()).expect("a state");
    assert_eq!(again.config_log(), mon.monitor.state().config_log());
    again.reset_config(NOW, 3).expect("it is remembered");
    let value = again.config().stored("osd", "osd_max_backfills");
    assert_eq!(value, Some("3"));
}

#[test]
fn daemons_tell_what_they_go_by() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    let set = |who: &str, value: &str| {
        format!(r#"{{"prefix":"config set","who":"{who}","name":"osd_max_backfills","value":"{value}"}}"#)
    };
    mon.output(admin, &set("osd", "4"));
    mon.output(admin, &set("osd.0", "3"));
    let show = r#"{"prefix":"config show","who":"osd.0","format":"json"}"#;
    assert_eq!(mon.output(admin, show), r#"[{"name":"osd_max_backfills","value":"3","source":"mon"}]"#);
    let show = r#"{"prefix":"config show","who":"osd.0"}"#;
    let table = "NAME               VALUE  SOURCE  OVERRIDES  IGNORES\nosd_max_backfills  3      mon                       \n";
    assert_eq!(mon.output(admin, show), table);
    let key = |who: &str, key: &str| format!(r#"{{"prefix":"config show","who":"{who}","key":"{key}"}}"#);
    assert_eq!(mon.output(admin, &key("osd.0", "debug_ms")), "0/0\n");
    assert_eq!(mon.output(admin, &key("mon.a", "osd_max_backfills")), "1\n");
    assert_eq!(mon.command(admin, &key("osd.0", "nosuch")).result, -2);
    let all = mon.output(admin, r#"{"prefix":"config show-with-defaults","who":"mon.a","format":"json"}"#);
    assert!(all.contains(r#"{"name":"osd_max_backfills","value":"1","source":"default"}"#));
    for (who, result, status) in [
        ("osd.9", -2, "no config state for daemon osd.9"),
        ("client.admin", -2, "no config state for daemon client.admin"),
        ("bad", -22, "invalid daemon name: use <type>.<id>"),
    ] {
        let ack = mon.command(admin, &format!(r#"{{"prefix":"config show","who":"{who}"}}"#));
        assert_eq!((ack.result, ack.status.as_str()), (result, status));
    }
    let get = |who: &str, key: &str| format!(r#"{{"prefix":"config get","who":"{who}","key":"{key}"}}"#);
    assert_eq!(mon.output(admin, &get("osd.1", "osd_max_backfills")), "4\n");
    assert_eq!(mon.output(admin, &get("mon.a", "fsid")), format!("{}\n", crate::common::FSID));
    assert_eq!(mon.command(admin, &get("osd.0", "nosuch")).status, "unrecognized key 'nosuch'");
}
