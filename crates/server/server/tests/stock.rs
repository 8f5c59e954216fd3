//! Goal: stock Ceph programs use the server as they use a cluster. Method: the machine's `rados`, `ceph`
//! and python3-rados against an embedded server. If `LOLIGO_STOCK_CONF` names the configuration of a
//! stock cluster, error replies are also compared with those of that cluster.

mod scratch;

use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

use loligo_server::{Auth, Handle, Server};

use scratch::Scratch;

/// Sizes around boundaries: nothing, one block, one object of `rados put`, many objects.
const SIZES: [usize; 7] = [0, 1, 4095, 4096, (4 << 20) - 1, 4 << 20, 64 << 20];

/// Runs a stock program with a configuration.
fn run(conf: &Path, program: &str, args: &[&str]) -> Output {
    let run = Command::new("timeout").arg("60").arg(program).args(args).env("CEPH_CONF", conf).output();
    run.unwrap_or_else(|e| panic!("{program}: {e}"))
}

/// Returns the output of a program that must succeed.
fn ok(conf: &Path, program: &str, args: &[&str]) -> String {
    let out = run(conf, program, args);
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Runs a script with the modules `rados` and `sys`, a connected cluster `c` and an open pool `io`.
fn python(conf: &Path, script: &str) -> String {
    let head = "import rados, sys, hashlib\n\
                c = rados.Rados(conffile=sys.argv[1]); c.connect(); io = c.open_ioctx('data')\n";
    let conf_arg = conf.to_str().expect("a path in UTF-8");
    ok(conf, "/usr/bin/python3", &["-c", &format!("{head}{script}"), conf_arg])
}

fn server() -> Handle {
    Server::memory().pool("data").start().expect("the server starts")
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn objects_of_all_sizes_come_back_in_crc_and_secure_mode() {
    let (server, scratch) = (server(), Scratch::new("sizes"));
    let (from, to) = (scratch.file("from"), scratch.file("to"));
    for mode in ["crc", "secure"] {
        let client = ["--ms_client_mode", mode, "--ms_mon_client_mode", mode, "-p", "data"];
        for (i, size) in SIZES.into_iter().enumerate() {
            let content: Vec<u8> = (0..size).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            fs::write(&from, &content).expect("the input is written");
            let name = format!("{mode}-{i}");
            ok(server.conf(), "rados", &[&client[..], &["put", &name, &from]].concat());
            ok(server.conf(), "rados", &[&client[..], &["get", &name, &to]].concat());
            assert!(fs::read(&to).expect("the output is read") == content, "{mode}, {size} bytes");
            let stat = ok(server.conf(), "rados", &[&client[..], &["stat", &name]].concat());
            assert!(stat.trim_end().ends_with(&format!("size {size}")), "{stat}");
        }
    }
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn names_and_namespaces_are_bytes() {
    let server = server();
    let script = r#"
names = ['with blanks in it', 'ümläut-日本語', 'x' * 1000, '-', '_', '%2f/\\"']
for ns in ['', 'one', 'zwei Räume']:
    io.set_namespace(ns)
    for name in names:
        io.write_full(name, (ns + name).encode())
for ns in ['', 'one', 'zwei Räume']:
    io.set_namespace(ns)
    assert sorted(o.key for o in io.list_objects()) == sorted(names)
    for name in names:
        assert io.read(name) == (ns + name).encode(), (ns, name)
io.set_namespace(rados.LIBRADOS_ALL_NSPACES)
assert len(list(io.list_objects())) == 3 * len(names)
"#;
    python(server.conf(), script);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn ten_thousand_objects_are_listed() {
    let server = server();
    let script = r#"
done = [io.aio_write_full('o%d' % i, b'') for i in range(10000)]
for d in done: d.wait_for_complete()
assert {o.key for o in io.list_objects()} == {'o%d' % i for i in range(10000)}
"#;
    python(server.conf(), script);
    let listed = ok(server.conf(), "rados", &["-p", "data", "ls"]);
    assert_eq!(listed.lines().count(), 10_000);
    let stats = ok(server.conf(), "ceph", &["df", "-f", "json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    assert_eq!(stats["pools"][0]["stats"]["objects"], 10_000);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn objects_are_changed_in_all_ways() {
    let server = server();
    let script = r#"
io.write('o', b'0123456789'); io.append('o', b'abc'); io.trunc('o', 12)
assert io.read('o') == b'0123456789ab' and io.stat('o')[0] == 12
io.set_xattr('o', 'k', b'\0v'); assert io.get_xattr('o', 'k') == b'\0v'
assert dict(io.get_xattrs('o')) == {'k': b'\0v'}
io.rm_xattr('o', 'k')
for gone in (lambda: io.get_xattr('o', 'k'), lambda: io.read('nothing'), lambda: io.remove_object('nothing')):
    try: gone(); assert False
    except (rados.NoData, rados.ObjectNotFound): pass
io.remove_object('o')
assert list(io.list_objects()) == []
c.create_pool('second'); assert sorted(c.list_pools()) == ['data', 'second']
try: c.create_pool('second'); assert False
except rados.ObjectExists: pass
c.delete_pool('second'); assert c.list_pools() == ['data']
assert c.get_cluster_stats()['kb'] > 0 and io.get_stats()['num_objects'] == 0
"#;
    python(server.conf(), script);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn rados_bench_runs_and_cleans_up() {
    let server = server();
    let bench = |args: &[&str]| ok(server.conf(), "rados", &[&["-p", "data", "bench", "1"], args].concat());
    assert!(bench(&["write", "-b", "4096", "--no-cleanup"]).contains("Bandwidth"));
    bench(&["seq"]);
    bench(&["rand"]);
    ok(server.conf(), "rados", &["-p", "data", "cleanup"]);
    assert_eq!(ok(server.conf(), "rados", &["-p", "data", "ls"]), "");
    // Each program verifies what it reads, so our benchmark must write what stock's expects.
    let loligo = std::env::var("LOLIGO_BIN").expect("LOLIGO_BIN names the loligo program");
    ok(server.conf(), &loligo, &["-p", "data", "bench", "1", "write", "-b", "4096", "--no-cleanup"]);
    bench(&["seq"]);
    ok(server.conf(), "rados", &["-p", "data", "cleanup"]);
    assert_eq!(ok(server.conf(), "rados", &["-p", "data", "ls"]), "");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn the_ceph_program_administers() {
    let server = server();
    let ceph = |line: &str| ok(server.conf(), "ceph", &line.split(' ').collect::<Vec<_>>());
    assert!(ceph("-s").contains("HEALTH_OK"));
    ceph("osd pool create p2 8");
    assert_eq!(ceph("osd pool ls"), "data\np2\n");
    ceph("osd pool rm p2 p2 --yes-i-really-really-mean-it");
    assert_eq!(ceph("osd pool ls"), "data\n");
    let key = ok(server.conf(), "ceph", &["auth", "get-or-create", "client.t", "mon", "profile rbd"]);
    assert!(key.starts_with("[client.t]\n\tkey = "));
    assert!(ceph("auth ls").contains("client.t\n"));
    assert!(ceph("osd tree").contains("osd.0      up"));
    assert!(ceph("df").contains("--- POOLS ---"));
    for line in ["-s", "df detail", "osd dump", "osd pool ls detail", "auth ls", "mon dump", "health detail"]
    {
        let text = ceph(&format!("{line} -f json"));
        serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|e| panic!("{line}: {e}: {text}"));
    }
}

/// The failure of a program.
#[derive(Debug)]
struct Refusal {
    code: Option<i32>,
    /// The program's own text on standard error.
    said: Vec<String>,
    /// Log lines of its library on standard error. A program that ends at once may not have written its
    /// log.
    logged: Vec<String>,
}

/// Compares logs only if both sides have some.
impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        let logs_differ = !self.logged.is_empty() && !other.logged.is_empty() && self.logged != other.logged;
        (self.code, &self.said) == (other.code, &other.said) && !logs_differ
    }
}

fn refusal(conf: &Path, program: &str, args: &[&str]) -> Refusal {
    let out = run(conf, program, args);
    let (mut said, mut logged) = (Vec::new(), Vec::new());
    for line in String::from_utf8_lossy(&out.stderr).lines().filter(|line| !line.is_empty()) {
        match line.split_once(" -1 ") {
            Some((_, entry)) => logged.push(entry.to_owned()),
            None => said.push(line.to_owned()),
        }
    }
    Refusal { code: out.status.code(), said, logged }
}

/// Collects a cluster's replies to clients without permission.
fn refusals(conf: &Path, scratch: &Scratch) -> Vec<Refusal> {
    let wrong = scratch.file("wrong");
    let key = "key = AQC77wBrFLyYMBAA/p+czEcGdMspYsNmtdUzYw==";
    fs::write(&wrong, format!("[client.admin]\n{key}\n[client.loligo-nobody]\n{key}\n")).expect("a keyring");
    let reader = scratch.file("reader");
    let caps = ["mon", "allow r", "osd", "allow r"];
    let make =
        ["auth", "get-or-create", "client.loligo-reader", caps[0], caps[1], caps[2], caps[3], "-o", &reader];
    ok(conf, "ceph", &make);
    let without = scratch.file("without");
    ok(conf, "ceph", &["auth", "get-or-create", "client.loligo-without", "-o", &without]);
    let pool = ok(conf, "ceph", &["osd", "pool", "ls"]).lines().last().expect("a pool").to_owned();
    let mut answers = Vec::new();
    for program in ["rados", "ceph"] {
        let ask = if program == "rados" { "lspools" } else { "health" };
        answers.push(refusal(conf, program, &["-k", &wrong, ask]));
        answers.push(refusal(conf, program, &["-n", "client.loligo-nobody", "-k", &wrong, ask]));
        answers.push(refusal(conf, program, &["-n", "client.loligo-without", "-k", &without, ask]));
        answers.push(refusal(conf, program, &["--auth_client_required", "none", ask]));
    }
    let as_reader = ["-n", "client.loligo-reader", "-k", &reader];
    let put = ["-p", &pool, "put", "o", &wrong];
    let mut refused = refusal(conf, "rados", &[&as_reader[..], &put].concat());
    refused.said.iter_mut().for_each(|line| *line = line.replace(&format!("{pool}/"), "POOL/"));
    answers.push(refused);
    answers.push(refusal(conf, "ceph", &[&as_reader[..], &["osd", "pool", "create", "z"]].concat()));
    answers.push(refusal(conf, "ceph", &[&as_reader[..], &["auth", "ls"]].concat()));
    for name in ["client.loligo-reader", "client.loligo-without"] {
        ok(conf, "ceph", &["auth", "rm", name]);
    }
    answers
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn those_who_may_not_are_refused_as_by_a_stock_cluster() {
    let (server, scratch) = (server(), Scratch::new("refusals"));
    let ours = refusals(server.conf(), &scratch);
    for refused in &ours {
        assert!(refused.code.is_some_and(|code| code != 0 && code != 124), "{refused:?}");
    }
    if let Some(stock) = env::var_os("LOLIGO_STOCK_CONF") {
        assert_eq!(ours, refusals(Path::new(&stock), &scratch));
    }
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn without_authentication_everybody_is_let_in() {
    let server = Server::memory().pool("data").auth(Auth::None).start().expect("the server starts");
    python(server.conf(), "io.write_full('o', b'x'); assert io.read('o') == b'x'");
    assert!(ok(server.conf(), "ceph", &["health"]).starts_with("HEALTH_OK"));
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_cluster_keeps_what_it_is_over_a_restart() {
    let scratch = Scratch::new("restart");
    let start = || Server::memory().data_dir(scratch.path()).start().expect("the server starts");
    let first = start();
    let (fsid, conf) = (first.fsid(), first.conf().to_owned());
    ok(&conf, "ceph", &["osd", "pool", "create", "kept", "16"]);
    let key = ok(&conf, "ceph", &["auth", "get-or-create", "client.kept", "mon", "allow r"]);
    assert!(Server::memory().data_dir(scratch.path()).start().is_err(), "two servers in one directory");
    drop(first);
    let second = start();
    assert_eq!(second.fsid(), fsid);
    assert_eq!(ok(&conf, "ceph", &["osd", "pool", "get", "kept", "pg_num"]), "pg_num: 16\n");
    assert_eq!(ok(&conf, "ceph", &["auth", "get-or-create", "client.kept"]), key);
    assert_eq!(ok(&conf, "rados", &["-p", "kept", "ls"]), "");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn the_admin_socket_speaks_to_stock_ceph() {
    let server = server();
    let socket = server.admin_socket().to_str().expect("a path in UTF-8");
    let ask = |words: &[&str]| ok(server.conf(), "ceph", &[&["--admin-daemon", socket], words].concat());
    assert!(ask(&["help"]).contains("\"lock_stat\": "));
    assert!(ask(&["version"]).contains("\"version\": \"16.2.15\""));
    assert!(ask(&["lock_stat"]).starts_with("lock_stat version 0.4\n"));
    assert!(ask(&["lock_stat", "json"]).starts_with("{\"mode\":\"contended\""));
    assert!(ask(&["-f", "json", "lock_stat"]).starts_with("{\"mode\":\"contended\""));
    assert_eq!(ask(&["lock_stat", "mode", "full"]), "full\n");
    assert_eq!(ask(&["config", "get", "lock_stat_mode"]), "{\n    \"lock_stat_mode\": \"full\"\n}\n");
    assert_eq!(ask(&["config", "set", "lock_stat_mode", "contended"]), "{\n    \"success\": \"\"\n}\n");
    assert_eq!(ask(&["lock_stat", "mode"]), "contended\n");
    assert_eq!(ask(&["lock_stat", "reset"]), "forgotten\n");
    assert!(ask(&["perf", "dump"]).contains("\"op_w\": 0"));
    assert!(ask(&["config", "show"]).contains("\"osd_objectstore\": \"memstore\""));
    // The socket is also found by the daemon's name in the configuration.
    assert!(ok(server.conf(), "ceph", &["daemon", "osd.0", "version"]).contains("16.2.15"));
    let refused = run(server.conf(), "ceph", &["--admin-daemon", socket, "nonsense"]);
    assert!(!refused.status.success());
}
