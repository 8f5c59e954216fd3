//! Goal: the programs that newcomers copy work. Method: each runs against a server of its own, and must
//! print the expected lines.

use std::process::Command;

use loligo_server::Server;

/// Runs a program. Returns its output.
fn printed(program: &str) -> String {
    let server = Server::memory().pool("p").start().expect("a server starts");
    let mut command = Command::new(program);
    command.env("CEPH_CONF", server.conf()).env_remove("CEPH_ARGS");
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints text")
}

#[test]
fn object() {
    let lines = "read world (en)\nthere is greeting\nit is gone\n";
    assert_eq!(printed(env!("CARGO_BIN_EXE_object")), lines);
}

#[test]
fn compound() {
    let lines =
        "attempt 1: paid\nattempt 2: refused, the version is another\nbalance 70, version 2, 10 bytes\n";
    assert_eq!(printed(env!("CARGO_BIN_EXE_compound")), lines);
}

#[test]
fn watch() {
    let lines = "heard b\"lunch\"\nanswered b\"understood\"\n0 did not answer\n";
    assert_eq!(printed(env!("CARGO_BIN_EXE_watch")), lines);
}

#[test]
fn image() {
    let lines = "now    b\"behind\"\nmonday b\"before\"\nzeros  b\"\\0\\0\\0\\0\"\n";
    assert_eq!(printed(env!("CARGO_BIN_EXE_image")), lines);
}

#[test]
fn striped() {
    let lines = "the file has 10485760 bytes\nin the middle b\"\\x07\\x07\\x07\"\n";
    assert_eq!(printed(env!("CARGO_BIN_EXE_striped")), lines);
}

#[test]
fn cache() {
    let lines = "cached b\"in memory\"\nstored b\"in memory\"\n";
    assert_eq!(printed(env!("CARGO_BIN_EXE_cache")), lines);
}

#[test]
fn locks() {
    let text = printed(env!("CARGO_BIN_EXE_locks"));
    assert!(text.starts_with("20 orders\n") && text.contains("shop.orders:"), "{text}");
    assert!(text.contains("locks.rs:"), "the place that waited is named: {text}");
}
