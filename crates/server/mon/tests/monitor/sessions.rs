//! Goal: clients receive every change that they subscribed to, in order, and no change that is not
//! saved. Method: a monitor without sockets; a client that follows maps like librados.

use std::collections::BTreeMap;

use crate::common::{FSID, Mon, NOW, opened};
use loligo_maps::{Incremental, MonMap, OsdMap};
use loligo_mon::Effects;
use loligo_wire::message::mon::{
    MConfig, MGetPoolStats, MGetPoolStatsReply, MLog, MMgrMap, MMonCommand, MMonCommandAck, MMonGetVersion,
    MMonGetVersionReply, MMonMap, MMonSubscribe, MPing, MPoolOp, MPoolOpReply, PaxosHeader, PoolOpCode,
    Subscription,
};
use loligo_wire::message::osd::MOSDMap;
use loligo_wire::{Decode as _, PoolId, SnapId, UTime, Uuid};

fn subscribe(what: &[(&str, u64, bool)]) -> MMonSubscribe {
    let each = what.iter().map(|(what, start, onetime)| {
        ((*what).to_owned(), Subscription { start: *start, onetime: *onetime })
    });
    MMonSubscribe { what: each.collect(), hostname: String::new() }
}

/// Applies the maps in messages, like librados.
fn follow(map: &mut Option<OsdMap>, effects: &Effects, session: u64) {
    for message in opened::<MOSDMap>(effects, session) {
        for full in message.maps.values() {
            *map = Some(OsdMap::decode(full).unwrap());
        }
        for change in message.incrementals.values() {
            map.as_mut().unwrap().apply_incremental(&Incremental::decode(change).unwrap()).unwrap();
        }
    }
}

#[test]
fn a_bootstrapping_client_gets_monmap_and_config_and_is_told_who_leads() {
    let mut mon = Mon::new();
    let client = mon.client("x", "allow r");
    let effects =
        mon.send(client, &subscribe(&[("config", 0, false), ("monmap", 0, false), ("mgrmap", 0, false)]));
    let monmap = opened::<MMonMap>(&effects, client).pop().unwrap();
    let monmap = MonMap::from_bytes(&monmap.monmap).unwrap();
    assert_eq!((monmap.fsid, monmap.len()), (FSID, 1));
    assert_eq!(opened::<MConfig>(&effects, client), [MConfig { config: BTreeMap::new() }]);
    assert_eq!(opened::<MMgrMap>(&effects, client).len(), 1);
}

#[test]
fn settings_reach_those_they_are_for() {
    let mut mon = Mon::new();
    let (admin, other) = (mon.client("admin", "allow *"), mon.client("x", "allow r"));
    for client in [admin, other] {
        mon.send(client, &subscribe(&[("config", 0, false)]));
    }
    let set = r#"{"prefix":"config set","who":"client.x","name":"rbd cache","value":"false"}"#;
    mon.monitor.handle(admin, &command(set), NOW).unwrap();
    let effects = mon.monitor.take_effects();
    assert!(effects.save.is_some());
    let config = opened::<MConfig>(&effects, other).pop().unwrap().config;
    assert_eq!(config.get("rbd_cache").map(String::as_str), Some("false"));
    assert_eq!(opened::<MConfig>(&effects, admin).pop().unwrap().config, BTreeMap::new());
}

fn command(json: &str) -> loligo_wire::message::Msg {
    loligo_wire::message::Msg::new(&loligo_wire::message::mon::MMonCommand {
        paxos: PaxosHeader { version: 0 },
        fsid: FSID,
        cmd: vec![json.to_owned().into()],
        input: Default::default(),
    })
}

/// A client of version 1 of the messenger sends its first command before it has the monitors' map.
#[test]
fn a_command_without_a_cluster_s_id_is_for_this_cluster() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    for (fsid, result) in [(FSID, 0), (Uuid::default(), 0), (Uuid([9; 16]), -1)] {
        let cmd = vec![r#"{"prefix":"get_command_descriptions"}"#.into()];
        let effects = mon.send(admin, &MMonCommand { fsid, cmd, ..MMonCommand::default() });
        let ack: MMonCommandAck = opened(&effects, admin).pop().expect("an answer");
        assert_eq!(ack.result, result, "{fsid:?}");
    }
}

