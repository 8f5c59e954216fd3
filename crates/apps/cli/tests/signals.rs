//! Goal: a server that has printed `ready` can be ended, and ends with success. Method: it gets the
//! signal the moment its line is read, many times.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn serve(dir: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(["--no-config-file", "serve", "--store", "memory", "--mon-addr", "127.0.0.1:0", "--data"])
        .arg(dir)
        .env_remove("CEPH_CONF")
        .env_remove("CEPH_ARGS")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts")
}

fn tell(child: &Child, signal: &str) {
    let told = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill runs");
    assert!(told.success(), "kill {signal}");
}

#[test]
fn a_server_that_is_ready_hears_signals() {
    let dir = std::env::temp_dir().join(format!("loligo-signals-{}", std::process::id()));
    for signal in ["-TERM", "-INT"].into_iter().cycle().take(12) {
        let mut child = serve(&dir);
        let mut ready = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        lines.read_line(&mut ready).expect("a line");
        tell(&child, signal);
        assert!(ready.starts_with("ready "), "{ready:?}");
        let status = child.wait().expect("it ends");
        assert!(status.success(), "{signal}: {status}");
    }
    std::fs::remove_dir_all(&dir).expect("ours");
}
