//! The admin socket of a client.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use loligo_server::Server;

fn loligo(conf: &Path, socket: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
    command.arg("-c").arg(conf).arg("--admin-socket").arg(socket).env_remove("CEPH_ARGS");
    command
}

/// A client that waits for standard input replies on its admin socket meanwhile, together with the
/// server. A second client with the same path warns that it cannot open the socket, and does its work.
#[test]
fn client_and_server_report_together() {
    let server = Server::memory().pool("p").start().unwrap();
    let dir = env::temp_dir().join(format!("loligo-cli-admin.{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let socket = dir.join("client.asok");
    let mut put = loligo(server.conf(), &socket)
        .args(["-p", "p", "put", "o", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    while !socket.exists() {
        assert!(put.try_wait().unwrap().is_none(), "it waits for what to put");
        std::thread::yield_now();
    }

    let lockstat = |format: &str| {
        let both = [socket.as_path(), server.admin_socket()];
        let shown = Command::new(env!("CARGO_BIN_EXE_loligo"))
            .args(["--format", format, "lockstat"])
            .args(both)
            .output()
            .unwrap();
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        String::from_utf8(shown.stdout).unwrap()
    };
    assert!(lockstat("plain").starts_with("locks, mode contended: "));
    let json: serde_json::Value = serde_json::from_str(&lockstat("json")).unwrap();
    assert!(json[socket.to_str().unwrap()]["classes"].is_array());
    assert!(json[server.admin_socket().to_str().unwrap()]["classes"].is_array());

    let second = loligo(server.conf(), &socket).args(["-p", "p", "ls"]).output().unwrap();
    assert!(second.status.success());
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("going on without it"), "{said}");

    put.stdin.take().unwrap().write_all(b"content").unwrap();
    assert!(put.wait().unwrap().success());
    assert!(!socket.exists(), "it goes with the client");
    fs::remove_dir_all(&dir).unwrap();
}