#[test]
fn subscribers_follow_the_osdmap_without_a_gap() {
    let mut mon = Mon::new();
    let (admin, client) = (mon.client("admin", "allow *"), mon.client("x", "allow r"));
    let mut map = None;
    let effects = mon.send(client, &subscribe(&[("osdmap", 0, false)]));
    follow(&mut map, &effects, client);
    for i in 0..60 {
        let create = format!(r#"{{"prefix":"osd pool create","pool":"p{i}","pg_num":1}}"#);
        mon.monitor.handle(admin, &command(&create), NOW).unwrap();
        let effects = mon.monitor.take_effects();
        assert!(effects.save.is_some() && effects.osdmap.is_some());
        follow(&mut map, &effects, client);
        assert_eq!(map.as_ref(), Some(mon.monitor.state().osdmap()), "after pool {i}");
    }
    let newest = mon.monitor.state().osdmap().epoch;

    // A client with an old map gets all incrementals, as from a stock monitor. While the message says
    // that older epochs exist, librados rejects a full map and keeps asking.
    let late = mon.client("late", "allow r");
    let effects = mon.send(late, &subscribe(&[("osdmap", 2, true)]));
    let messages = opened::<MOSDMap>(&effects, late);
    let epochs: Vec<_> = messages.iter().flat_map(|message| message.incrementals.keys().copied()).collect();
    assert!(messages.iter().all(|message| message.maps.is_empty() && message.incrementals.len() <= 40));
    assert_eq!(epochs, (2..=newest.0).map(loligo_wire::Epoch).collect::<Vec<_>>());
    // If they are not kept any more, the message says that there are no older epochs.
    let effects = mon.send(late, &subscribe(&[("osdmap", 1, true)]));
    let message = opened::<MOSDMap>(&effects, late).pop().unwrap();
    assert_eq!((message.maps.keys().collect::<Vec<_>>(), message.oldest), (vec![&newest], newest));
    let effects = mon.send(late, &subscribe(&[("osdmap", u64::from(newest.0) - 3, true)]));
    let message = opened::<MOSDMap>(&effects, late).pop().unwrap();
    assert_eq!((message.maps.len(), message.incrementals.len()), (0, 4));
    mon.monitor.handle(admin, &command(r#"{"prefix":"osd pool create","pool":"z"}"#), NOW).unwrap();
    assert!(opened::<MOSDMap>(&mon.monitor.take_effects(), late).is_empty());
}

#[test]
fn the_osdmap_is_not_for_those_who_may_not_read_it() {
    let mut mon = Mon::new();
    let client = mon.client("x", "allow command \"osd pool ls\"");
    let effects = mon.send(client, &subscribe(&[("osdmap", 0, false)]));
    assert!(opened::<MOSDMap>(&effects, client).is_empty());
}

#[test]
fn a_new_map_goes_out_before_the_answer_that_made_it() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    mon.send(admin, &subscribe(&[("osdmap", 0, false)]));
    mon.monitor.handle(admin, &command(r#"{"prefix":"osd pool create","pool":"a"}"#), NOW).unwrap();
    let effects = mon.monitor.take_effects();
    let kinds: Vec<_> = effects.out.iter().map(|(_, msg)| msg.header.kind).collect();
    assert_eq!(kinds, [<MOSDMap as loligo_wire::message::Message>::KIND, 51]);
    assert_eq!(opened::<MMonCommandAck>(&effects, admin)[0].result, 0);
}

#[test]
fn versions_are_told() {
    let mut mon = Mon::new();
    let client = mon.client("x", "allow r");
    for (what, expected) in [("osdmap", mon.monitor.state().osdmap().epoch.0), ("monmap", 1), ("nonsense", 0)]
    {
        let effects = mon.send(client, &MMonGetVersion { handle: 9, what: what.to_owned() });
        let reply = opened::<MMonGetVersionReply>(&effects, client).pop().unwrap();
        assert_eq!((reply.handle, reply.version), (9, expected.into()), "{what}");
    }
}

#[test]
fn snapshot_ids_are_given_out_and_taken_back() {
    let mut mon = Mon::new();
    let (admin, reader) = (mon.client("admin", "allow *"), mon.client("r", "allow r"));
    mon.command(admin, r#"{"prefix":"osd pool create","pool":"a"}"#);
    let pool_op = |op, snap| MPoolOp {
        paxos: PaxosHeader { version: 0 },
        fsid: FSID,
        pool: 1,
        op,
        snapid: SnapId(snap),
        name: bytes::Bytes::new(),
        crush_rule: -1,
    };
    let mut run = |session, op, snap| {
        let effects = mon.send(session, &pool_op(op, snap));
        let reply = opened::<MPoolOpReply>(&effects, session).pop().unwrap();
        (reply.result, reply.payload.map(|payload| SnapId::from_bytes(&payload).unwrap()))
    };
    // Numbered as in a stock cluster of 16.2.15: starting at 2, and a removal takes a number, too.
    assert_eq!(run(admin, PoolOpCode::CreateUnmanagedSnap, 0), (0, Some(SnapId(2))));
    assert_eq!(run(admin, PoolOpCode::CreateUnmanagedSnap, 0), (0, Some(SnapId(3))));
    assert_eq!(run(admin, PoolOpCode::DeleteUnmanagedSnap, 2), (0, None));
    assert_eq!(run(admin, PoolOpCode::DeleteUnmanagedSnap, 2), (0, None));
    assert_eq!(run(admin, PoolOpCode::CreateUnmanagedSnap, 0), (0, Some(SnapId(5))));
    assert_eq!(run(admin, PoolOpCode::DeleteUnmanagedSnap, 9), (-2, None));
    assert_eq!(run(reader, PoolOpCode::CreateUnmanagedSnap, 0), (-1, None));
    assert_eq!(run(admin, PoolOpCode::CreateSnap, 0), (-22, None), "clients manage this pool's");
    let queue = mon.monitor.state().osdmap().removed_snaps_queue[&PoolId(1)].clone();
    assert_eq!(queue.intervals().collect::<Vec<_>>(), [(SnapId(2), 1)]);
    mon.monitor.change(|state| state.purged_snaps(NOW, PoolId(1), &queue).expect("a new epoch"));
    assert!(mon.monitor.state().osdmap().removed_snaps_queue.is_empty());
}

#[test]
fn snapshots_of_pools_are_made_and_removed() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    mon.command(admin, r#"{"prefix":"osd pool create","pool":"a"}"#);
    let mut said = |what: &str, snap: &str| {
        let ack =
            mon.command(admin, &format!(r#"{{"prefix":"osd pool {what}","pool":"a","snap":"{snap}"}}"#));
        let pool = mon.monitor.state().osdmap().pools[&PoolId(1)].clone();
        (ack.result, ack.status, pool.snap_seq.0, pool.snaps.keys().map(|snap| snap.0).collect::<Vec<_>>())
    };
    assert_eq!(said("mksnap", "x"), (0, "created pool a snap x".to_owned(), 1, vec![1]));
    assert_eq!(said("mksnap", "x"), (0, "pool a snap x already exists".to_owned(), 1, vec![1]));
    assert_eq!(said("mksnap", "y"), (0, "created pool a snap y".to_owned(), 2, vec![1, 2]));
    assert_eq!(said("rmsnap", "x"), (0, "removed pool a snap x".to_owned(), 3, vec![2]));
    assert_eq!(said("rmsnap", "x"), (0, "pool a snap x does not exist".to_owned(), 3, vec![2]));
    assert!(mon.monitor.state().osdmap().removed_snaps_queue[&PoolId(1)].contains(SnapId(1)));
}

/// The results are those of a monitor of 16.2.15 for the same bytes.
#[test]
fn names_are_any_bytes() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    mon.output(admin, r#"{"prefix":"config set","who":"mon","name":"mon_allow_pool_delete","value":"true"}"#);
    let mut said = |json: &[u8]| {
        let ack = mon.raw_command(admin, json, b"");
        (ack.result, ack.output.to_vec(), ack.status.to_vec())
    };
    let status = |text: &[u8]| (0, Vec::new(), text.to_vec());
    let output = |text: &[u8]| (0, text.to_vec(), Vec::new());
    let create = b"{\"prefix\":\"osd pool create\",\"pool\":\"a\xff\",\"pg_num\":1}";
    assert_eq!(said(create), status(b"pool 'a\xff' created"));
    let python = br#"{"prefix":"osd pool create","pool":"s\udcff","pg_num":1}"#;
    assert_eq!(said(python), status(b"pool 's\xed\xb3\xbf' created"));
    assert_eq!(said(br#"{"prefix":"osd pool ls"}"#), output(b"a\xff\ns\xed\xb3\xbf\n"));
    let ls = br#"{"prefix":"osd pool ls","format":"json"}"#;
    assert_eq!(said(ls), output(b"[\"a\xff\",\"s\xed\xb3\xbf\"]"));
    let mksnap = b"{\"prefix\":\"osd pool mksnap\",\"pool\":\"a\xff\",\"snap\":\"x\xfe\"}";
    assert_eq!(said(mksnap), status(b"created pool a\xff snap x\xfe"));
    let get = b"{\"prefix\":\"osd pool get\",\"pool\":\"a\xff\",\"var\":\"size\",\"format\":\"json\"}";
    assert_eq!(said(get), output(b"{\"pool\":\"a\xff\",\"pool_id\":1,\"size\":1}"));
    let set = b"{\"prefix\":\"config-key set\",\"key\":\"k\xff\",\"val\":\"v\xff\"}";
    assert_eq!(said(set), status(b"set k\xff"));
    assert_eq!(said(b"{\"prefix\":\"config-key get\",\"key\":\"k\xff\"}"), output(b"v\xff"));
    let enable = b"{\"prefix\":\"osd pool application enable\",\"pool\":\"a\xff\",\"app\":\"x\xff\"}";
    assert_eq!(said(enable), status(b"enabled application 'x\xff' on pool 'a\xff'"));
    let rename = b"{\"prefix\":\"osd pool rename\",\"srcpool\":\"a\xff\",\"destpool\":\"b\xff\"}";
    assert_eq!(said(rename), status(b"pool 'a\xff' renamed to 'b\xff'"));
    assert_eq!(said(b"\xff"), (-22, Vec::new(), b"unparseable JSON \xff".to_vec()));
    assert_eq!(said(b"{\"prefix\":\"osd \xff\"}"), (-22, Vec::new(), b"command not known".to_vec()));
    let pool = &mon.monitor.state().osdmap().pools[&PoolId(1)];
    assert_eq!(pool.snaps[&SnapId(1)].name.as_bytes(), b"x\xfe");
    assert!(pool.application_metadata.contains_key(b"x\xff".as_slice()));
    let again = loligo_mon::state::State::from_json(&mon.monitor.state().to_json()).expect("a state");
    assert_eq!(again.osdmap().pool_by_name(b"b\xff"), Some(PoolId(1)));
    assert!(again.config_keys().contains_key(&loligo_mon::text::from_bytes(b"k\xff")));
}

/// The requests of stock `rados mksnap` and `rados mkpool`, and their statistics.
#[test]
fn requests_about_pools_take_any_bytes_as_names() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    let mut run = |pool, op, name: &'static [u8]| {
        let (paxos, fsid, name) = (PaxosHeader { version: 0 }, FSID, name.into());
        let request = MPoolOp { paxos, fsid, pool, op, snapid: SnapId(0), name, crush_rule: -1 };
        let effects = mon.send(admin, &request);
        opened::<MPoolOpReply>(&effects, admin).pop().map(|reply| reply.result)
    };
    assert_eq!(run(0, PoolOpCode::Create, b"p\xff"), Some(0));
    assert_eq!(run(1, PoolOpCode::CreateSnap, b"a\xff"), Some(0));
    assert_eq!(run(1, PoolOpCode::CreateSnap, b"a\xfe"), Some(0));
    assert_eq!(run(1, PoolOpCode::DeleteSnap, b"a\xff"), Some(0));
    let map = mon.monitor.state().osdmap();
    assert_eq!(map.pool_by_name(b"p\xff"), Some(PoolId(1)));
    let names: Vec<_> = map.pools[&PoolId(1)].snaps.values().map(|snap| snap.name.as_bytes()).collect();
    assert_eq!(names, [b"a\xfe"]);
    let ask = MGetPoolStats {
        paxos: PaxosHeader { version: 0 },
        fsid: FSID,
        pools: vec!["p\u{ff}".into(), b"p\xff".as_slice().into()],
    };
    let effects = mon.send(admin, &ask);
    let stats = opened::<MGetPoolStatsReply>(&effects, admin).pop().expect("an answer").pool_stats;
    assert_eq!(stats.keys().collect::<Vec<_>>(), [&bytes::Bytes::from_static(b"p\xff")]);
}

#[test]
fn entries_of_the_blocklist_end_by_themselves() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    let add = r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.0.1:0/7","expire":60.0}"#;
    mon.output(admin, add);
    mon.monitor.tick(UTime { sec: NOW.sec + 59, ..NOW });
    assert_eq!(mon.monitor.state().osdmap().blocklist.addrs.len(), 1);
    mon.monitor.tick(UTime { sec: NOW.sec + 60, ..NOW });
    assert!(mon.monitor.state().osdmap().blocklist.is_empty());
}

#[test]
fn a_pool_needs_a_rule_that_there_is() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    for (crush_rule, result) in [(-1, 0), (0, 0), (77, -2)] {
        let create = MPoolOp {
            paxos: PaxosHeader { version: 0 },
            fsid: FSID,
            pool: 0,
            op: PoolOpCode::Create,
            snapid: SnapId(0),
            name: format!("with-{crush_rule}").into(),
            crush_rule,
        };
        let effects = mon.send(admin, &create);
        assert_eq!(opened::<MPoolOpReply>(&effects, admin)[0].result, result, "rule {crush_rule}");
    }
}

#[test]
fn a_ping_is_answered_with_health_and_status() {
    let mut mon = Mon::new();
    let client = mon.client("x", "allow r");
    let effects = mon.send(client, &MPing {});
    let (_, answer) = effects.out.iter().find(|(id, _)| *id == client).unwrap();
    let text = loligo_wire::Reader::new(&answer.front).blob().unwrap().to_vec();
    let text: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert!(text["health"]["status"].is_string() && text["mon_status"]["state"] == "leader", "{text}");
}

#[test]
fn who_follows_the_log_hears_of_each_line_once() {
    let mut mon = Mon::new();
    let (admin, follower) = (mon.client("admin", "allow *"), mon.client("x", "allow r"));
    let (warned, stranger) = (mon.client("y", "allow r"), mon.client("z", "allow service osd r"));
    for (client, what) in [(follower, "log-info"), (warned, "log-warn"), (stranger, "log-info")] {
        mon.send(client, &subscribe(&[(what, 0, false)]));
    }
    let say = |mon: &mut Mon, text: &str| {
        let line = format!(r#"{{"prefix":"log","logtext":["{text}"]}}"#);
        mon.monitor.handle(admin, &command(&line), NOW).unwrap();
        mon.monitor.take_effects()
    };
    for text in ["one", "two"] {
        let effects = say(&mut mon, text);
        let lines = |client| {
            let messages = opened::<MLog>(&effects, client);
            messages.into_iter().flat_map(|m| m.entries).map(|e| e.message).collect::<Vec<_>>()
        };
        let heard = lines(follower);
        assert_eq!(heard.iter().filter(|line| *line == text).count(), 1, "{heard:?}");
        assert!(lines(warned).is_empty() && lines(stranger).is_empty());
    }
}

/// As in stock monitors: librados' `monitor_log` only sends the level that it follows from now on.
#[test]
fn a_client_follows_the_log_at_the_level_that_it_named_last() {
    let mut mon = Mon::new();
    let (admin, follower) = (mon.client("admin", "allow *"), mon.client("x", "allow r"));
    let hears = |mon: &mut Mon| {
        mon.monitor.handle(admin, &command(r#"{"prefix":"log","logtext":["line"]}"#), NOW).unwrap();
        let messages = opened::<MLog>(&mon.monitor.take_effects(), follower);
        messages.into_iter().flat_map(|m| m.entries).any(|entry| entry.message == "line")
    };
    for (level, is_heard) in [
        ("log-info", true),
        ("log-error", false),
        ("log-debug", true),
        ("log-sec", false),
        ("log-info", true),
    ] {
        mon.send(follower, &subscribe(&[(level, 0, false)]));
        assert_eq!(hears(&mut mon), is_heard, "{level}");
    }
    mon.send(follower, &subscribe(&[("osdmap", 0, false)]));
    assert!(hears(&mut mon), "other subscriptions change nothing");
}
