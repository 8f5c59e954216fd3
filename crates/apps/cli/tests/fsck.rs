//! Goal: after one bit on disk is flipped, reads of it fail and others succeed, and `loligo fsck`
//! locates it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::{env, fs};

fn loligo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
    command.env_remove("CEPH_CONF").env_remove("CEPH_ARGS");
    command
}

/// A server; killed if the test fails.
struct Server(Child);

impl Server {
    fn start(dir: &Path) -> Self {
        let mut child = loligo()
            .args(["--no-config-file", "-p", "p", "serve", "--mon-addr", "127.0.0.1:0", "--data"])
            .arg(dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("ready "), "{ready}");
        Self(child)
    }

    fn stop(mut self) {
        let killed = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap();
        assert!(killed.success() && self.0.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn client(dir: &Path, words: &[&str], file: &Path) -> Output {
    loligo()
        .arg("-c")
        .arg(dir.join("ceph.conf"))
        .args(["-p", "p", "-N", "n"])
        .args(words)
        .arg(file)
        .output()
        .unwrap()
}

fn fsck(dir: &Path, words: &[&str]) -> (bool, String, String) {
    let output = loligo().args(["--no-config-file", "fsck"]).arg(dir).args(words).output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

fn flip(path: PathBuf, pattern: &[u8]) {
    use std::os::unix::fs::FileExt as _;
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut block = vec![0; 4096];
    let found =
        (0..1u64 << 16).find(|i| file.read_exact_at(&mut block, i * 4096).is_ok() && block == pattern);
    block[99] ^= 4;
    file.write_all_at(&block, found.expect("the block is there") * 4096).unwrap();
}

#[test]
fn a_flipped_bit_is_found_and_told_and_the_rest_is_served() {
    let dir = env::temp_dir().join(format!("loligo-cli-fsck.{}", std::process::id()));
    let (file, copy) = (dir.join("in"), dir.join("out"));
    let server = Server::start(&dir);
    let data: Vec<u8> = (0..20_000u32).map(|i| (i % 241) as u8 ^ (i >> 12) as u8).collect();
    fs::write(&file, &data).unwrap();
    assert!(client(&dir, &["put", "bad"], &file).status.success());
    fs::write(&file, vec![7; 9000]).unwrap();
    assert!(client(&dir, &["put", "good"], &file).status.success());
    let (ok, _, why) = fsck(&dir, &[]);
    assert!(!ok && why.contains("in use"), "{why}");
    server.stop();
    let (ok, said, why) = fsck(&dir, &[]);
    assert!(ok && said.contains("2 objects") && said.ends_with(": 0 errors\n"), "{said}{why}");

    flip(dir.join("store/data"), &data[8192..12_288]);
    let (ok, said, why) = fsck(&dir, &[]);
    assert!(!ok && why.ends_with(": 1 errors\n"), "{why}");
    assert!(said.contains("object 'bad' namespace 'n' offset 8192: "), "{said}");
    let (ok, said, _) = fsck(&dir, &["--format", "json"]);
    assert!(!ok);
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let error = &report["errors"][0];
    assert_eq!(
        (&error["name"], &error["namespace"], &error["offset"]),
        (&"bad".into(), &"n".into(), &8192.into())
    );

    let server = Server::start(&dir);
    let refused = client(&dir, &["get", "bad"], &copy);
    assert!(!refused.status.success());
    assert!(client(&dir, &["get", "good"], &copy).status.success());
    assert_eq!(fs::read(&copy).unwrap(), vec![7; 9000]);
    server.stop();
    let log = fs::read_to_string(dir.join("loligo.log")).unwrap();
    assert!(log.contains("bad:head") && log.contains("offset 8192"), "{log}");
    // A repair does not invent lost data: reads of it still fail.
    let (ok, said, why) = fsck(&dir, &["--repair", "--format", "json"]);
    assert!(!ok && why.ends_with(": 1 errors are left\n"), "{why}");
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&report["errors_left"], &report["left"]), (&1.into(), &report["errors"]), "{said}");
    assert!(!dir.join("lost+found").exists(), "nothing was taken out");

    // The server has stopped; `df` reads the usage from the directory.
    let df = |words: &[&str]| {
        let output = loligo().args(["--no-config-file", "df"]).arg(&dir).args(words).output().unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (ok, said, why) = df(&["--format", "json"]);
    let report: serde_json::Value =
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}{why}"));
    let pool = &report["pools"][0];
    assert!(ok && pool["name"] == "p" && pool["objects"] == 2 && pool["bytes"] == 29_000, "{said}");
    assert_eq!(
        (&report["used"], &pool["bytes_allocated"]),
        (&((5 + 3) * 4096).into(), &report["used"]),
        "{said}"
    );
    let (ok, said, _) = df(&[]);
    assert!(ok && said.contains("POOL") && said.contains("used 32.00 KiB of "), "{said}");
    let server = Server::start(&dir);
    let (ok, _, why) = df(&[]);
    assert!(!ok && why.contains("in use"), "{why}");
    let (ok, _, why) = fsck(&dir, &["--repair"]);
    assert!(!ok && why.contains("in use"), "{why}");
    server.stop();
    let (ok, said, why) = fsck(&dir.join("nowhere"), &[]);
    assert!(!ok && said.is_empty() && why.contains("there is no store"), "{why}");
    fs::remove_dir_all(dir).unwrap();
}
