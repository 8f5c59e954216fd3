//! Goal: clusters that show several OSDs have pools of several copies and erasure-coded pools, with the
//! checks of a stock monitor. Method: commands to a monitor with three OSDs in its map.

use loligo_maps::PoolFlags;
use loligo_wire::{OsdId, PoolId, Uuid};

use serde_json::Value;

use crate::common::{Mon, NOW};

const ADMIN: &str = "allow *";
const OSDS: usize = 3;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn mon_of_three() -> Mon {
    let mut mon = Mon::new();
    mon.monitor.change(|state| {
        state.add_osds(NOW, OSDS, "host").expect("two more OSDs");
        for osd in [1, 2] {
            state.boot_osd(NOW, OsdId(osd), Uuid([osd as u8; 16]), Default::default()).expect("it boots");
        }
    });
    mon
}

/// The results and texts are those of 16.2.15, except for pools that do not fit: a stock monitor creates
/// them, but they are unusable.
#[test]
fn erasure_coded_pools_are_made_by_profiles() {
    let mut mon = mon_of_three();
    let admin = mon.client("admin", ADMIN);
    let mut run = |command: &str| {
        let ack = mon.command(admin, &format!("{{{command}}}"));
        (ack.result, ack.status)
    };
    let set = |words: &str| {
        format!(
            r#""prefix":"osd erasure-code-profile set","name":"t","profile":[{words},"crush-failure-domain=osd"]"#
        )
    };
    assert_eq!(run(&set(r#""k=2","m=1""#)).0, 0);
    assert_eq!(run(&set(r#""k=2","m=1""#)).0, 0, "the same");
    let (errno, status) = run(&set(r#""k=2","m=2""#));
    assert_eq!(errno, -1);
    assert!(
        status.starts_with("will not override erasure code profile t because the existing profile {"),
        "{status}"
    );
    let create = |name: &str, rest: &str| {
        format!(r#""prefix":"osd pool create","pool":"{name}","pg_num":8,"pool_type":"erasure"{rest}"#)
    };
    let by_profile = r#","erasure_code_profile":"t""#;
    assert_eq!(run(&create("ec", by_profile)), (0, "pool 'ec' created".to_owned()));
    assert_eq!(run(&create("ec", by_profile)), (0, "pool 'ec' already exists".to_owned()));
    let (errno, status) = run(&create("wide", ""));
    assert_eq!(errno, -22, "the default profile has four shards");
    assert!(status.contains("--osds 4"), "{status}");
    assert_eq!(run(&create("none", r#","erasure_code_profile":"none""#)).0, -22);
    let other = r#","erasure_code_profile":"t","rule":"replicated_rule""#;
    assert_eq!(run(&create("other", other)), (-22, "(22) Invalid argument".to_owned()));
    assert_eq!(
        run(&set(r#""k=2","m=1","crush-failure-domain=nosuch""#)
            .replace(r#","crush-failure-domain=osd""#, ""))
        .0,
        -22
    );
    let change =
        |var: &str, val: &str| format!(r#""prefix":"osd pool set","pool":"ec","var":"{var}","val":"{val}""#);
    assert_eq!(run(&change("size", "2")).0, -95);
    assert_eq!(
        [("1", -22), ("2", 0), ("4", -22)].map(|(val, _)| run(&change("min_size", val)).0),
        [-22, 0, -22]
    );
    assert_eq!(run(&change("allow_ec_overwrites", "true")).0, 0);
    assert_eq!(run(&change("allow_ec_overwrites", "false")).0, -22);
    let rm = r#""prefix":"osd erasure-code-profile rm","name":"t""#;
    assert_eq!(run(rm), (-16, "ec pool(s) are using the erasure code profile 't'".to_owned()));
    assert_eq!(run(r#""prefix":"osd crush rule rm","name":"ec""#).0, -16);
    assert_eq!(
        run(&rm.replace("\"t\"", "\"none\"")),
        (0, "erasure-code-profile none does not exist".to_owned())
    );
    let pool = mon.monitor.state().osdmap().pool(PoolId(1)).expect("the pool").clone();
    assert_eq!((pool.size, pool.min_size, pool.stripe_width, pool.crush_rule), (3, 2, 8192, 1));
    assert!(pool.flags.contains(PoolFlags::EC_OVERWRITES));
}

#[test]
fn osds_have_equal_parts_of_the_store() {
    let mut mon = mon_of_three();
    let admin = mon.client("admin", ADMIN);
    mon.command(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let df = json(&mon.output(admin, r#"{"prefix":"osd df","format":"json"}"#));
    let nodes = df["nodes"].as_array().expect("nodes");
    let sums = |field: &str| nodes.iter().filter_map(|node| node[field].as_u64()).sum::<u64>();
    assert_eq!((nodes.len(), sums("pgs")), (OSDS, 24));
    assert!(sums("kb").abs_diff(8 << 20) < 3 && sums("kb_used").abs_diff(1 << 20) < 3, "{df}");
    let size = mon.output(admin, r#"{"prefix":"osd pool get","pool":"p","var":"size"}"#);
    assert_eq!(size, "size: 3\n");
    for (size, result) in [("4", -22), ("2", 0)] {
        let command = format!(r#"{{"prefix":"osd pool set","pool":"p","var":"size","val":"{size}"}}"#);
        assert_eq!(mon.command(admin, &command).result, result, "{size}");
    }
}
