//! Goal: `loligo ping` succeeds if a monitor and an OSD answer, and only then. Method: it asks servers that
//! answer, that have no OSD, that are stopped, and that are not there.

mod server_process;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::{env, fs};

use loligo_rados::Builder;
use loligo_server::{Caps, Handle, Server};
use loligo_wire::EntityName;
use server_process::{Scratch, ServerProcess};

fn ping(conf: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
    command.arg("-c").arg(conf).arg("ping").args(words).env_remove("CEPH_ARGS").stdin(Stdio::null());
    command.output().expect("it runs")
}

/// Checks that both answered, as text and as JSON; returns the OSD's number.
fn answered(conf: &Path, words: &[&str]) -> i64 {
    // The time is that of a loaded machine.
    let words = [words, &["--timeout", "100"]].concat();
    let plain = ping(conf, &words);
    assert!(plain.status.success(), "{}", String::from_utf8_lossy(&plain.stderr));
    let text = String::from_utf8(plain.stdout).expect("text");
    let json = ping(conf, &[&words[..], &["--format", "json"]].concat());
    assert!(json.status.success(), "{}", String::from_utf8_lossy(&json.stderr));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    for daemon in ["mon", "osd"] {
        assert!(json[daemon]["connect_us"].is_u64() && json[daemon]["round_trip_us"].is_u64(), "{json}");
    }
    let osd = json["osd"]["id"].as_i64().expect("a number");
    let [mon_line, osd_line] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert!(mon_line.starts_with("monitor ") && osd_line.starts_with(&format!("osd.{osd} ")), "{text}");
    osd
}

/// Checks that it fails with one line that has these words.
fn failed(conf: &Path, words: &[&str], parts: &[&str]) {
    let output = ping(conf, words);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(output.stdout.is_empty(), "nothing is claimed");
    let is_one = error.lines().count() == 1;
    assert!(is_one && parts.iter().all(|part| error.contains(part)), "{parts:?}: {error}");
}

/// Has the monitor carry out a command.
fn tell(server: &Handle, command: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let conf = server.conf().to_str().expect("text");
        let rados = Builder::new().conf_file(conf).connect().await.expect("it connects");
        rados.mon_command(command, "".into()).await.expect("it is carried out");
        rados.shutdown().await;
    });
}

#[test]
fn a_monitor_and_an_osd_answer() {
    let app = EntityName::client("app");
    let caps = [("mon", "allow r"), ("osd", "allow r pool=p")];
    let caps: Caps = caps.map(|(service, cap)| (service.to_owned(), cap.to_owned())).into();
    let osds = loligo_server::OsdCount::new(3);
    let server = Server::memory().osds(osds.expect("a number")).user(app, caps).start().expect("it starts");
    assert_eq!(answered(server.conf(), &[]), 0);
    // An OSD that refuses the question has answered it.
    assert_eq!(answered(server.conf(), &["-n", "client.app"]), 0);
    // Of the OSDs one that is up is asked.
    tell(&server, r#"{"prefix": "osd set", "key": "noup"}"#);
    tell(&server, r#"{"prefix": "osd down", "ids": ["0"]}"#);
    assert_eq!(answered(server.conf(), &[]), 1);
    tell(&server, r#"{"prefix": "osd down", "ids": ["1", "2"]}"#);
    failed(server.conf(), &[], &["ping an OSD: a monitor answered, but says that no OSD is up"]);
}

#[test]
fn who_does_not_answer_is_named() {
    let scratch = Scratch::new("ping");
    let dir = scratch.0.join("data");
    let mut server = ServerProcess::start(&dir);
    let conf = dir.join("ceph.conf");
    assert_eq!(answered(&conf, &[]), 0);
    let stop = |signal: &str| {
        let told = Command::new("kill").args([signal, &server.0.id().to_string()]).status();
        assert!(told.expect("kill runs").success());
    };
    stop("-STOP");
    failed(&conf, &["--timeout", "0.5"], &["0.5 s"]);
    stop("-CONT");
    assert_eq!(answered(&conf, &[]), 0);
    server.kill();
    failed(&conf, &["--timeout", "0.5"], &["no monitor answered within 0.5 s"]);
    failed(&scratch.0.join("none.conf"), &[], &["none.conf", "No such file"]);
    failed(&conf, &["--timeout", "x"], &["a number of seconds is needed"]);
    let keyring = dir.join("keyring");
    fs::remove_file(&keyring).expect("it is there");
    failed(&conf, &[], &["keyring"]);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn stock_daemons_answer() {
    let conf = env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    let conf = Path::new(&conf);
    let osd = answered(conf, &[]);
    let known = Command::new("ceph").args(["osd", "ls"]).env("CEPH_CONF", conf).output().expect("it runs");
    let known = String::from_utf8(known.stdout).expect("text");
    assert!(known.lines().any(|id| id == osd.to_string()), "{osd} of {known}");
}
