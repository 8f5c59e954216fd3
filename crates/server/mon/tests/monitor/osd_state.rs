//! Goal: OSDs go out, in, down and up as in a stock cluster, and the only OSD cannot be lost. Method: a
//! monitor without sockets; the expected texts are those of a stock 16.2.15 cluster.

use crate::common::{Mon, NOW};
use loligo_wire::OsdId;

const OSD: OsdId = OsdId(0);

fn run(mon: &mut Mon, session: u64, command: &str) -> (i32, String) {
    let ack = mon.command(session, &format!("{{\"prefix\":{command}}}"));
    (ack.result, ack.status)
}

/// An OSD that is out has no placement groups: clients wait until it is in again.
#[test]
fn an_osd_goes_out_and_in() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    mon.output(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let pg = "1.3".parse().unwrap();
    let ok = |status: &str| (0, status.to_owned());
    for (command, expected, acting) in [
        (r#""osd in","ids":["0"]"#, ok("osd.0 is already in. "), 1),
        (r#""osd out","ids":["7"]"#, ok("osd.7 does not exist. "), 1),
        (r#""osd out","ids":["osd.0","7"]"#, ok("marked out osd.0. osd.7 does not exist. "), 0),
        (r#""osd out","ids":["all"]"#, ok("osd.0 is already out. "), 0),
        (
            r#""osd in","ids":["x"]"#,
            (-22, "Expected option value to be integer, got 'x'invalid osd id-1".into()),
            0,
        ),
        (r#""osd in","ids":["any"]"#, ok("marked in osd.0. "), 1),
        // The OSD takes half of the placement groups, and there is no other OSD for the rest.
        (r#""osd reweight","id":0,"weight":0.5"#, ok("reweighted osd.0 to 0.5 (8000)"), 0),
        (r#""osd reweight","id":0,"weight":0.0"#, ok("reweighted osd.0 to 0 (0)"), 0),
        (r#""osd reweight","id":0,"weight":1.0"#, ok("reweighted osd.0 to 1 (10000)"), 1),
        (r#""osd reweight","id":7,"weight":1.0"#, (-2, "osd.7 does not exist".into()), 1),
    ] {
        let epoch = mon.monitor.state().osdmap().epoch;
        assert_eq!(run(&mut mon, admin, command), expected, "{command}");
        let map = mon.monitor.state().osdmap();
        assert_eq!(map.pg_to_up_acting(pg).acting.len(), acting, "{command}");
        let changed = ["marked", "reweighted"].iter().any(|word| expected.1.starts_with(word));
        assert_eq!(map.epoch != epoch, changed, "{command}");
    }
}

#[test]
fn an_osd_that_is_taken_down_comes_up_again() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    let up = |mon: &Mon| mon.monitor.state().osdmap().client_addrs(OSD).cloned();
    let addrs = up(&mon);
    let down = r#""osd down","ids":["0"]"#;
    assert!(addrs.is_some());
    assert_eq!(run(&mut mon, admin, r#""osd set","key":"noup""#).0, 0);
    assert_eq!(run(&mut mon, admin, down), (0, "marked down osd.0. ".into()));
    assert_eq!(run(&mut mon, admin, down), (0, "osd.0 is already down. ".into()));
    mon.monitor.tick(NOW);
    assert_eq!(up(&mon), None, "none shall come up");
    // It is the only OSD, and holds all data.
    for command in ["osd rm\",\"ids\":[\"0\"]", "osd purge\",\"id\":0,\"yes_i_really_mean_it\":true"] {
        assert_eq!(run(&mut mon, admin, &format!("\"{command}")).0, -1, "{command}");
    }
    assert_eq!(run(&mut mon, admin, r#""osd unset","key":"noup""#).0, 0);
    mon.monitor.tick(NOW);
    assert_eq!(up(&mon), addrs);
}

#[test]
fn an_osd_that_is_up_is_not_removed() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    let sure = r#","yes_i_really_mean_it":true"#;
    let busy = |status: &str| (-16, status.to_owned());
    for (command, expected) in [
        (r#""osd rm","ids":["5","0"]"#.to_owned(), busy("osd.0 is still up; must be down before removal. ")),
        (r#""osd rm","ids":["5"]"#.to_owned(), (0, "osd.5 does not exist. ".into())),
        (format!(r#""osd lost","id":0{sure}"#), busy("osd.0 is not down")),
        (format!(r#""osd lost","id":5{sure}"#), (-2, "osd.5 does not exist".into())),
        (format!(r#""osd destroy","id":0{sure}"#), busy("osd.0 is not `down`.")),
        (format!(r#""osd purge","id":5{sure}"#), (0, "osd.5 does not exist".into())),
    ] {
        assert_eq!(run(&mut mon, admin, &command), expected, "{command}");
    }
    mon.output(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let status = "unsafe to stop osd(s) at this time (8 PGs are or would become offline)";
    assert_eq!(run(&mut mon, admin, r#""osd ok-to-stop","ids":["0"]"#), busy(status));
    let status = "OSD(s) 0 have 8 pgs currently mapped to them. ";
    assert_eq!(run(&mut mon, admin, r#""osd safe-to-destroy","ids":["0"]"#), busy(status));
    let text = mon.output(admin, r#"{"prefix":"osd utilization"}"#);
    assert_eq!(
        text,
        "avg 8\nstddev 0 (expected baseline 0)\nmin osd.0 with 8 pgs (1 * mean)\nmax osd.0 with 8 pgs (1 * mean)\n"
    );
}

#[test]
fn options_are_explained() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    let help =
        |mon: &mut Mon, key: &str| mon.output(admin, &format!(r#"{{"prefix":"config help","key":"{key}"}}"#));
    let lines = help(&mut mon, "osd_pool_default_size");
    assert_eq!(
        lines,
        "osd_pool_default_size - \n  (uint, advanced)\n  Default: 3\n  Minimum: 0\n  Maximum: 10\n  Can update at runtime: true\n"
    );
    let lines = help(&mut mon, "osd_op_queue");
    assert!(lines.contains("  Possible values:  wpq mclock_scheduler debug_random\n"), "{lines}");
    let json = mon.output(admin, r#"{"prefix":"config help","key":"log_to_stderr","format":"json"}"#);
    assert!(json.contains(r#""type":"bool","level":"basic""#), "{json}");
    assert!(json.contains(r#""default":true,"daemon_default":false"#), "{json}");
    assert_eq!(mon.command(admin, r#"{"prefix":"config help","key":"nosuch"}"#).result, -2);
}

/// What replaces CRUSH's choice is shown, and decides by whom a placement group is listed.
#[test]
fn exceptions_to_crush_are_dumped() {
    let mut mon = Mon::new();
    mon.monitor.change(|state| state.add_osds(NOW, 3, "host")).expect("three OSDs");
    let admin = mon.client("admin", "allow *");
    mon.output(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    for command in [
        r#""osd pg-upmap","pgid":"1.0","id":[2]"#,
        r#""osd pg-upmap-items","pgid":"1.1","id":[0,1]"#,
        r#""osd pg-temp","pgid":"1.2","id":[1,2]"#,
        r#""osd primary-temp","pgid":"1.2","id":2"#,
    ] {
        let (result, said) = run(&mut mon, admin, command);
        assert_eq!(result, 0, "{command}: {said}");
    }
    let dump = mon.output(admin, r#"{"prefix":"osd dump","format":"json"}"#);
    for part in [
        r#""pg_upmap":[{"pgid":"1.0","osds":[2]}]"#,
        r#""pg_upmap_items":[{"pgid":"1.1","mappings":[{"from":0,"to":1}]}]"#,
        r#""pg_temp":[{"pgid":"1.2","osds":[1,2]}]"#,
        r#""primary_temp":["1.2",2]"#,
    ] {
        assert!(dump.contains(part), "{part} is not in {dump}");
    }
    let text = mon.output(admin, r#"{"prefix":"osd dump"}"#);
    for line in ["pg_upmap 1.0 [2]", "pg_upmap_items 1.1 [0,1]", "pg_temp 1.2 [1,2]", "primary_temp 1.2 2"] {
        assert!(text.lines().any(|shown| shown == line), "{line} is not in {text}");
    }
}

/// Without a filter each bucket is shown, also one that holds no OSD.
#[test]
fn empty_buckets_are_in_the_tree() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    assert_eq!(run(&mut mon, admin, r#""osd crush add-bucket","name":"spare","type":"host""#).0, 0);
    assert!(mon.output(admin, r#"{"prefix":"osd tree"}"#).contains("spare"));
    assert!(!mon.output(admin, r#"{"prefix":"osd tree","states":["up"]}"#).contains("spare"));
}
