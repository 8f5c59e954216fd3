//! Goal: `rados` of 16.2.15 and our program list the findings of scrubs alike. Method: a bit of an
//! object is flipped in a closed store, a server on it scrubs, and both programs list the findings.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use bytes::Bytes;
use loligo_rados::{Builder, Rados};
use loligo_server::{Handle, Server};
use serde_json::{Value, json};

const PATTERN: &str = "a pattern that no other object has";

fn server(dir: &Path) -> Handle {
    Server::disk(dir).pool("p").pg_num(2).capacity_bytes(64 << 20).start().expect("the server starts")
}

async fn client(server: &Handle) -> Rados {
    let conf = server.conf().to_str().expect("a path in UTF-8");
    Builder::new().conf_file(conf).connect().await.expect("connects")
}

fn flip(dir: &Path) {
    let path = dir.join("store/data");
    let contents = fs::read(&path).expect("a store's");
    let at =
        contents.windows(PATTERN.len()).position(|part| part == PATTERN.as_bytes()).expect("it is there");
    let file = fs::OpenOptions::new().write(true).open(&path).expect("a store's");
    file.write_all_at(&[contents[at] ^ 0x10], at as u64).expect("written");
}

/// Scrubs all objects, and returns the damaged placement group once it is reported.
async fn damaged_group(rados: &Rados) -> String {
    let scrub = r#"{"prefix":"osd pool deep-scrub","who":["p"]}"#;
    rados.mon_command(scrub, Bytes::new()).await.expect("scrubs");
    let list = r#"{"prefix":"pg ls","states":["inconsistent"],"format":"json"}"#;
    let began = Instant::now();
    loop {
        let (output, _) = rados.mgr_command(list, Bytes::new()).await.expect("answered");
        let answer: Value = serde_json::from_slice(&output).expect("JSON");
        if let Some(id) = answer["pg_stats"][0]["pgid"].as_str() {
            return id.to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nothing was found");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn run(program: &str, conf: &Path, words: &[&str]) -> Value {
    let mut command = Command::new("timeout");
    command.args(["60", program]).args(words).env("CEPH_CONF", conf).env_remove("CEPH_ARGS");
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

async fn check(programs: &[&str]) {
    let dir = env::temp_dir().join(format!("loligo-damage-{}-{}", std::process::id(), programs.len()));
    let _ = fs::remove_dir_all(&dir);
    let first = server(&dir);
    let rados = client(&first).await;
    let pool = rados.ioctx("p").await.expect("the pool is there").with_namespace("n");
    pool.write_full("harmed", PATTERN.repeat(1000).into()).await.expect("written");
    drop((pool, rados));
    first.shutdown().await;
    flip(&dir);
    let server = server(&dir);
    let rados = client(&server).await;
    let group = damaged_group(&rados).await;
    let (conf, size) = (server.conf().to_owned(), PATTERN.len() * 1000);
    let [pgs, objects, snaps] =
        ["list-inconsistent-pg", "list-inconsistent-obj", "list-inconsistent-snapset"];
    let programs: Vec<String> = programs.iter().map(|&program| program.to_owned()).collect();
    let listed = tokio::task::spawn_blocking(move || {
        let of = |program: &String| {
            assert_eq!(run(program, &conf, &[pgs, "p"]), json!([group]), "{program}");
            let none = run(program, &conf, &[snaps, &group]);
            assert_eq!(none["inconsistents"], json!([]), "{program}");
            run(program, &conf, &[objects, &group])
        };
        programs.iter().map(of).collect::<Vec<_>>()
    });
    let listed = listed.await.expect("they run");
    let object = &listed[0]["inconsistents"][0];
    assert_eq!((&object["object"]["name"], &object["object"]["nspace"]), (&json!("harmed"), &json!("n")));
    assert_eq!(object["union_shard_errors"], json!(["read_error"]));
    assert_eq!(object["shards"][0]["size"], size);
    assert!(listed.iter().all(|one| *one == listed[0]), "{listed:#?}");
    drop(rados);
    server.shutdown().await;
    let _ = fs::remove_dir_all(&dir);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_objects_are_listed() {
    check(&[env!("CARGO_BIN_EXE_loligo")]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn damaged_objects_are_listed_as_by_stock_rados() {
    check(&[env!("CARGO_BIN_EXE_loligo"), "rados"]).await;
}
