//! The server's log, as an operator uses it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use bytes::Bytes;
use loligo_rados::Builder;

fn loligo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
    // The machine's configuration must not affect the tests.
    command.args(["--no-config-file"]).env_remove("CEPH_CONF").env_remove("CEPH_ARGS");
    command
}

/// A server; killed if the test fails.
struct Server(Child, PathBuf);

impl Server {
    fn start(name: &str, options: &[&str]) -> Self {
        Self::start_telling(name, options, Stdio::inherit())
    }

    fn start_telling(name: &str, options: &[&str], errors: Stdio) -> Self {
        let dir = env::temp_dir().join(format!("loligo-cli-{name}.{}", std::process::id()));
        let mut child = loligo()
            .args(["-p", "p", "serve", "--mon-addr", "127.0.0.1:0", "--data"])
            .arg(&dir)
            .args(options)
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("ready "), "{ready}");
        Self(child, dir)
    }

    fn put(&self) {
        let conf = self.1.join("ceph.conf");
        let put = Command::new(env!("CARGO_BIN_EXE_loligo"))
            .arg("-c")
            .args([&conf, Path::new("-p"), Path::new("p"), Path::new("put"), Path::new("o"), &conf])
            .env_remove("CEPH_ARGS")
            .output()
            .unwrap();
        assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
        assert!(put.stderr.is_empty(), "a client without a log says nothing");
    }

    fn stop(mut self) -> PathBuf {
        let killed = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap();
        assert!(killed.success() && self.0.wait().unwrap().success());
        self.1.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_server_logs_to_its_directory_at_the_levels_that_it_is_told() {
    let server = Server::start("log", &["--debug-osd", "10/20", "--debug-ms=0/0"]);
    server.put();
    let dir = server.stop();
    let log = fs::read_to_string(dir.join("loligo.log")).unwrap();
    assert!(log.contains("  1 mon: serving "), "{log}");
    assert!(log.contains(" 10 osd: client."), "{log}");
    assert!(!log.contains(" msgr: "), "{log}");
    let key = fs::read_to_string(dir.join("keyring")).unwrap();
    let key = key.lines().find_map(|line| line.trim().strip_prefix("key = ")).unwrap();
    assert!(!log.contains(key), "no key is ever logged");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_log_goes_where_it_is_told() {
    let path = env::temp_dir().join(format!("loligo-cli-elsewhere.{}", std::process::id()));
    let server = Server::start("log-file", &["--log-file", path.to_str().unwrap(), "--debug-msgr", "1"]);
    server.put();
    let dir = server.stop();
    let log = fs::read_to_string(&path).unwrap();
    assert!(log.contains("  1 msgr: connection ") && log.contains(": open\n"), "{log}");
    assert!(!log.contains(" 10 "), "{log}");
    assert!(!dir.join("loligo.log").exists());
    fs::remove_file(path).unwrap();
    fs::remove_dir_all(dir).unwrap();
}

/// An invalid level is ignored with a warning, as by stock programs.
#[test]
fn a_wrong_level_is_passed_over() {
    let errors = env::temp_dir().join(format!("loligo-cli-said.{}", std::process::id()));
    let server =
        Server::start_telling("wrong", &["--debug-osd", "loud"], File::create(&errors).unwrap().into());
    let dir = server.stop();
    let said = fs::read_to_string(&errors).unwrap();
    assert!(said.starts_with("loligo: parse error setting 'debug_osd' to 'loud' ("), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    fs::remove_file(errors).unwrap();
    fs::remove_dir_all(dir).unwrap();
}

/// A client follows the log settings of `ceph config set client.admin`, as stock programs do; the
/// command line takes precedence.
#[test]
fn a_client_follows_what_the_monitor_says_of_its_log() {
    let path = env::temp_dir().join(format!("loligo-cli-followed.{}.log", std::process::id()));
    let _ = fs::remove_file(&path);
    let server = Server::start("log-followed", &[]);
    let conf = server.1.join("ceph.conf");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let rados = Builder::new().conf_file(conf.to_str().unwrap()).connect().await.unwrap();
        for (name, value) in [("log_file", path.to_str().unwrap()), ("debug_ms", "1/5")] {
            let set = format!(
                r#"{{"prefix":"config set","who":"client.admin","name":"{name}","value":"{value}"}}"#
            );
            rados.mon_command(&set, Bytes::new()).await.unwrap();
        }
        rados.shutdown().await;
    });
    let put = |level: &[&str]| {
        let mut put = Command::new(env!("CARGO_BIN_EXE_loligo"));
        put.arg("-c").arg(&conf).args(level).args(["-p", "p", "put", "o"]).arg(&conf).env_remove("CEPH_ARGS");
        let output = put.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        fs::read_to_string(&path).unwrap_or_default()
    };
    let silent = put(&["--debug-ms", "0/0"]);
    assert!(!silent.contains(" msgr: "), "{silent}");
    let log = put(&[]);
    assert!(log.contains("  1 msgr: connection ") && log.contains(": open\n"), "{log}");
    let dir = server.stop();
    fs::remove_dir_all(dir).unwrap();
    fs::remove_file(path).unwrap();
}

/// Sets options of the client at a monitor, or removes them.
fn configure(conf: &Path, settings: &[(&str, Option<&str>)]) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let rados = Builder::new().conf_file(conf.to_str().unwrap()).connect().await.unwrap();
        for (name, value) in settings {
            let command = match value {
                Some(value) => format!(
                    r#"{{"prefix":"config set","who":"client.admin","name":"{name}","value":"{value}"}}"#
                ),
                None => format!(r#"{{"prefix":"config rm","who":"client.admin","name":"{name}"}}"#),
            };
            rados.mon_command(&command, Bytes::new()).await.unwrap();
        }
        rados.shutdown().await;
    });
}

