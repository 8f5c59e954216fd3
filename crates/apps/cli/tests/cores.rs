//! The program leaves no core dump, which would contain its keys; with `LOLIGO_CORE_DUMPS=1` it leaves
//! one.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns `true` if a server that receives SIGABRT leaves a core dump.
fn dumps(dir: &Path, allow: Option<&str>) -> bool {
    let mut child = Command::new("sh")
        .args(["-c", r#"ulimit -c unlimited; exec "$0" --no-config-file -p p serve --mon-addr 127.0.0.1:0 --data "$1""#])
        .arg(env!("CARGO_BIN_EXE_loligo"))
        .arg(dir.join("data"))
        .envs(allow.map(|value| ("LOLIGO_CORE_DUMPS", value)))
        .env_remove("CEPH_CONF")
        .env_remove("CEPH_ARGS")
        .current_dir(dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    // The first byte of the line that begins with `ready`.
    child.stdout.take().expect("piped").read_exact(&mut [0]).expect("it is ready");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-ABRT", &id]).status().expect("kill").success());
    child.wait().expect("it ends").core_dumped()
}

#[test]
fn keys_are_in_no_core_dump() {
    let dir = std::env::temp_dir().join(format!("loligo-cores.{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    assert!(!dumps(&dir, None));
    assert!(!dumps(&dir, Some("0")));
    if !dumps(&dir, Some("1")) {
        skipped("this machine writes no core dumps (core_pattern, limits)");
    }
    std::fs::remove_dir_all(&dir).expect("it is ours");
}

/// Prints why a test was skipped. It does not use `eprintln!`, whose output is hidden for tests that
/// pass: `cargo xtask test` counts such lines.
fn skipped(why: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {why}\n").as_bytes());
}
