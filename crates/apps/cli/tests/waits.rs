//! Goal: a command that waits reports the reason after five seconds, on a terminal and in its log.
//! Method: commands on a server that delays them, and on a port without a server; each command is ended
//! as soon as it has reported.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use loligo_rados::{Builder, blocking};
use loligo_server::{Handle, Server};

/// A command, which is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn loligo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
    command.env_remove("CEPH_CONF").env_remove("CEPH_ARGS");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Returns `true` if `line` has `before`, a number of seconds that is at least five, and then `after`.
/// The number depends on the load of the machine.
fn tells(line: &str, before: &str, after: &str) -> bool {
    let rest = line.split_once(before).map(|(_, rest)| rest);
    let seconds = rest.and_then(|rest| rest.split_once(' '));
    seconds.is_some_and(|(count, then)| count.parse().is_ok_and(|s: u64| s >= 5) && then.starts_with(after))
}

/// Returns the first line that contains `part`; all lines if none does.
fn line_with(part: &str, from: impl Read) -> String {
    let mut all = String::new();
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        if line.contains(part) {
            return line;
        }
        all = all + &line + "\n";
    }
    panic!("no line has '{part}':\n{all}");
}

/// Returns the line that a command without a terminal writes to its log, which is its standard error.
fn logs(mut command: Command, part: &str) -> String {
    let mut running =
        Running(command.args(["--log-file", "-"]).stderr(Stdio::piped()).spawn().expect("it starts"));
    let stderr = running.0.stderr.take().expect("piped");
    line_with(part, stderr)
}

/// Starts a server with a pool that has reached its quota.
fn full_server() -> Handle {
    let server = Server::memory().pool("p").start().expect("the server starts");
    let create = loligo().arg("-c").arg(server.conf()).args(["-p", "p", "create", "o"]).status();
    assert!(create.expect("it starts").success());
    let builder = Builder::new().conf_file(server.conf().to_str().expect("UTF-8"));
    let rados = blocking::Rados::connect(builder).expect("connects");
    let ask = |command: &str| rados.mon_command(command, Bytes::new()).expect("answered").0;
    ask(r#"{"prefix": "osd pool set-quota", "pool": "p", "field": "max_objects", "val": "1"}"#);
    let dump = || ask(r#"{"prefix": "osd dump", "format": "json"}"#);
    while !String::from_utf8_lossy(&dump()).contains("full_quota") {
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

#[test]
fn a_full_pool_is_told_to_who_removes() {
    let server = full_server();
    let mut rm = loligo();
    rm.arg("-c").arg(server.conf()).args(["-p", "p", "rm", "o"]);
    let line = logs(rm, "has waited for");
    assert!(tells(&line, "1 request has waited for ", "s (delete on 'o'): pool 'p' is full"), "{line}");
    assert!(line.contains("--force-full"), "{line}");
}

/// The terminal is one that `script` creates.
#[test]
fn a_terminal_shows_it() {
    let server = full_server();
    let rm = format!("{} -c {} -p p rm o", env!("CARGO_BIN_EXE_loligo"), server.conf().display());
    let mut script = Command::new("script");
    script.args(["--quiet", "--command", &rm, "/dev/null"]).env_remove("CEPH_CONF").env_remove("CEPH_ARGS");
    script.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut running = Running(script.spawn().expect("it starts"));
    let shown = running.0.stdout.take().expect("piped");
    let line = line_with("has waited for", shown);
    assert!(line.starts_with("loligo: 1 request has waited for "), "{line}");
    assert!(tells(&line, "has waited for ", "s (delete on 'o'): pool 'p' is full"), "{line}");
}

#[test]
fn a_monitor_that_does_not_answer_is_told() {
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = mute.local_addr().expect("bound").to_string();
    let mut ls = loligo();
    ls.args(["--no-config-file", "--auth-client-required", "none", "--mon-host"]).arg(format!("v2:{addr}"));
    ls.args(["-p", "p", "ls"]);
    let line = logs(ls, "has waited for");
    let why = format!("s: no session with a monitor of {addr}");
    assert!(tells(&line, "1 client has waited for ", &why), "{line}");
}
