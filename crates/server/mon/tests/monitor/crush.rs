//! Goal: the CRUSH map is changed as in a stock cluster, every change makes an epoch, and the map
//! survives a restart. Method: a monitor without sockets; the expected texts are those of a stock
//! 16.2.15 cluster.

use crate::common::Mon;
use loligo_mon::state::State;

#[test]
fn rules_buckets_and_weights_are_changed() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    mon.output(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let cases: &[(&str, i32, &str)] = &[
        (r#"rule create-simple","name":"q1","root":"default","type":"osd""#, 0, ""),
        (r#"rule create-simple","name":"q1","root":"default","type":"osd""#, 0, "rule q1 already exists"),
        (
            r#"rule create-simple","name":"q2","root":"nosuch","type":"osd""#,
            -2,
            "root item nosuch does not exist",
        ),
        (
            r#"rule create-replicated","name":"q2","root":"default","type":"nosuch""#,
            -22,
            "unknown type nosuch",
        ),
        (r#"rule rename","srcname":"nosuch","dstname":"q4""#, -2, "source rule name 'nosuch' does not exist"),
        (
            r#"rule rename","srcname":"q1","dstname":"replicated_rule""#,
            -17,
            "destination rule name 'replicated_rule' already exists",
        ),
        (r#"rule rename","srcname":"q1","dstname":"q5""#, 0, ""),
        (r#"rule rename","srcname":"q1","dstname":"q5""#, 0, "already renamed to 'q5'"),
        (r#"rule rm","name":"replicated_rule""#, -16, "crush ruleset replicated_rule 0 is in use"),
        (r#"rule rm","name":"nosuch""#, 0, "rule nosuch does not exist"),
        (r#"add-bucket","name":"rack1","type":"rack""#, 0, "added bucket rack1 type rack to crush map"),
        (r#"add-bucket","name":"rack1","type":"rack""#, 0, "bucket 'rack1' already exists"),
        (r#"add-bucket","name":"r2","type":"nosuch""#, -22, "type 'nosuch' does not exist"),
        (r#"rename-bucket","srcname":"rack1","dstname":"rack2""#, 0, "renamed bucket rack1 into rack2"),
        (r#"rename-bucket","srcname":"nosuch","dstname":"rack3""#, -2, "srcname = 'nosuch' does not exist"),
        (
            r#"rename-bucket","srcname":"rack2","dstname":"default""#,
            -17,
            "dstname = 'default' already exists",
        ),
        (
            r#"rename-bucket","srcname":"osd.0","dstname":"osd.5""#,
            -20,
            "srcname = 'osd.0' is not a bucket because its id = 0 is >= 0",
        ),
        (
            r#"reweight","name":"osd.0","weight":1.5"#,
            0,
            "reweighted item id 0 name 'osd.0' to 1.5 in crush map",
        ),
        (r#"reweight","name":"osd.9","weight":2.0"#, -2, "device 'osd.9' does not appear in the crush map"),
        (
            r#"reweight","name":"default","weight":2.0"#,
            -22,
            "device 'default' is not a leaf in the crush map",
        ),
        (r#"tunables","profile":"firefly""#, 0, "adjusted tunables profile to firefly"),
    ];
    for (command, result, status) in cases {
        let epoch = mon.monitor.state().osdmap().epoch;
        let ack = mon.command(admin, &format!(r#"{{"prefix":"osd crush {command}}}"#));
        assert_eq!((ack.result, ack.status.as_str()), (*result, *status), "{command}");
        let unchanged = *result != 0 || ["already", "nosuch"].iter().any(|word| status.contains(word));
        assert_eq!(mon.monitor.state().osdmap().epoch == epoch, unchanged, "{command}");
    }
    let set = r#"{"prefix":"osd pool set","pool":"p","var":"crush_rule","val":"q5"}"#;
    assert_eq!(mon.command(admin, set).result, 0);
    assert_eq!(mon.command(admin, r#"{"prefix":"osd crush rule rm","name":"q5"}"#).result, -16);
    let saved = State::from_json(&mon.monitor.state().to_json()).unwrap();
    let (crush, pool) = (&saved.osdmap().crush, saved.osdmap().pools.values().next().unwrap());
    assert_eq!((crush.rule_by_name("q5"), pool.crush_rule), (Some(1), 1));
    assert_eq!((crush.bucket(-1).unwrap().weight, crush.tunables.chooseleaf_stable), (0x1_8000, 0));
    assert!(crush.item_by_name("rack2").is_some());
}

#[test]
fn a_whole_map_is_taken_if_it_can_be() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    mon.output(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let got = mon.command(admin, r#"{"prefix":"osd getcrushmap"}"#);
    let version: u32 = got.status.parse().unwrap();
    let set = format!(r#"{{"prefix":"osd setcrushmap","prior_version":{version}}}"#);
    let ack = mon.command_bytes(admin, &set, &got.output);
    assert_eq!((ack.result, ack.status), (0, (version + 1).to_string()));
    let ack = mon.command_bytes(admin, &set, &got.output);
    let status = format!("prior_version {version} != crush version {}", version + 1);
    assert_eq!((ack.result, ack.status), (-1, status));
    let set = r#"{"prefix":"osd setcrushmap"}"#;
    for junk in [&b"junk"[..], b"", &got.output[..20]] {
        let ack = mon.command_bytes(admin, set, junk);
        assert_eq!(ack.result, -22);
        assert!(ack.status.starts_with("Failed to parse crushmap: "), "{}", ack.status);
    }
}

/// The results are those of a stock monitor in a cluster where no OSD has a class yet.
#[test]
fn items_are_placed_classed_and_weighed() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    mon.output(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let cases: &[(&str, i32, &str)] = &[
        (
            r#"add-bucket","name":"h2","type":"host","args":["root=default","rack=r1"]"#,
            0,
            "added bucket h2 type host to location {rack=r1,root=default}",
        ),
        (r#"move","name":"nosuch","args":["root=default"]"#, -2, "item nosuch does not exist"),
        (r#"move","name":"h2","args":["bogus=x"]"#, -22, "(22) Invalid argument"),
        (r#"move","name":"r1","args":["host=h2"]"#, -40, "(40) Too many levels of symbolic links"),
        (
            r#"add","id":0,"weight":2.0,"args":["host=h2"]"#,
            0,
            "add item id 0 name 'osd.0' weight 2 at location {host=h2} to crush map",
        ),
        (
            r#"set","id":0,"weight":1.5,"args":["host=h2"]"#,
            0,
            "set item id 0 name 'osd.0' weight 1.5 at location {host=h2} to crush map",
        ),
        (
            r#"set","id":0,"weight":1.5,"args":["host=h2"]"#,
            0,
            "set item id 0 name 'osd.0' weight 1.5 at location {host=h2}: no change",
        ),
        (
            r#"set","id":9,"weight":1.5,"args":["host=h2"]"#,
            -2,
            "osd.9 does not exist. Create it before updating the crush map",
        ),
        (
            r#"create-or-move","id":0,"weight":7.0,"args":["host=h2"]"#,
            0,
            "create-or-move updated item name 'osd.0' weight 7 at location {host=h2} to crush map",
        ),
        (r#"rm","name":"h2""#, -39, "(39) Directory not empty"),
        (r#"rm","name":"osd.0","ancestor":"h2""#, 0, "removed item id 0 name 'osd.0' from crush map"),
        (r#"rm","name":"osd.0","ancestor":"h2""#, 0, "item 0 does not appear in that position"),
        (r#"rm","name":"nosuch""#, 0, "device 'nosuch' does not appear in the crush map"),
        (r#"set-device-class","class":"ssd","ids":["0"]"#, 0, "set osd(s) 0 to class 'ssd'"),
        (
            r#"set-device-class","class":"hdd","ids":["0"]"#,
            -16,
            "osd.0 has already bound to class 'ssd', can not reset class to 'hdd'; use 'ceph osd crush \
             rm-device-class <id>' to remove old class first",
        ),
        (
            r#"rule create-replicated","name":"s","root":"default","type":"osd","class":"nosuch""#,
            -22,
            "device class nosuch does not exist",
        ),
        (r#"rule create-replicated","name":"s","root":"default","type":"osd","class":"ssd""#, 0, ""),
        (r#"class rm","class":"ssd""#, -16, "class 'ssd' still referenced by crush_rule(s): 's'"),
        (r#"class rename","srcname":"ssd","dstname":"fast""#, 0, "rename class 'ssd' to 'fast'"),
        (r#"weight-set create-compat""#, 0, ""),
        (r#"weight-set create-compat""#, 0, "compat weight-set already created"),
        (r#"weight-set reweight-compat","item":"osd.0","weight":[0.5]"#, 0, ""),
        (
            r#"weight-set reweight","pool":"p","item":"osd.0","weight":[0.5]"#,
            -2,
            "no weight-set for pool 'p'",
        ),
        (r#"swap-bucket","source":"h2","dest":"h2","yes_i_really_mean_it":true"#, -22, "*"),
        (r#"set-tunable","tunable":"straw_calc_version","value":7"#, -22, "value must be 0 or 1; got 7"),
        (r#"reweight-all""#, 0, "reweighted crush hierarchy"),
    ];
    for (command, result, status) in cases {
        let reply = mon.command(admin, &format!(r#"{{"prefix":"osd crush {command}}}"#));
        assert_eq!(reply.result, *result, "{command}: {}", reply.status);
        assert!(*status == "*" || reply.status == *status, "{command}: {}", reply.status);
    }
    let tree = mon.output(admin, r#"{"prefix":"osd crush tree","shadow":"--show-shadow"}"#);
    let lines: Vec<&str> = tree.lines().map(str::trim_end).take(4).collect();
    let expected = [
        "ID  CLASS  WEIGHT   (compat)  TYPE NAME",
        "-8   fast  1.00000            root default~fast",
        "-5   fast  1.00000   0.50000      host host~fast",
        " 0   fast  1.00000   0.50000          osd.0",
    ];
    assert_eq!(lines, expected, "{tree}");
    // The saved map is the same: shadow buckets, classes and weight sets.
    let again = State::from_json(&mon.monitor.state().to_json()).expect("it is whole");
    assert_eq!(again.osdmap().crush, mon.monitor.state().osdmap().crush);
    let rule = again.osdmap().crush.rule_by_name("s").expect("made");
    let step = &again.osdmap().crush.rule(rule as usize).expect("made").steps[0];
    assert_eq!(again.osdmap().crush.names[&step.arg1].to_string(), "default~fast");
}
