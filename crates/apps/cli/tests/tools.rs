//! Goal: scripts that call `rados` and `rbd` run with our program under these names. Method: each line
//! of `tools/*.txt` is a line of bash, in an order in which scripts that test Ceph call the programs;
//! `!` begins a line that must fail. The same lines hold for the programs of 16.2.15, which
//! LOLIGO_TOOLS=stock runs.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use loligo_server::Server;

const RUN: &str = include_str!("tools/run.sh");

fn run(lines: &str, conf: &Path) {
    let of = if conf.starts_with(env::temp_dir()) { "ours" } else { "stock" };
    let dir = env::temp_dir().join(format!("loligo-tools-{of}-{}-{}", std::process::id(), lines.len()));
    let (programs, work) = (dir.join("bin"), dir.join("work"));
    for part in [&programs, &work] {
        fs::create_dir_all(part).expect("room");
    }
    if env::var_os("LOLIGO_TOOLS").is_none_or(|of| of != "stock") {
        for name in ["rados", "rbd"] {
            symlink(env!("CARGO_BIN_EXE_loligo"), programs.join(name)).expect("room");
        }
    }
    fs::write(work.join("lines"), lines).expect("room");
    let path = env::var("PATH").expect("programs are found");
    let output = Command::new("bash")
        .args(["-c", RUN])
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("CEPH_CONF", conf)
        .env("RBD_FORCE_ALLOW_V1", "1")
        .env_remove("CEPH_ARGS")
        .current_dir(&work)
        .output()
        .expect("bash is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.ends_with(&format!("{} lines\n", count(lines))), "all lines ran: {said}");
    let _ = fs::remove_dir_all(&dir);
}

fn count(lines: &str) -> usize {
    lines.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count()
}

const RADOS: &str = include_str!("tools/rados.txt");
const RBD: &str = include_str!("tools/rbd.txt");

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn scripts_run() {
    let server = Server::memory().start().expect("the server starts");
    run(RADOS, server.conf());
    run(RBD, server.conf());
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn scripts_run_on_stock() {
    let conf = env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    run(RADOS, Path::new(&conf));
    run(RBD, Path::new(&conf));
}
