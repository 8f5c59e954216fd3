//! Goal: the server answers requests of stock clients as a stock cluster does. Method: the scripts of
//! this folder run through stock python3-rados and python3-rbd against an embedded server and against
//! the cluster that `LOLIGO_STOCK_CONF` names. Each prints a line for every step, and the lines must be
//! equal. Tools that keep data (fio, qemu-img, qemu-io) verify the data they read back themselves.

#[path = "../scratch/mod.rs"]
mod scratch;
mod scripts;
mod tools;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use loligo_server::{Handle, Server};

use scratch::Scratch;

/// Returns the output of a program that must succeed.
fn ok(conf: &Path, program: &str, args: &[&str]) -> String {
    let (code, stdout, stderr) = run(conf, program, args);
    assert_eq!(code, Some(0), "{program} {args:?}: {stdout}{stderr}");
    stdout
}

/// Runs a program for at most five minutes. Returns its exit code, its output and its error output.
fn run(conf: &Path, program: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new("timeout");
    command.args(["300", program]).args(args).env("CEPH_CONF", conf);
    let out = command.output().unwrap_or_else(|e| panic!("{program}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

/// Our server, with a pool for objects and one for images.
fn server() -> Handle {
    Server::memory().pool("data").pool("rbd").start().expect("the server starts")
}

/// Waits until something holds, at most a minute.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(200));
    }
}

fn stock() -> PathBuf {
    env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a stock cluster's configuration").into()
}