/// Waits until a file contains a text, for at most a minute.
fn comes(path: &Path, text: &str) -> String {
    for _ in 0..3000 {
        let log = fs::read_to_string(path).unwrap_or_default();
        if log.contains(text) {
            return log;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("'{text}' never comes to {}", path.display());
}

/// Checks that a running program follows the monitors' log settings.
fn follows_while_it_runs(program: &mut Child, conf: &Path, what: &str) {
    let [first, second] = ["first", "second"]
        .map(|name| env::temp_dir().join(format!("loligo-cli-{what}-{name}.{}.log", std::process::id())));
    // Each change of the settings is a message, which is logged at this level.
    configure(conf, &[("log_file", first.to_str()), ("debug_ms", Some("20"))]);
    configure(conf, &[("log_max_recent", Some("500"))]);
    comes(&first, " msgr: ");
    configure(conf, &[("log_file", second.to_str()), ("log_max_recent", Some("501"))]);
    comes(&second, " msgr: ");
    assert!(program.try_wait().unwrap().is_none(), "it goes on");
    configure(conf, &[("debug_ms", None), ("log_max_recent", None), ("log_file", None)]);
    for path in [first, second] {
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn programs_follow_the_monitors_while_they_run() {
    let server = Server::start("log-runs", &[]);
    let conf = server.1.join("ceph.conf");
    let ours = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
        command.arg("-c").arg(&conf).args(["-p", "p"]).args(words).env_remove("CEPH_ARGS");
        command.env_remove("CEPH_CONF").stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    };
    assert!(ours(&["create", "o"]).status().unwrap().success());
    assert!(ours(&["rbd", "create", "i", "--size", "1M"]).status().unwrap().success());
    let mut watch = ours(&["watch", "o"]).spawn().unwrap();
    follows_while_it_runs(&mut watch, &conf, "watch");
    drop(watch.stdin.take());
    assert!(watch.wait().unwrap().success());
    let socket = server.1.join("nbd.sock");
    let mut gateway =
        ours(&["nbd", "serve", "--export", "d=rbd:p/i", "--unix", socket.to_str().unwrap()]).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(gateway.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.starts_with("ready "), "{ready}");
    follows_while_it_runs(&mut gateway, &conf, "gateway");
    let killed = Command::new("kill").args(["-TERM", &gateway.id().to_string()]).status().unwrap();
    assert!(killed.success() && gateway.wait().unwrap().success());
    fs::remove_dir_all(server.stop()).unwrap();
}

/// The gateway's log obeys the options of its command line, as those of other commands do.
#[test]
fn the_gateway_logs_where_it_is_told() {
    let path = env::temp_dir().join(format!("loligo-cli-gateway.{}.log", std::process::id()));
    let socket = env::temp_dir().join(format!("loligo-cli-gateway.{}.sock", std::process::id()));
    let mut gateway = loligo()
        .args(["--log-file", path.to_str().unwrap(), "--debug-client", "20", "nbd", "serve"])
        .args(["--export", "d=memory:1M", "--unix", socket.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(gateway.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(path.exists(), "the log is there: {ready}");
    let killed = Command::new("kill").args(["-TERM", &gateway.id().to_string()]).status().unwrap();
    assert!(killed.success() && gateway.wait().unwrap().success());
    fs::remove_file(path).unwrap();
}
