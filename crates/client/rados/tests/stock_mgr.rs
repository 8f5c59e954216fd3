//! Managers of a stock cluster: the commands they execute, and a client registered as a daemon of a
//! service. LOLIGO_STOCK_CONF names the cluster's ceph.conf.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use loligo_rados::{Builder, Errno, Error, Rados, blocking};
use serde_json::Value;

fn builder() -> Builder {
    let conf = std::env::var("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    Builder::new().conf_file(&conf)
}

async fn rados() -> Rados {
    builder().connect().await.expect("connects")
}

fn json(output: &[u8]) -> Value {
    serde_json::from_slice(output).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(output)))
}

async fn mgr(rados: &Rados, command: &str) -> Value {
    json(&rados.mgr_command(command, Bytes::new()).await.expect(command).0)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn managers_execute_commands() {
    let rados = rados().await;
    let pgs = mgr(&rados, r#"{"prefix": "pg dump", "dumpcontents": ["pgs_brief"], "format": "json"}"#).await;
    let listed = pgs["pg_stats"].as_array().expect("placement groups").len();
    let stat = mgr(&rados, r#"{"prefix": "pg stat", "format": "json"}"#).await;
    assert!(listed >= 32, "{pgs}");
    let counted = stat["pg_summary"]["num_pgs"].as_u64().or(stat["num_pgs"].as_u64());
    assert!(counted.expect("a number") >= 32, "{stat}");
    let df = mgr(&rados, r#"{"prefix": "osd df", "format": "json"}"#).await;
    assert_eq!(df["nodes"][0]["name"], "osd.0");

    let (said, _) = rados.tell_mgr(None, r#"{"prefix": "version"}"#, Bytes::new()).await.expect("answered");
    assert!(json(&said)["version"].is_string(), "{said:?}");
    let named = rados.tell_mgr(Some("x"), r#"{"prefix": "version"}"#, Bytes::new()).await.expect("answered");
    assert_eq!(named.0, said);

    let unknown = rados.mgr_command(r#"{"prefix": "no such thing"}"#, Bytes::new()).await;
    let Err(Error::Command { errno: Errno::EINVAL, status }) = unknown else { panic!("{unknown:?}") };
    assert!(!status.is_empty());
}

/// Managers refuse a key without capabilities for them, and give a reason.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn managers_refuse_whom_they_do_not_know() {
    let rados = rados().await;
    let command =
        r#"{"prefix": "auth get-or-create-key", "entity": "client.nomgr", "caps": ["mon", "allow r"]}"#;
    let (key, _) = rados.mon_command(command, Bytes::new()).await.expect("made");
    let key = String::from_utf8(key.to_vec()).expect("a key");
    let name = loligo_wire::EntityName::client("nomgr");
    let stranger = builder().name(name).set("key", key.trim()).connect().await.expect("connects");
    let refused = stranger.mgr_command(r#"{"prefix": "pg dump"}"#, Bytes::new()).await.expect_err("refused");
    assert_eq!(refused.errno(), Errno::EACCES, "{refused}");
}

/// Waits until the entry of a daemon in `ceph service dump` is as wanted.
async fn until_dumped(rados: &Rados, service: &str, daemon: &str, wanted: impl Fn(&Value) -> bool) {
    let mut dump = Value::Null;
    for _ in 0..120 {
        let command = r#"{"prefix": "service dump", "format": "json"}"#;
        dump = json(&rados.mon_command(command, Bytes::new()).await.expect("dumped").0);
        if wanted(&dump["services"][service]["daemons"][daemon]) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("{dump}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_client_is_a_daemon_of_a_service() {
    let observer = rados().await;
    let name = format!("d{}", observer.instance_id().0);
    let daemon = tokio::task::spawn_blocking({
        let name = name.clone();
        move || {
            let daemon = blocking::Rados::connect(builder()).expect("connects");
            let metadata = BTreeMap::from([("colour".to_owned(), "blue".to_owned())]);
            daemon.register_service("loligo", &name, metadata).expect("registered");
            let again = daemon.register_service("loligo", &name, BTreeMap::new());
            assert_eq!(again.expect_err("twice").errno(), Errno::EEXIST);
            daemon
        }
    });
    let daemon = daemon.await.expect("no panic");
    let id = daemon.instance_id().0;
    until_dumped(&observer, "loligo", &name, |d| {
        d["gid"] == id && d["metadata"]["colour"] == "blue" && d["metadata"]["arch"].is_string()
    })
    .await;
    let status = BTreeMap::from([("mood".to_owned(), "good".to_owned())]);
    daemon.update_service_status(status).expect("registered");
    let command = r#"{"prefix": "service status", "format": "json"}"#;
    let mut told = Value::Null;
    for _ in 0..120 {
        told = json(&observer.mon_command(command, Bytes::new()).await.expect("answered").0);
        if told["loligo"][&name]["status"]["mood"] == "good" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(told["loligo"][&name]["status"]["mood"], "good", "{told}");

    // The client has to register with the next manager. It is the same program, which has restarted itself.
    observer.mon_command(r#"{"prefix": "mgr fail", "who": "x"}"#, Bytes::new()).await.expect("failed");
    let (said, _) = observer.mgr_command(r#"{"prefix": "pg stat"}"#, Bytes::new()).await.expect("answered");
    assert!(!said.is_empty());
    until_dumped(&observer, "loligo", &name, |d| d["gid"] == id && d["metadata"]["colour"] == "blue").await;

    tokio::task::spawn_blocking(move || daemon.shutdown()).await.expect("no panic");
    until_dumped(&observer, "loligo", &name, Value::is_null).await;
}
