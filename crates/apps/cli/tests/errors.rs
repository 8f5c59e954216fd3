//! Goal: each error is reported in one line that names the command, its object and the reason, and the
//! status is the one that scripts check.

mod server_process;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use server_process::{Scratch, ServerProcess};

/// The words of a command line, the status, and the texts that the line must contain.
type Case = (&'static str, i32, &'static [&'static str]);

/// Cases without a cluster. `D` stands for the directory of the test.
const ALONE: &[Case] = &[
    ("lspools --nosuch=3", 1, &["--nosuch", "loligo lspools --help"]),
    ("nosuch", 1, &["'nosuch'", "loligo --help"]),
    ("-p p put o", 1, &["<FILE>", "loligo put --help"]),
    ("-p p put o f --offset x", 1, &["'x'", "--offset", "4096"]),
    ("lspools --format yaml", 1, &["yaml", "json"]),
    ("-c", 1, &["-c"]),
    ("-n nonsense lspools", 1, &["nonsense"]),
    ("-c D/none.conf lspools", 1, &["D/none.conf", "No such file"]),
    ("-c D/none.conf rbd ls p", 1, &["D/none.conf", "No such file"]),
    ("-c D/bytes.conf lspools", 1, &["D/bytes.conf", "line 3", "UTF-8"]),
    ("-c D/syntax.conf lspools", 1, &["D/syntax.conf", "line 2", "NAME = VALUE"]),
    ("-c D lspools", 1, &["D", "directory"]),
    ("-c D/nowhere.conf lspools", 1, &["mon host", "ceph-mon"]),
    ("-c D/mon.conf -k D/none lspools", 1, &["no keyring", "D/none"]),
    ("-c D/mon.conf -k D/bytes.keyring lspools", 1, &["D/bytes.keyring", "line 1", "UTF-8"]),
    ("-c D/mon.conf -k D/other.keyring lspools", 1, &["client.admin"]),
    ("-c D/mon.conf -K D/none lspools", 1, &["D/none", "No such file"]),
    ("-c D/mon.conf --key zz lspools", 1, &["key", "base64"]),
    ("-c D/mon.conf --client-mount-timeout 0.3 lspools", 1, &["no monitor", "0.3 s", "127.0.0.1:1"]),
    ("--setuser nosuch-user lspools -c D/mon.conf", 1, &["nosuch-user"]),
    ("config help rbd_cach", 2, &["rbd_cach", "rbd_cache"]),
    ("fsck D/none", 1, &["D/none"]),
    ("df D/none", 1, &["D/none"]),
    ("lockstat D/none", 1, &["D/none", "admin socket"]),
    ("nbd serve --config D/none", 1, &["D/none"]),
];

/// Cases with a server that has the pool `p`.
const AT_A_SERVER: &[Case] = &[
    ("lspools extra", 1, &["extra"]),
    ("ls", 1, &["-p POOL"]),
    ("-p nosuch ls", 1, &["nosuch"]),
    ("-p p get none -", 1, &["get p/none", "o such"]),
    ("-p p put o D/none", 1, &["D/none", "No such file"]),
    ("-p p stat none", 1, &["stat p/none", "o such"]),
    ("-p p rm none", 1, &["rm p/none", "o such"]),
    ("-p p -s none get o -", 1, &["none", "p"]),
    ("-p p getxattr none a", 1, &["getxattr p/none a"]),
    ("-p p rmsnap none", 1, &["none"]),
    ("-p p lock info none l", 1, &["none"]),
    ("-p p create there", 1, &["create p/there", "exists"]),
    ("-p p get there D/none/f", 1, &["D/none/f", "No such file"]),
    ("-p p import D/none", 1, &["D/none", "No such file"]),
    ("rbd info p/none", 2, &["none"]),
    ("rbd create p/i", 1, &["size"]),
    ("rbd snap ls p/none", 2, &["none"]),
    ("rbd import D/none p/i", 2, &["D/none"]),
];

fn loligo(conf: Option<&Path>, dir: &Path, words: &str) -> Output {
    let dir = dir.display().to_string();
    let words = words.split(' ').map(|word| match word {
        "D" => dir.clone(),
        _ => word.replace("D/", &format!("{dir}/")),
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
    command.args(words).env_remove("CEPH_CONF").env_remove("CEPH_ARGS").env_remove("CEPH_KEYRING");
    conf.map(|conf| command.env("CEPH_CONF", conf));
    command.env("HOME", dir).stdin(Stdio::null()).output().expect("it runs")
}

fn check(conf: Option<&Path>, dir: &Path, cases: &[Case]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (words, status, parts) in cases {
        let ended = loligo(conf, dir, words);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        // Options that stock programs do not accept cause a warning before the error.
        let lines: Vec<_> = said.lines().filter(|line| !line.contains("stock programs")).collect();
        let whole = |part: &&str| said.contains(&part.replace("D/", &format!("{}/", dir.display())));
        let is_good = lines.len() == 1
            && lines[0].starts_with("loligo: ")
            && parts.iter().filter(|part| **part != "D").all(whole)
            && !said.contains("entity not found");
        if !is_good || ended.status.code() != Some(*status) {
            wrong.push(format!("{words}: status {:?}, not {status}: {said}", ended.status.code()));
        }
    }
    wrong
}

#[test]
fn errors_say_what_where_and_why() {
    let scratch = Scratch::new("errors");
    let dir = &scratch.0;
    let write = |name: &str, bytes: &[u8]| fs::write(dir.join(name), bytes).expect("it is written");
    write("bytes.conf", b"[global]\nfsid =\n# \xff\n");
    write("syntax.conf", b"[global]\nnonsense\n");
    write("nowhere.conf", b"[global]\n");
    write(
        "mon.conf",
        b"[global]\nmon host = v2:127.0.0.1:1\nauth client required = cephx\nkeyring = D/good\n",
    );
    write("bytes.keyring", b"\xff\n");
    write("other.keyring", b"[client.x]\nkey = AQBcTCVnAAAAABAAJfgr1Q8ISzQ4rbAcNb1PVQ==\n");
    let good = dir.join("good.keyring");
    write("good.keyring", b"[client.admin]\nkey = AQBcTCVnAAAAABAAJfgr1Q8ISzQ4rbAcNb1PVQ==\n");
    let mon = format!(
        "[global]\nmon host = v2:127.0.0.1:1\nauth client required = cephx\nkeyring = {}\n",
        good.display()
    );
    write("mon.conf", mon.as_bytes());
    let mut wrong = check(None, dir, ALONE);
    let data = dir.join("data");
    let mut server = ServerProcess::start(&data);
    let conf = data.join("ceph.conf");
    assert!(loligo(Some(&conf), dir, "-p p create there").status.success());
    wrong.extend(check(Some(&conf), dir, AT_A_SERVER));
    server.kill();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    fs::remove_dir_all(dir).expect("it is there");
}
