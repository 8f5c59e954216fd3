//! Goal: commands reply with the errnos, texts and shapes that stock tools expect, and only to clients
//! that may run them. Method: a monitor without sockets; the expected texts are those of a stock 16.2.15
//! cluster.

use crate::common::{Mon, NOW, new_state};
use loligo_cephx::key::{CryptoKey, KeyType};
use loligo_maps::PoolFlags;
use loligo_mon::Usage;
use loligo_mon::command::COMMANDS;
use loligo_mon::state::State;
use loligo_wire::message::osd::ObjectStatSum;
use serde_json::Value;

const ADMIN: &str = "allow *";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn descriptions_have_every_command_with_its_signature() {
    let mut mon = Mon::new();
    let nobody = mon.client("x", "allow command nothing");
    let table = json(&mon.output(nobody, r#"{"prefix":"get_command_descriptions"}"#));
    assert_eq!(table.as_object().unwrap().len(), loligo_mon::command::all().count());
    let create = table.as_object().unwrap().values().find(|c| c["sig"][2] == "create").unwrap();
    assert_eq!(create["sig"][0], "osd");
    assert_eq!(create["sig"][3], json(r#"{"name":"pool","type":"CephPoolname"}"#));
    assert_eq!(create["sig"][4], json(r#"{"range":"0","name":"pg_num","req":"false","type":"CephInt"}"#));
    assert_eq!((&create["module"], &create["perm"]), (&json("\"osd\""), &json("\"rw\"")));
}

#[test]
fn prefixes_are_unique() {
    let mut prefixes: Vec<_> = loligo_mon::command::all().map(|c| c.prefix).collect();
    prefixes.sort_unstable();
    let twice: Vec<_> = prefixes.windows(2).filter(|w| w[0] == w[1]).map(|w| w[0]).collect();
    // As in Ceph, one takes a whole map and the other an OSD; the arguments tell them apart.
    assert_eq!(twice, ["osd crush set"]);
}

#[test]
fn every_command_that_needs_no_argument_answers_in_all_formats() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", ADMIN);
    mon.command(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":16}"#);
    mon.command(admin, r#"{"prefix":"config-key set","key":"k","val":"v"}"#);
    // The last one replies with a word in all formats, like a stock monitor.
    let no_json = [
        "mon getmap",
        "pg getmap",
        "osd getmap",
        "osd getcrushmap",
        "config generate-minimal-conf",
        "osd get-require-min-compat-client",
    ];
    let free = COMMANDS.iter().filter(|c| c.needs() != loligo_cephx::caps::Perms::RWX);
    for command in free.filter(|c| c.args.iter().all(|arg| !arg.required)) {
        let prefix = command.prefix;
        for format in ["plain", "json", "json-pretty", "xml", "xml-pretty"] {
            if matches!(
                prefix,
                "auth import" | "osd setcrushmap" | "osd crush set" | "mon ok-to-add-offline" | "scrub"
            ) {
                continue;
            }
            let ack = mon.command(admin, &format!(r#"{{"prefix":"{prefix}","format":"{format}"}}"#));
            // There is no manager module, and no bucket with an empty name.
            let refused = match &*ack.status {
                status if status.starts_with("Module '") => -95,
                "bucket '' does not exist" => -2,
                _ => 0,
            };
            assert_eq!(ack.result, refused, "{prefix} {format}: {}", ack.status);
            if format.starts_with("json") && !no_json.contains(&prefix) && !ack.output.is_empty() {
                json(std::str::from_utf8(&ack.output).unwrap());
            }
        }
    }
}

#[test]
fn malformed_commands_are_refused_as_in_ceph() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", ADMIN);
    let cases = [
        (r#"{"prefix":"nope"}"#, "command not known"),
        (r#"{"foo":1}"#, "command prefix not found"),
        ("garbage", "unparseable JSON garbage"),
        ("", "unparseable JSON "),
        ("[]", "not JSON object []"),
        ("\"status\"", "not JSON object \"status\""),
        (r#"{"prefix":["osd","pool"]}"#, "command prefix not found"),
        (r#"{"prefix":"osd pool create","pool":7}"#, "bad or missing field 'pool'"),
        (r#"{"prefix":"osd pool create","pool":"z","pg_num":"8"}"#, "bad or missing field 'pg_num'"),
        (
            r#"{"prefix":"status","format":"yaml"}"#,
            "format 'yaml' is not supported: plain, json, json-pretty, xml and xml-pretty are",
        ),
    ];
    for (command, status) in cases {
        let ack = mon.command(admin, command);
        assert_eq!((ack.result, ack.status.as_str()), (-22, status), "{command}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(mon.command(admin, &deep).result, -22);
}

#[test]
fn capabilities_decide() {
    let mut mon = Mon::new();
    let (reader, writer) = (mon.client("r", "allow r"), mon.client("w", "allow rw"));
    let only = mon.client("o", "allow command \"osd pool ls\"");
    let denied = (-13, "access denied".to_owned());
    let mut run = |session, prefix: &str| {
        let args = match prefix {
            "osd pool create" => r#","pool":"a""#,
            "config-key set" => r#","key":"k","val":"v""#,
            _ => "",
        };
        let ack = mon.command(session, &format!(r#"{{"prefix":"{prefix}"{args}}}"#));
        (ack.result, ack.status)
    };
    assert_eq!(run(reader, "status").0, 0);
    assert_eq!(run(reader, "osd pool create"), denied);
    assert_eq!(run(reader, "auth ls"), denied);
    assert_eq!(run(writer, "osd pool create"), (0, "pool 'a' created".to_owned()));
    assert_eq!(run(writer, "auth ls"), denied);
    assert_eq!(run(writer, "config-key set"), denied);
    assert_eq!(run(only, "osd pool ls").0, 0);
    assert_eq!(run(only, "status"), denied);
}

#[test]
fn pools_are_made_renamed_and_removed() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", ADMIN);
    let mut run = |command: &str| {
        let ack = mon.command(admin, command);
        (ack.result, ack.status)
    };
    let ok = |status: &str| (0, status.to_owned());
    assert_eq!(run(r#"{"prefix":"osd pool create","pool":"a"}"#), ok("pool 'a' created"));
    assert_eq!(run(r#"{"prefix":"osd pool create","pool":"a"}"#), ok("pool 'a' already exists"));
    assert_eq!(run(r#"{"prefix":"osd pool create","pool":"b","pg_num":100000}"#).0, -34);
    // Four shards do not fit on one OSD.
    assert_eq!(run(r#"{"prefix":"osd pool create","pool":"b","pool_type":"erasure"}"#).0, -22);
    assert_eq!(run(r#"{"prefix":"osd pool create","pool":"b","size":2}"#).0, -22);
    assert_eq!(
        run(r#"{"prefix":"osd pool rename","srcpool":"a","destpool":"b"}"#),
        ok("pool 'a' renamed to 'b'")
    );
    let rm = r#"{"prefix":"osd pool rm","pool":"b","pool2":"b","yes_i_really_really_mean_it":true}"#;
    let (errno, status) = run(rm);
    assert_eq!(errno, -1);
    assert!(
        status.contains("you must first set the mon_allow_pool_delete config option to true"),
        "{status}"
    );
    run(r#"{"prefix":"config set","who":"mon","name":"mon allow pool delete","value":"true"}"#);
    assert_eq!(run(r#"{"prefix":"osd pool rm","pool":"b"}"#).0, -1);
    run(r#"{"prefix":"osd pool set","pool":"b","var":"nodelete","val":"true"}"#);
    assert_eq!(run(rm).0, -1);
    run(r#"{"prefix":"osd pool set","pool":"b","var":"nodelete","val":"0"}"#);
    assert_eq!(run(rm), ok("pool 'b' removed"));
    assert_eq!(run(rm), ok("pool 'b' does not exist"));
    assert_eq!(run(r#"{"prefix":"osd pool get","pool":"b","var":"size"}"#).0, -2);
}

/// The statuses are those of 16.2.15.
#[test]
fn placement_groups_are_split_and_merged() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", ADMIN);
    mon.command(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let mut set = |var: &str, val: &str| {
        let command = format!(r#"{{"prefix":"osd pool set","pool":"p","var":"{var}","val":"{val}"}}"#);
        let ack = mon.command(admin, &command);
        let filed_by: Vec<u32> = mon.monitor.state().filed_by().values().copied().collect();
        let pool = mon.monitor.state().osdmap().pools.values().next().map(|p| (p.pg_num(), p.pgp_num()));
        (ack.result, ack.status, pool.expect("a pool"), filed_by)
    };
    let ok = |var: &str, val: &str| (0, format!("set pool 1 {var} to {val}"));
    let range = "'pg_num' must be greater than 0 and less than or equal to 65536";
    for val in ["0", "-1", "65537", "4294967304"] {
        let (errno, status, pool, _) = set("pg_num", val);
        assert_eq!((errno, status.as_str(), pool), (-34, range, (8, 8)), "{val}");
    }
    /// A setting, its value, the result, then `pg_num` and `pgp_num`, and the numbers by which pools are
    /// stored.
    type Case<'a> = (&'a str, &'a str, (i32, String), (u32, u32), &'a [u32]);
    let cases: [Case<'_>; 10] = [
        ("pg_num", "8", ok("pg_num", "8"), (8, 8), &[]),
        ("pg_num", "32", ok("pg_num", "32"), (32, 32), &[8]),
        ("pgp_num", "33", (-22, "specified pgp_num 33 > pg_num 32".into()), (32, 32), &[8]),
        ("pgp_num", "-3", (-22, "specified pgp_num must > 0, but you set to -3".into()), (32, 32), &[8]),
        ("pgp_num", "16", ok("pgp_num", "16"), (32, 16), &[8]),
        ("pg_num", "20", ok("pg_num", "20"), (20, 16), &[8]),
        ("pg_num", "5", ok("pg_num", "5"), (5, 5), &[8]),
        ("pg_num", "8", ok("pg_num", "8"), (8, 8), &[]),
        ("nopgchange", "true", ok("nopgchange", "true"), (8, 8), &[]),
        (
            "pgp_num",
            "4",
            (-1, "pool pgp_num change is disabled; you must unset nopgchange flag for the pool first".into()),
            (8, 8),
            &[],
        ),
    ];
    for (var, val, result, pool, filed_by) in cases {
        let (errno, status, then, filed) = set(var, val);
        assert_eq!(((errno, status), then, &filed[..]), (result, pool, filed_by), "{var} {val}");
    }
}

#[test]
fn keys_are_made_shown_changed_and_removed() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", ADMIN);
    let entity = |verb: &str, rest: &str| format!(r#"{{"prefix":"auth {verb}","entity":"client.t"{rest}}}"#);
    let caps = r#","caps":["mon","allow r","osd","allow rw pool=c"]"#;
    let made = mon.output(admin, &entity("get-or-create", caps));
    let key = made.trim().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(made, format!("[client.t]\n\tkey = {key}\n"));
    assert_eq!(mon.output(admin, &entity("get-or-create", "")), made);
    assert_eq!(mon.output(admin, &entity("get-key", "")), key);
    let shown =
        format!("[client.t]\n\tkey = {key}\n\tcaps mon = \"allow r\"\n\tcaps osd = \"allow rw pool=c\"\n");
    assert_eq!(mon.output(admin, &entity("get", "")), shown);
    let of = |text: &str| {
        text.trim().rsplit("key = ").next().unwrap().lines().next().unwrap().parse::<CryptoKey>()
    };
    let other =
        mon.output(admin, r#"{"prefix":"auth get-or-create","entity":"client.u","key_type":"aes256k"}"#);
    assert_eq!((of(&made).unwrap().kind(), of(&other).unwrap().kind()), (KeyType::Aes, KeyType::Aes256k));
    let rotated = mon.output(admin, &entity("rotate", ""));
    assert_ne!(of(&rotated).unwrap(), of(&made).unwrap());
    assert!(rotated.contains("caps osd = \"allow rw pool=c\""), "{rotated}");
    assert_eq!(mon.output(admin, &entity("get", "")), rotated);

    let mut refused = |command: &str| {
        let ack = mon.command(admin, command);
        (ack.result, ack.status)
    };
    let einval = |status: &str| (-22, status.to_owned());
    assert_eq!(
        refused(&entity("get-or-create", r#","caps":["mon","allow rw"]"#)),
        einval("key for client.t exists but cap mon does not match")
    );
    assert_eq!(
        refused(&entity("add", r#","caps":["mon","bogus"]"#)),
        einval("mon capability parse failed, stopped at 'bogus' of 'bogus'")
    );
    assert_eq!(
        refused(&entity("add", r#","caps":["mds","allow rw pth=/x"]"#)),
        einval("mds capability parse failed, stopped at 'pth=/x' of 'allow rw pth=/x'")
    );
    assert_eq!(refused(&entity("add", r#","caps":["foo","x"]"#)), einval("unknown cap type 'foo'"));
    assert_eq!(
        refused(&entity("add", r#","caps":["mon"]"#)),
        einval("bad capabilities request; odd number of arguments")
    );
    assert_eq!(refused(r#"{"prefix":"auth add","entity":"foo.t"}"#), einval("bad entity name"));
    assert_eq!(refused(&entity("rm", "")), (0, "updated".to_owned()));
    assert_eq!(refused(&entity("rm", "")), (0, "entity client.t does not exist".to_owned()));
    assert_eq!(refused(&entity("rotate", "")), (-2, "entity client.t does not exist".to_owned()));
    assert_eq!(refused(&entity("get-or-create", r#","key_type":"des""#)).0, -22);
    assert_eq!(refused(&entity("get", "")), (-2, "failed to find client.t in keyring".to_owned()));

    let ack = mon.command_with(admin, r#"{"prefix":"auth import"}"#, &shown);
    assert_eq!((ack.result, ack.status.as_str()), (0, "imported keyring"));
    assert_eq!(mon.output(admin, &entity("get", "")), shown);
}

#[test]
fn what_is_checked_of_a_command_is_what_it_does() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", ADMIN);
    let make = |who: &str, caps: &str, rest: &str| {
        format!(r#"{{"prefix":"auth get-or-create","entity":"client.{who}","caps":[{caps}]{rest}}}"#)
    };
    let own = r#""mon","profile rbd","osd","profile rbd pool=p""#;
    mon.output(admin, &make("admin2", r#""mon","allow *","osd","allow *""#, ""));
    mon.output(admin, &make("both", &format!(r#"{own},"mgr","allow *""#), ""));
    let maker = mon.client("maker", "profile bootstrap-rbd");
    let made = mon.output(maker, &make("image", own, ""));
    assert_eq!(mon.output(maker, &make("image", own, "")), made);

    let fields = r#","caps_mon":"profile rbd","caps_osd":"profile rbd""#;
    let denied = [
        make("admin2", "", fields),
        make("admin2", r#""mon","allow *""#, fields),
        make("new", r#""mon","allow *","osd","allow *""#, fields),
        make("new", &format!(r#"{own},"mgr","allow *""#), ""),
        make("new", r#""mon","profile rbd""#, r#","caps_osd":"profile rbd""#),
        make("new", own, "").replace("client.new", "osd.7"),
        make("image", own, "").replace("get-or-create", "get-or-create-key"),
        make("image", own, "").replace("get-or-create", "get"),
    ];
    for command in denied {
        assert_eq!(mon.command(maker, &command).result, -13, "{command}");
    }
    // The capability allows the command, but not to obtain these keys.
    let refused = [
        (make("admin2", own, ""), "key for client.admin2 exists with other caps"),
        (make("both", own, ""), "key for client.both exists with other caps"),
        (make("new", own, fields), "auth get-or-create takes no 'caps_mon'"),
        (
            make("new", r#""mon","allow *","mon","profile rbd","osd","profile rbd""#, ""),
            "bad capabilities request; a service is named twice",
        ),
    ];
    for (command, status) in refused {
        let ack = mon.command(maker, &command);
        assert_eq!((ack.result, ack.status.as_str(), ack.output.len()), (-22, status, 0), "{command}");
    }
    let dump = mon.output(admin, r#"{"prefix":"auth ls"}"#);
    assert!(!dump.contains("client.new") && !dump.contains("osd.7"), "{dump}");
    // A client that may read keys gets a key with further capabilities, as from stock monitors.
    assert!(mon.output(admin, &make("both", own, "")).starts_with("[client.both]"));
}

#[test]
fn one_command_does_not_push_out_the_audit_log() {
    let mut mon = Mon::new();
    let (admin, weak) = (mon.client("admin", ADMIN), mon.client("weak", "allow r"));
    mon.output(admin, r#"{"prefix":"osd set","key":"noout"}"#);
    for prefix in ["config-key set", "auth add"] {
        let long = "é".repeat(1 << 19);
        let command = format!(r#"{{"prefix":"{prefix}","key":"{long}","entity":"{long}"}}"#);
        assert_eq!(mon.command(weak, &command).result, -13);
    }
    let log = mon.output(admin, r#"{"prefix":"log last","num":10,"channel":"audit"}"#);
    assert!(log.contains("noout") && log.contains("… (1048") && log.len() < 32 << 10, "{} bytes", log.len());
}

#[test]
fn secrets_of_config_keys_are_not_in_the_audit_log() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", ADMIN);
    mon.output(admin, r#"{"prefix":"config-key set","key":"name","val":"hunter2"}"#);
    let log = mon.output(admin, r#"{"prefix":"log last","num":100,"level":"debug","channel":"*"}"#);
    assert!(log.contains("config-key set") && log.contains("name"), "{log}");
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn what_a_manager_tells_elsewhere_the_monitor_tells() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    mon.output(admin, r#"{"prefix":"osd pool create","pool":"one","pg_num":8}"#);
    let df: serde_json::Value =
        serde_json::from_str(&mon.output(admin, r#"{"prefix":"osd df","format":"json"}"#)).unwrap();
    assert_eq!((df["nodes"][0]["pgs"].as_u64(), df["nodes"][0]["kb"].as_u64()), (Some(8), Some(8 << 20)));
    assert_eq!(df["summary"]["total_kb_avail"].as_u64(), Some(7 << 20));
    let text = mon.output(admin, r#"{"prefix":"osd df"}"#);
    let total: Vec<_> =
        text.lines().filter(|line| line.contains("TOTAL")).flat_map(str::split_whitespace).collect();
    assert!(total.starts_with(&["TOTAL", "8", "GiB", "1", "GiB"]) && text.contains("%USE"), "{text}");
    let stats = mon.output(admin, r#"{"prefix":"osd pool stats","pool_name":"one","format":"json"}"#);
    assert!(stats.contains(r#""pool_name":"one""#), "{stats}");
    assert!(mon.output(admin, r#"{"prefix":"osd pool stats"}"#).contains("nothing is going on"));
    assert_eq!(mon.command(admin, r#"{"prefix":"osd pool stats","pool_name":"none"}"#).result, -2);
}

#[test]
fn quotas_are_set_and_told_as_by_a_stock_monitor() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", ADMIN);
    mon.output(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let set = |field: &str, val: &str| {
        format!(r#"{{"prefix":"osd pool set-quota","pool":"p","field":"{field}","val":"{val}"}}"#)
    };
    let get = r#"{"prefix":"osd pool get-quota","pool":"p"}"#;
    assert_eq!(mon.output(admin, get), "quotas for pool 'p':\n  max objects: N/A\n  max bytes  : N/A\n");
    let ack = mon.command(admin, &set("max_bytes", "1M"));
    assert_eq!((ack.result, ack.status.as_str()), (0, "set-quota max_bytes = 1048576 for pool p"));
    assert_eq!(
        mon.output(admin, get),
        "quotas for pool 'p':\n  max objects: N/A\n  max bytes  : 1 MiB  (current num bytes: 0 bytes)\n"
    );
    assert_eq!(
        mon.output(admin, r#"{"prefix":"osd pool get-quota","pool":"p","format":"json"}"#).trim(),
        r#"{"pool_name":"p","pool_id":1,"quota_max_objects":0,"current_num_objects":0,"quota_max_bytes":1048576,"current_num_bytes":0}"#
    );
    let ack = mon.command(admin, &set("max_objects", "10k"));
    let why = "error parsing value '10k': strict_si_cast: unit prefix not recognized";
    assert_eq!((ack.result, ack.status.as_str()), (-22, why));
    assert_eq!(mon.command(admin, &get.replace("\"p\"", "\"none\"")).result, -2);
}

#[test]
fn a_pool_that_reaches_its_quota_is_full_until_it_has_room() {
    let mut state = new_state();
    state.create_pool(NOW, "p", 8).unwrap();
    let pool = state.pool_id("p").unwrap();
    let holding = |num_objects: i64, num_bytes: i64| {
        let sum = ObjectStatSum { num_objects, num_bytes, ..ObjectStatSum::default() };
        Usage { pools: [(pool, sum)].into(), ..Usage::default() }
    };
    let full = |state: &State| {
        let flags = state.osdmap().pool(pool).unwrap().flags;
        (flags.contains(PoolFlags::FULL), flags.contains(PoolFlags::FULL_QUOTA))
    };
    assert!(state.check_quotas(NOW, &holding(9, 9)).unwrap().is_empty());
    state
        .change_pool(NOW, pool, |pool| (pool.quota_max_objects, pool.quota_max_bytes) = (10, 1 << 20))
        .unwrap();
    assert!(state.check_quotas(NOW, &holding(9, 9)).unwrap().is_empty());
    let changes = state.check_quotas(NOW, &holding(10, 9)).unwrap();
    assert_eq!(changes[0].line, "pool 'p' is full (reached quota's max_objects: 10)");
    assert_eq!(full(&state), (true, true));
    let epoch = state.osdmap().epoch;
    assert!(state.check_quotas(NOW, &holding(11, 2 << 20)).unwrap().is_empty(), "it is known");
    assert_eq!(state.osdmap().epoch, epoch);
    let changes = state.check_quotas(NOW, &holding(9, 9)).unwrap();
    assert_eq!(changes[0].line, "pool 'p' no longer out of quota; removing NO_QUOTA flag");
    assert_eq!(full(&state), (false, false));
    let changes = state.check_quotas(NOW, &holding(0, 1 << 20)).unwrap();
    assert_eq!(changes[0].line, "pool 'p' is full (reached quota's max_bytes: 1 MiB)");
    state.change_pool(NOW, pool, |pool| pool.quota_max_bytes = 0).unwrap();
    assert_eq!(state.check_quotas(NOW, &holding(0, 1 << 20)).unwrap().len(), 1);
    assert_eq!(full(&state), (false, false), "a quota that is taken away is not reached");
    // Keys and values of omaps count, too.
    state.change_pool(NOW, pool, |pool| pool.quota_max_bytes = 1 << 20).unwrap();
    for (num_omap_bytes, changes) in [((1 << 19) - 1, 0), (1 << 19, 1)] {
        let sum = ObjectStatSum { num_bytes: 1 << 19, num_omap_bytes, ..ObjectStatSum::default() };
        let usage = Usage { pools: [(pool, sum)].into(), ..Usage::default() };
        assert_eq!(state.check_quotas(NOW, &usage).unwrap().len(), changes, "{num_omap_bytes}");
    }
    assert_eq!(full(&state), (true, true));
}

#[test]
fn placement_groups_are_dumped_in_the_parts_that_are_asked_for() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", ADMIN);
    mon.output(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":16}"#);
    let mut dump =
        |parts: &str| {
            json(&mon.output(
                admin,
                &format!(r#"{{"prefix":"pg dump","dumpcontents":[{parts}],"format":"json"}}"#),
            ))
        };
    let all = dump("");
    let map = &all["pg_map"];
    assert_eq!(map["pg_stats"][0]["pgid"], "1.a");
    assert_eq!(
        (&map["pg_stats"][0]["up"][0], &map["pg_stats"][0]["acting_primary"]),
        (&json("0"), &json("0"))
    );
    assert_eq!((&map["osd_stats"][0]["osd"], &map["osd_stats_sum"]["kb"]), (&json("0"), &json("8388608")));
    assert_eq!(map["pg_stats_sum"]["stat_sum"]["num_objects"], 0);
    let keys = |node: &Value| node.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(",");
    assert_eq!(keys(&dump(r#""pools","osds""#)), "osd_stats,pg_ready,pool_statfs,pool_stats");
    assert_eq!(
        keys(&dump(r#""pgs_brief""#)["pg_stats"][0]),
        "acting,acting_primary,pgid,state,up,up_primary"
    );
    assert!(!keys(&dump(r#""sum""#)["pg_map"]).contains("pg_stats,"));
    let ack = mon.command(admin, r#"{"prefix":"pg dump","dumpcontents":["pgs_brief"]}"#);
    assert_eq!(ack.status, "dumped pgs_brief");
    let text = String::from_utf8(ack.output.to_vec()).unwrap();
    assert_eq!(
        text,
        "PG_STAT  STATE         UP   UP_PRIMARY  ACTING  ACTING_PRIMARY\n1.a      active+clean  [0]           0     [0]               0\n"
    );
}

#[test]
fn daemons_are_described_and_there_is_no_manager() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", ADMIN);
    let mut ask = |command: &str| mon.command(admin, &format!(r#"{{"prefix":{command},"format":"json"}}"#));
    let osd = json(std::str::from_utf8(&ask(r#""osd metadata","id":"osd.0""#).output).unwrap());
    assert_eq!((&osd["id"], &osd["hostname"]), (&json("0"), &json("\"host\"")));
    let ack = ask(r#""osd metadata","id":3"#);
    assert_eq!((ack.result, ack.status.as_str()), (-2, "osd.3 does not exist"));
    let ack = ask(r#""mon metadata","id":"b""#);
    assert_eq!((ack.result, ack.status.as_str()), (-2, "requested mon not found"));
    let ack = ask(r#""mgr metadata","who":"z""#);
    assert_eq!((ack.result, ack.status.as_str()), (-2, "mgr.z does not exist"));
    assert_eq!(&ask(r#""osd count-metadata","property":"hostname""#).output[..], b"{\"host\":1}");
    assert_eq!(&ask(r#""node ls""#).output[..], b"{\"mon\":{\"host\":[\"a\"]},\"osd\":{\"host\":[0]}}\n");
    assert!(ask(r#""mgr stat""#).output.starts_with(b"{\"epoch\":1,\"available\":false"));
}

/// The XML names are those of a monitor of 16.2.15.
#[test]
fn answers_are_written_as_xml() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", ADMIN);
    mon.output(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    for (command, expected) in [
        (r#""osd ls","format":"xml""#, "<osds><osd>0</osd></osds>\n"),
        (
            r#""osd lspools","format":"xml-pretty""#,
            "<pools>\n <pool>\n  <poolnum>1</poolnum>\n  <poolname>p</poolname>\n </pool>\n</pools>\n",
        ),
        (r#""osd getmaxosd","format":"xml""#, "<getmaxosd><epoch>3</epoch><max_osd>1</max_osd></getmaxosd>"),
        (r#""osd pool ls","format":"xml""#, "<pools><pool_name>p</pool_name></pools>"),
    ] {
        assert_eq!(mon.output(admin, &format!("{{\"prefix\":{command}}}")), expected);
    }
    let status = mon.output(admin, r#"{"prefix":"status","format":"xml"}"#);
    assert!(
        status.contains("<quorum><rank>0</rank></quorum><quorum_names><id>a</id></quorum_names>"),
        "{status}"
    );
}

/// The results and the pool's settings are those of 16.2.15, except for `eio`, which is from later
/// releases.
#[test]
fn settings_of_pools_are_checked_kept_and_shown() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", ADMIN);
    mon.output(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    /// A setting, its value, and then either its output or the error.
    type Case<'a> = (&'a str, &'a str, Result<&'a str, (i32, &'a str)>);
    let double = "error parsing floating point value";
    let cases: &[Case<'_>] = &[
        ("scrub_min_interval", "1.5", Ok("1.5")),
        (
            "scrub_min_interval",
            "1h",
            Err((-22, &format!("{double} '1h': strict_strtod: garbage at end of string. got: '1h'"))),
        ),
        (
            "scrub_min_interval",
            "x",
            Err((-22, &format!("{double} 'x': strict_strtod: expected double, got: 'x'"))),
        ),
        ("recovery_priority", "-10", Ok("-10")),
        ("recovery_priority", "11", Err((-22, "pool recovery_priority must be between -10 and 10"))),
        ("recovery_op_priority", "11", Ok("11")),
        (
            "recovery_op_priority",
            "1K",
            Err((-22, "error parsing integer value '1K': Expected option value to be integer, got '1K'")),
        ),
        ("compression_mode", "force", Ok("force")),
        ("compression_mode", "bogus", Err((-22, "unrecognized compression mode 'bogus'"))),
        ("compression_algorithm", "brotli", Err((-22, "unrecognized compression_algorithm 'brotli'"))),
        ("compression_required_ratio", ".875", Ok("0.875")),
        (
            "compression_required_ratio",
            "-1",
            Err((-22, "compression_required_ratio is out of range (0-1): '-1'")),
        ),
        ("csum_min_block", "4K", Ok("4096")),
        (
            "csum_min_block",
            "x",
            Err((-22, "error parsing int value 'x': strict_iecstrtoll: unit prefix not recognized")),
        ),
        ("csum_type", "crc32c", Ok("crc32c")),
        ("csum_type", "bogus", Err((-22, "unrecognized csum_type 'bogus'"))),
        ("pg_num_min", "9", Err((-22, "specified pg_num_min 9 > pg_num 8"))),
        ("pg_num_max", "4", Err((-22, "specified pg_num_max 4 < pg_num 8"))),
        ("target_size_ratio", "-1", Err((-22, "target_size_ratio cannot be negative"))),
        ("pg_autoscale_bias", "1001", Err((-22, "pg_autoscale_bias must be between 0 and 1000"))),
        ("dedup_tier", "1", Err((-22, "expecting value 'pool name'"))),
        ("dedup_tier", "p", Ok("1")),
        ("noscrub", "01", Ok("true")),
        ("noscrub", "yes", Err((-22, "expecting value 'true', 'false', '0', or '1'"))),
        ("eio", "true", Ok("true")),
        ("fast_read", "1", Err((-22, "fast read is not supported in replication pool"))),
        ("hit_set_count", "1", Err((-13, "(13) Permission denied"))),
        ("nosuch", "1", Err((-22, "unrecognized variable 'nosuch'"))),
    ];
    for (var, val, expected) in cases {
        let set = format!(r#"{{"prefix":"osd pool set","pool":"p","var":"{var}","val":"{val}"}}"#);
        let ack = mon.command(admin, &set);
        let get = format!(r#"{{"prefix":"osd pool get","pool":"p","var":"{var}"}}"#);
        match expected {
            Ok(shown) => {
                assert_eq!((ack.result, ack.status), (0, format!("set pool 1 {var} to {val}")));
                assert_eq!(mon.output(admin, &get), format!("{var}: {shown}\n"));
            }
            Err((errno, status)) => assert_eq!((ack.result, ack.status.as_str()), (*errno, *status), "{set}"),
        }
    }
    let dump = json(&mon.output(admin, r#"{"prefix":"osd dump","format":"json"}"#));
    assert_eq!(
        dump["pools"][0]["options"].to_string(),
        r#"{"compression_mode":"force","compression_required_ratio":0.875,"csum_min_block":4096,"csum_type":4,"dedup_tier":1,"recovery_op_priority":11,"recovery_priority":-10,"scrub_min_interval":1.5}"#
    );
    // 0 and `unset` remove a setting.
    for (var, val, status) in [
        ("scrub_min_interval", "0", "set pool 1 scrub_min_interval to 0"),
        ("csum_type", "unset", "unset pool 1 csum_type"),
    ] {
        let set = format!(r#"{{"prefix":"osd pool set","pool":"p","var":"{var}","val":"{val}"}}"#);
        assert_eq!(mon.command(admin, &set).status, status);
        let ack = mon.command(admin, &format!(r#"{{"prefix":"osd pool get","pool":"p","var":"{var}"}}"#));
        assert_eq!((ack.result, ack.status), (-2, format!("option '{var}' is not set on pool 'p'")));
    }
    let ack = mon.command(admin, r#"{"prefix":"osd pool get","pool":"p","var":"hit_set_count"}"#);
    let status = "pool 'p' is not a tier pool: variable not applicable";
    assert_eq!((ack.result, ack.status.as_str()), (-13, status));
    let all = json(&mon.output(admin, r#"{"prefix":"osd pool get","pool":"p","var":"all","format":"json"}"#));
    assert_eq!(
        (&all["compression_mode"], &all["noscrub"], all.get("eio")),
        (&json("\"force\""), &json("true"), None)
    );
}

#[test]
fn a_map_without_words_or_an_osd_with_them_is_set() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", ADMIN);
    let empty = mon.command(admin, r#"{"prefix":"osd crush set"}"#);
    assert_eq!((empty.result, &*empty.status), (-22, "Failed to parse crushmap: End of buffer"));
    let unknown =
        mon.command(admin, r#"{"prefix":"osd crush set","id":77,"weight":1.0,"args":["root=default"]}"#);
    assert_eq!(unknown.result, -2, "{}", unknown.status);
}

#[test]
fn settings_with_masks_are_kept_apart() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", ADMIN);
    for (who, value) in [("client", "1"), ("client/host:here", "2"), ("client/host:there", "3")] {
        let set = format!(r#"{{"prefix":"config set","who":"{who}","name":"debug_ms","value":"{value}"}}"#);
        assert_eq!(mon.command(admin, &set).result, 0);
    }
    let dump = mon.command(admin, r#"{"prefix":"config dump"}"#);
    let shown = String::from_utf8_lossy(&dump.output).into_owned();
    let masks: Vec<_> = shown.lines().filter(|line| line.contains("host:")).collect();
    assert_eq!(masks.len(), 2, "{shown}");
    let ack = mon.command(admin, r#"{"prefix":"config get","who":"client.x","key":"debug_ms"}"#);
    assert_eq!(&*ack.output, b"1/1\n", "whose machine is not known is meant by no mask");
}
