//! Goal: the loads of OSDs and the ideal numbers of placement groups are reported as by a stock cluster,
//! and a report is complete. Method: a monitor without sockets; the expected texts are those of a stock
//! 16.2.15 cluster for the same input, except for numbers of placement groups.

use crate::common::{Mon, NOW};

fn said(mon: &mut Mon, session: u64, command: &str) -> (i32, String, String) {
    let ack = mon.command(session, &format!("{{\"prefix\":{command}}}"));
    (ack.result, String::from_utf8(ack.output.to_vec()).expect("a text"), ack.status)
}

#[test]
fn the_autoscaler_tells_what_it_would_do() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    for pool in [
        r#""p","pg_num":32,"autoscale_mode":"on""#,
        r#""as8","pg_num":8,"autoscale_mode":"off""#,
        r#""as256","pg_num":256,"autoscale_mode":"on","bulk":true"#,
        r#""ast","pg_num":64,"autoscale_mode":"warn""#,
    ] {
        mon.output(admin, &format!(r#"{{"prefix":"osd pool create","pool":{pool}}}"#));
    }
    for (pool, var, val) in [
        ("as8", "target_size_ratio", ".5"),
        ("ast", "target_size_bytes", "4G"),
        ("as8", "pg_autoscale_mode", "off"),
        ("ast", "pg_autoscale_mode", "warn"),
        ("p", "pg_autoscale_mode", "on"),
        ("as256", "pg_autoscale_mode", "on"),
        ("as256", "bulk", "true"),
    ] {
        let set = format!(r#"{{"prefix":"osd pool set","pool":"{pool}","var":"{var}","val":"{val}"}}"#);
        mon.output(admin, &set);
    }
    let (_, table, _) = said(&mut mon, admin, r#""osd pool autoscale-status""#);
    assert_eq!(
        table,
        "POOL   SIZE  TARGET SIZE  RATE  RAW CAPACITY   RATIO  TARGET RATIO  EFFECTIVE RATIO  BIAS  PG_NUM  NEW PG_NUM  AUTOSCALE  BULK   \n\
         p         0                1.0         8192M  0.0000                                  1.0      32              on         False  \n\
         as8       0                1.0         8192M  0.5000        0.5000           0.5000   1.0       8              off        False  \n\
         ast       0        4096M   1.0         8192M  0.5000                                  1.0      64              warn       False  \n\
         as256     0                1.0         8192M  0.0000                                  1.0     256          32  on         True   \n"
    );
    let (_, json, _) = said(&mut mon, admin, r#""osd pool autoscale-status","format":"json""#);
    let pools: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let of = |field: &str| (0..4).map(|at| pools[at][field].clone()).collect::<Vec<_>>();
    assert_eq!(of("pg_num_ideal"), [0, 50, 25, 25].map(serde_json::Value::from));
    assert_eq!(of("pg_num_final"), [32, 64, 32, 32].map(serde_json::Value::from));
    assert!(json.starts_with(
        "[\n    {\n        \"actual_capacity_ratio\": 0.0,\n        \"actual_raw_used\": 0.0,\n"
    ));
    assert!(json.ends_with("        \"would_adjust\": true\n    }\n]\n"));
}

#[test]
fn osds_are_reweighted_within_limits() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    mon.output(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":32}"#);
    let (result, text, status) = said(&mut mon, admin, r#""osd test-reweight-by-pg""#);
    let head = "moved 0 / 32 (0%)\navg 32\nstddev 0 -> 0 (expected baseline 0)\nmin osd.0 with 32 -> 32 pgs (1 -> 1 * mean)\n\
                max osd.0 with 32 -> 32 pgs (1 -> 1 * mean)\n\noload 120\nmax_change 0.05\nmax_change_osds 4\naverage_utilization 32.0000\n\
                overload_utilization 38.4000\n";
    assert_eq!((result, text.as_str(), status.as_str()), (0, head, "no change"));
    let high = "You must give a percentage higher than 100.";
    for (command, result, why) in [
        (r#""osd test-reweight-by-pg","oload":99"#, -22, high),
        (r#""osd reweight-by-utilization","oload":100"#, -22, high),
        (r#""osd reweight-by-pg","max_change":-1.0"#, -22, "max_change -1 must be positive"),
        (r#""osd reweight-by-pg","max_osds":0"#, -22, "max_osds 0 must be positive"),
        (r#""osd reweight-by-pg","pools":["nosuch"]"#, -2, "pool 'nosuch' does not exist"),
        (r#""osd test-reweight-by-utilization""#, 0, "no change"),
    ] {
        let (given, _, status) = said(&mut mon, admin, command);
        assert!(given == result && status.starts_with(why), "{command}: {given} {status}");
    }
    // Four OSDs. The one with the most placement groups for its weight is overloaded.
    mon.monitor.change(|state| {
        state.add_osds(NOW, 4, "host").expect("three more");
        for osd in 1..4u8 {
            let addr = loligo_wire::EntityAddr::msgr2(([127, 0, 0, 1], 6800 + u16::from(osd)).into());
            let uuid = loligo_wire::Uuid([osd; 16]);
            state.boot_osd(NOW, loligo_wire::OsdId(osd.into()), uuid, addr.into()).expect("it boots");
        }
    });
    mon.output(admin, r#"{"prefix":"osd pool create","pool":"q","pg_num":64}"#);
    let weights = |mon: &Mon| {
        (0..4).map(|osd| mon.monitor.state().osdmap().weight(loligo_wire::OsdId(osd))).collect::<Vec<_>>()
    };
    let before = weights(&mon);
    let trial =
        said(&mut mon, admin, r#""osd test-reweight-by-pg","oload":101,"max_osds":1,"pools":["p","q"]"#);
    assert_eq!(weights(&mon), before, "a trial changes nothing");
    let done = said(&mut mon, admin, r#""osd reweight-by-pg","oload":101,"max_osds":1,"pools":["p","q"]"#);
    assert_eq!(trial, done);
    let after = weights(&mon);
    let changed: Vec<_> = before.iter().zip(&after).filter(|(old, new)| old != new).collect();
    assert!(matches!(changed[..], [(0x10000, 0xF334)]), "{changed:x?} {}", done.1);
    assert!(done.1.contains(" weight 1.0000 -> 0.9500\n"), "{}", done.1);
    let reader = mon.client("r", "allow r");
    assert_eq!(said(&mut mon, reader, r#""osd reweight-by-pg""#).0, -13);
    assert_eq!(said(&mut mon, reader, r#""osd test-reweight-by-pg""#).0, 0);
}

#[test]
fn a_report_has_all_and_a_checksum() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    mon.output(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let (result, text, status) = said(&mut mon, admin, r#""report","tags":["a","b"]"#);
    assert_eq!(result, 0);
    // Verified with a stock monitor's report of 16.2.15: the same function of its bytes.
    assert_eq!(status, format!("report {}", loligo_wire::crc::crc32c(6_789, text.as_bytes())));
    let report: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["tag"], "a");
    assert_eq!(report["osdmap"]["pools"][0]["pool_name"], "p");
    for part in
        ["health", "monmap", "osd_metadata", "crushmap", "auth", "pool_sum", "osd_sum", "pool_stats", "paxos"]
    {
        assert!(report.contains_key(part), "{part}");
    }
    assert_eq!(report["num_pg"], 8);
}

#[test]
fn features_of_monitors_are_those_there_are() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    let set = |rest: &str| format!(r#""mon feature set",{rest}"#);
    let sure = r#","yes_i_really_mean_it":true"#;
    for (rest, result, status) in [
        (r#""feature_name":"nosuch""#.to_owned(), -2, "unknown feature 'nosuch'"),
        (
            r#""feature_name":"nautilus""#.to_owned(),
            -1,
            "please specify '--yes-i-really-mean-it' if you really, **really** want to set feature \
             'mon_feature_t([nautilus])' in the monmap.",
        ),
        (format!(r#""feature_name":"nautilus"{sure}"#), 0, "setting feature 'mon_feature_t([nautilus])'"),
        (
            format!(r#""feature_name":"reserved"{sure}"#),
            -22,
            "current quorum does not support feature 'mon_feature_t([reserved])'; supported features: \
             mon_feature_t([kraken,luminous,mimic,osdmap-prune,nautilus,octopus,pacific,elector-pinging])",
        ),
    ] {
        assert_eq!(said(&mut mon, admin, &set(&rest)), (result, String::new(), status.to_owned()));
    }
    assert_eq!(said(&mut mon, admin, r#""mon ok-to-rm","id":"a""#).2, "removing mon.a would break quorum");
    assert_eq!(
        said(&mut mon, admin, r#""mon ok-to-rm","id":"b""#),
        (0, String::new(), "mon.b does not exist".into())
    );
    assert_eq!(said(&mut mon, admin, r#""mon ok-to-add-offline""#).0, -16);
}
