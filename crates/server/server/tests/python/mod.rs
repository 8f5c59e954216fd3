//! Runs scripts through python3-rados.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use loligo_server::Server;

/// A connected cluster `c`, and a new pool `io` which is removed at the end.
const HEAD: &str = r#"
import ctypes, json, rados, sys, threading, time
c = rados.Rados(conffile=sys.argv[1]); c.connect()
name = 'python-%d' % c.get_instance_id()
c.create_pool(name); io = c.open_ioctx(name)
def fails(error, call, *args):
    try: call(*args)
    except error as e: return e
    raise AssertionError('%s did not fail' % call)
def until(holds):
    end = time.monotonic() + 40
    while not holds():
        assert time.monotonic() < end, 'it never held'
        time.sleep(0.02)
"#;
const TAIL: &str = "\nio.close(); c.delete_pool(name); c.shutdown()\n";

/// Runs a script on our servers.
pub(crate) fn on_ours(script: &str) {
    let script = format!("{HEAD}{script}{TAIL}");
    let memory = Server::memory().start().expect("the server starts");
    run(memory.conf(), &script);
    let dir = env::temp_dir().join(format!("loligo-python-{}-{:x}", std::process::id(), hash_of(&script)));
    let disk = Server::disk(&dir).start().expect("the server starts");
    run(disk.conf(), &script);
    drop(disk);
    let _ = std::fs::remove_dir_all(dir);
}

/// Runs a script on our servers, and on the stock cluster if there is one.
#[allow(dead_code, reason = "each test file takes what it needs")]
pub(crate) fn on_all(script: &str) {
    on_ours(script);
    if let Some(stock) = env::var_os("LOLIGO_STOCK_CONF").map(PathBuf::from) {
        run(&stock, &format!("{HEAD}{script}{TAIL}"));
    }
}

fn hash_of(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn run(conf: &Path, script: &str) {
    let mut command = Command::new("timeout");
    command.args(["100", "/usr/bin/python3", "-c", script]).arg(conf).env("CEPH_CONF", conf);
    let out = command.output().expect("it is installed");
    assert!(out.status.success(), "{}: {}", conf.display(), String::from_utf8_lossy(&out.stderr));
}
