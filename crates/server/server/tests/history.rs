//! Goal: a running server reports which requests were slow, and the times of their events. Method: our
//! client writes and reads; then the test runs commands of the admin table, as the admin socket does.

use std::path::PathBuf;

use bytes::Bytes;
use loligo_rados::Builder;
use loligo_server::{Handle, Server};
use serde_json::Value;

fn asked(server: &Handle, command: &str) -> Value {
    let text = server.admin().run(command.as_bytes()).expect("the command is there");
    serde_json::from_str(&text).expect("JSON")
}

fn events(op: &Value) -> Vec<String> {
    let events = op["type_data"]["events"].as_array().expect("events");
    events.iter().map(|event| event["event"].as_str().expect("a name").to_owned()).collect()
}

async fn write_and_read(server: &Handle) {
    let conf = server.conf().to_str().expect("a path in UTF-8");
    let rados = Builder::new().conf_file(conf).connect().await.expect("connects");
    let pool = rados.ioctx("data").await.expect("the pool");
    pool.write_full("seldom", Bytes::from_static(b"content")).await.expect("written");
    pool.read("seldom", 0, 7).await.expect("read");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_told_of_with_their_events() {
    let dir: PathBuf = std::env::temp_dir().join(format!("loligo-history-{}", std::process::id()));
    for server in [Server::memory(), Server::disk(&dir)] {
        let server = server.pool("data").start().expect("the server starts");
        let before = asked(&server, "dump_historic_ops");
        assert_eq!((before["size"].as_u64(), before["duration"].as_u64()), (Some(20), Some(600)));
        write_and_read(&server).await;
        let ops = asked(&server, "dump_historic_ops");
        let ops = ops["ops"].as_array().expect("a list");
        let of = |what: &str| {
            let wanted = |op: &&Value| op["description"].as_str().is_some_and(|text| text.contains(what));
            ops.iter().find(wanted).unwrap_or_else(|| panic!("no {what} in {ops:?}"))
        };
        let (write, read) = (of("seldom [writefull]"), of("seldom [read]"));
        for op in [write, read] {
            let events = events(op);
            assert_eq!(events.first().map(String::as_str), Some("initiated"));
            assert_eq!(events.last().map(String::as_str), Some("done"));
            assert!(op["duration"].as_f64() <= op["age"].as_f64());
            let client = &op["type_data"]["client_info"];
            assert!(client["client"].as_str().is_some_and(|name| name.starts_with("client.")), "{client}");
        }
        assert_eq!(asked(&server, "dump_ops_in_flight")["num_ops"], 0);
        assert_eq!(asked(&server, "dump_blocked_ops")["complaint_time"], 30);
        assert_eq!(asked(&server, "dump_historic_slow_ops")["num to keep"], 20);
    }
    let _ = std::fs::remove_dir_all(dir);
}
