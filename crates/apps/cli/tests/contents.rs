//! What a server begins with.
//!
//! Goal: `serve --load`, `--image`, `--user` and their variables give a server its first contents, and change
//! nothing that is there already. Method: the program serves a folder of files, an image's file and users;
//! its own commands, and stock ones, read them, before and after a restart.

mod server_process;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use server_process::{Scratch, ServerProcess};

/// Runs a command of the program at the server in a directory.
fn loligo(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
    command.arg("-c").arg(dir.join("ceph.conf")).args(words);
    command.env_remove("CEPH_CONF").env_remove("CEPH_ARGS").stdin(Stdio::null());
    command.output().expect("it runs")
}

/// Like [`loligo`], for what must succeed; returns what it prints.
fn said(dir: &Path, words: &[&str]) -> Vec<u8> {
    let output = loligo(dir, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Starts a server in memory; the caller adds what it begins with.
fn serve(dir: &Path) -> Command {
    let mut serve = Command::new(env!("CARGO_BIN_EXE_loligo"));
    serve.args(["--no-config-file", "serve", "--store", "memory", "--mon-addr", "127.0.0.1:0", "--data"]);
    serve.arg(dir).env_remove("CEPH_CONF").env_remove("CEPH_ARGS").stdin(Stdio::null());
    for variable in ["LOLIGO_LOAD", "LOLIGO_USERS", "LOLIGO_KEY", "LOLIGO_POOLS"] {
        serve.env_remove(variable);
    }
    serve
}

/// The error of a server that must not start.
fn refused(serve: &mut Command) -> String {
    let output = serve.output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "it served: {serve:?}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

/// A server that goes with this.
struct Serving(std::process::Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes files, and returns the options of a server that begins with them.
fn files(scratch: &Path) -> Vec<String> {
    let load = scratch.join("load");
    fs::create_dir_all(load.join("p/deep")).expect("a folder");
    fs::create_dir_all(load.join("other")).expect("a folder");
    fs::write(load.join("p/small"), "hello").expect("a file");
    fs::write(load.join("p/empty"), "").expect("a file");
    fs::write(load.join("p/deep/er"), "below").expect("a file");
    // Two pieces and a bit; two whole pieces.
    for (name, mebibytes) in [("large", 9), ("even", 8)] {
        let content: Vec<u8> = (0..mebibytes << 20).map(|at: u32| (at / 4096) as u8).collect();
        fs::write(load.join("other").join(name), content).expect("a file");
    }
    let mut image = vec![0; 6 << 20];
    image[5 << 20..][..3].copy_from_slice(b"end");
    fs::write(scratch.join("image"), image).expect("a file");
    let of = |name: &str| scratch.join(name).display().to_string();
    vec![
        "--load".to_owned(),
        of("load"),
        "--image".to_owned(),
        format!("images/disk={}", of("image")),
        "--image".to_owned(),
        format!("second={}", of("image")),
        "--user".to_owned(),
        "client.app=mon 'allow r' osd 'allow r pool=p'".to_owned(),
    ]
}

fn lines(text: Vec<u8>) -> Vec<String> {
    let text = String::from_utf8(text).expect("text");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn check(dir: &Path, scratch: &Path, small: &[u8]) {
    // The images' own objects are in the first pool, too.
    let mut names = lines(said(dir, &["-p", "p", "ls"]));
    names.retain(|name| !name.starts_with("rbd"));
    assert_eq!(names, ["deep/er", "empty", "small"]);
    assert_eq!(said(dir, &["-p", "p", "get", "small", "-"]), small);
    assert_eq!(said(dir, &["-p", "p", "get", "empty", "-"]), b"");
    for name in ["large", "even"] {
        let content = fs::read(scratch.join("load/other").join(name)).expect("the file");
        assert!(said(dir, &["-p", "other", "get", name, "-"]) == content, "{name}");
        assert_eq!(said(dir, &["-p", "other", "listxattr", name]), b"", "{name}");
    }
    let image = fs::read(scratch.join("image")).expect("the file");
    for name in ["images/disk", "p/second"] {
        assert!(said(dir, &["rbd", "export", name, "-"]) == image, "{name}");
    }
    assert_eq!(lines(said(dir, &["rbd", "ls", "images"])), ["disk"]);
    assert_eq!(data_objects(dir), 1, "zeros are not written");
    check_user(dir, small);
}

/// The number of objects with the data of images/disk.
fn data_objects(dir: &Path) -> usize {
    lines(said(dir, &["-p", "images", "ls"])).iter().filter(|name| name.starts_with("rbd_data.")).count()
}

fn check_user(dir: &Path, small: &[u8]) {
    let keyring = fs::metadata(dir.join("keyring")).expect("a keyring");
    assert_eq!(keyring.permissions().mode() & 0o777, 0o600);
    assert_eq!(said(dir, &["-n", "client.app", "-p", "p", "get", "small", "-"]), small);
    let refused = loligo(dir, &["-n", "client.app", "-p", "p", "rm", "small"]);
    assert!(!refused.status.success(), "client.app may only read");
}

#[test]
fn a_server_begins_with_files_images_and_users() {
    let scratch = Scratch::new("contents");
    let options = files(&scratch.0);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let dir = scratch.0.join("data");
    let mut server = ServerProcess::start_telling(&dir, Stdio::inherit(), &options);
    check(&dir, &scratch.0, b"hello");
    let changed = scratch.0.join("changed");
    fs::write(&changed, "changed").expect("a file");
    said(&dir, &["-p", "p", "put", "small", &changed.display().to_string()]);
    server.kill();
    // The same options again change nothing that is there.
    let _server = ServerProcess::start_telling(&dir, Stdio::inherit(), &options);
    check(&dir, &scratch.0, b"changed");
}

/// A server may be killed while it loads.
#[test]
fn what_was_left_incomplete_is_loaded_again() {
    let scratch = Scratch::new("contents-again");
    let options = files(&scratch.0);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let dir = scratch.0.join("data");
    let mut server = ServerProcess::start(&dir);
    let part = scratch.0.join("part");
    fs::write(&part, vec![1; 4 << 20]).expect("a file");
    said(&dir, &["-p", "images", "--create", "ls"]);
    said(&dir, &["-p", "other", "--create", "put", "large", &part.display().to_string()]);
    said(&dir, &["-p", "other", "setxattr", "large", "loligo.loading", "1"]);
    said(&dir, &["rbd", "create", "images/.loligo.loading.disk", "--size", "1M"]);
    server.kill();
    let _server = ServerProcess::start_telling(&dir, Stdio::inherit(), &options);
    check(&dir, &scratch.0, b"hello");
}

/// Whoever waits for `ceph.conf`, as a container's health check does, finds all contents.
#[test]
fn clients_find_the_server_when_it_is_filled() {
    let scratch = Scratch::new("contents-found");
    let (dir, load) = (scratch.0.join("data"), scratch.0.join("load"));
    fs::create_dir_all(load.join("p")).expect("a folder");
    for number in 0..300 {
        fs::write(load.join("p").join(number.to_string()), vec![1; 64 << 10]).expect("a file");
    }
    // The second time there is a ceph.conf of the first.
    for _ in 0..2 {
        let mut command = serve(&dir);
        // Clients are told an address that is not this machine's.
        let command = command.arg("--load").arg(&load).args(["--announce", "192.0.2.1"]);
        let _server = Serving(command.stdout(Stdio::piped()).spawn().expect("it starts"));
        let conf = dir.join("ceph.conf");
        let before = fs::metadata(&conf).ok().map(|found| found.modified().expect("a time"));
        let is_new = || {
            let now = fs::metadata(&conf).ok().map(|found| found.modified().expect("a time"));
            now.is_some() && now != before
        };
        wait_for(is_new);
        let text = fs::read_to_string(&conf).expect("a file");
        assert!(text.contains("192.0.2.1"), "{text}");
        let reached = scratch.0.join("reached.conf");
        fs::write(&reached, text.replace("192.0.2.1", "127.0.0.1")).expect("a file");
        let mut ls = Command::new(env!("CARGO_BIN_EXE_loligo"));
        ls.arg("-c").arg(&reached).args(["df", "--format", "json"]).env_remove("CEPH_ARGS");
        let output = ls.output().expect("it runs");
        let df: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(df["pools"][0]["objects"], 300, "{df}");
    }
}

/// Waits for a condition, for minutes.
fn wait_for(mut condition: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it does not come");
}

/// A load that would last for hours ends with a signal. It reads a file in parts: the file is larger than
/// any memory.
#[test]
fn a_load_can_be_ended() {
    let scratch = Scratch::new("contents-ended");
    let (dir, file) = (scratch.0.join("data"), scratch.0.join("image"));
    fs::File::create(&file).and_then(|file| file.set_len(1 << 40)).expect("a file with holes");
    let mut command = serve(&dir);
    let image = format!("disk={}", file.display());
    let mut server = Serving(command.args(["--image", &image]).spawn().expect("it starts"));
    wait_for(|| dir.join("loligo.asok").exists());
    let told = Command::new("kill").args(["-TERM", &server.0.id().to_string()]).status().expect("kill runs");
    assert!(told.success());
    let status = server.0.wait().expect("it ends");
    assert!(status.success(), "{status}");
    assert!(!dir.join("ceph.conf").exists(), "no client was told of it");
}

#[test]
fn a_load_without_room_fails() {
    let scratch = Scratch::new("contents-full");
    let (dir, load) = (scratch.0.join("data"), scratch.0.join("load"));
    fs::create_dir_all(load.join("p")).expect("a folder");
    for number in 0..40 {
        fs::write(load.join("p").join(number.to_string()), vec![1; 1 << 20]).expect("a file");
    }
    let load = load.display().to_string();
    let error = refused(serve(&dir).args(["--capacity", "16M", "--load", &load]));
    assert!(error.contains(&load) && error.contains("ENOSPC"), "{error}");
}

fn keyring_of(dir: &Path) -> String {
    fs::read_to_string(dir.join("keyring")).expect("a keyring")
}

/// A key of `client.admin`.
const KEY: &str = "AQCvCbtToC6MDhAATtuT70Sl+DymPCfDSsyV4w==";

#[test]
fn variables_give_users_and_the_key() {
    let scratch = Scratch::new("contents-variables");
    files(&scratch.0);
    let dir = scratch.0.join("data");
    let users = "client.app=mon 'allow r' osd 'allow r pool=p'\n\nclient.two=mon \"allow r\"\n";
    let mut command = serve(&dir);
    command.env("LOLIGO_USERS", users).env("LOLIGO_LOAD", scratch.0.join("load")).env("LOLIGO_KEY", KEY);
    let server = Serving(command.stdout(Stdio::piped()).spawn().expect("it starts"));
    wait_for(|| dir.join("ceph.conf").exists());
    check_user(&dir, b"hello");
    let keyring = keyring_of(&dir);
    for name in ["[client.admin]", "[client.app]", "[client.two]", KEY] {
        assert!(keyring.contains(name), "{keyring}");
    }
    drop(server);
    let log = fs::read_to_string(dir.join("loligo.log")).expect("a log");
    assert!(!log.contains(KEY), "{log}");
    // Another key is the key from then on; without one it stays.
    let other = "AQAQAAAAAAAAABAAEREREREREREREREREREREQ==";
    for key in [other, ""] {
        fs::remove_file(dir.join("ceph.conf")).expect("it is there");
        let mut command = serve(&dir);
        let _server = Serving(command.env("LOLIGO_KEY", key).spawn().expect("it starts"));
        wait_for(|| dir.join("ceph.conf").exists());
        assert!(keyring_of(&dir).contains(other), "{}", keyring_of(&dir));
        assert_eq!(lines(said(&dir, &["lspools"])), ["other", "p"]);
    }
}

#[test]
fn what_cannot_be_used_is_named() {
    let scratch = Scratch::new("contents-wrong");
    let (dir, load) = (scratch.0.join("data"), scratch.0.join("load"));
    let folder = |name: &str| {
        let folder: PathBuf = load.join(name);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    };
    fs::write(folder("stray").join("file"), "").expect("a file");
    let large = folder("large/p").join("object");
    fs::File::create(&large).and_then(|file| file.set_len((128 << 20) + 1)).expect("a file with holes");
    let fifo = folder("fifo/p").join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    folder("empty");
    let of = |name: &str| load.join(name).display().to_string();
    for (option, value, named) in [
        ("--load", of("stray"), "stray/file: it lies in no pool's folder"),
        ("--load", of("large"), "p/object: 134217729 bytes, an object has at most 134217728"),
        ("--load", of("fifo"), "p/fifo: neither a file nor a folder"),
        ("--load", of("empty"), "empty: there are no folders in it"),
        ("--load", of("none"), "none: No such file"),
        ("--image", format!("a={}", of("none")), "none: No such file"),
        ("--image", format!("a={}", of("large")), "large: not a file"),
        ("--image", "a".to_owned(), "the form is [POOL/]NAME=FILE"),
        ("--user", "client.a=mon".to_owned(), "client.a: the form is"),
        ("--user", "client.a=mon 'allow r'\nb=mon 'allow r'".to_owned(), "line 2: 'b' is no name"),
        (
            "--user",
            "client.admin=mon 'allow r'".to_owned(),
            "cap mon does not match; 'ceph auth caps' changes",
        ),
    ] {
        let error = refused(serve(&dir).args([option, value.as_str()]));
        assert!(error.contains(named), "{option} {value}: {error}");
    }
    for (key, named) in [
        ("nonsense!", "not valid base64"),
        ("AQCvCbtToC6MDhAATtuT70Sl", "damaged"),
        (&KEY[..20], "'ceph-authtool --gen-print-key'"),
    ] {
        let error = refused(serve(&dir).env("LOLIGO_KEY", key));
        assert!(error.contains("LOLIGO_KEY") && error.contains(named), "{error}");
        assert!(!error.contains(key), "the key is not shown: {error}");
    }
}

/// Stock programs read what a server began with.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn stock_programs_read_what_a_server_began_with() {
    let scratch = Scratch::new("contents-stock");
    let options = files(&scratch.0);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let dir = scratch.0.join("data");
    let _server = ServerProcess::start_telling(&dir, Stdio::inherit(), &options);
    let run = |words: &[&str]| {
        let mut command = Command::new("timeout");
        command.arg("60").args(words).env("CEPH_CONF", dir.join("ceph.conf")).env_remove("CEPH_ARGS");
        let output = command.output().expect("it runs");
        (output.status.success(), output.stdout)
    };
    let ok = |words: &[&str]| {
        let (is_done, output) = run(words);
        assert!(is_done, "{words:?}");
        output
    };
    for name in ["large", "even"] {
        let content = fs::read(scratch.0.join("load/other").join(name)).expect("the file");
        assert!(ok(&["rados", "-p", "other", "get", name, "-"]) == content, "{name}");
    }
    assert_eq!(lines(ok(&["rados", "-p", "other", "ls"])), ["even", "large"]);
    assert_eq!(ok(&["rados", "-p", "p", "get", "deep/er", "-"]), b"below");
    let image = fs::read(scratch.0.join("image")).expect("the file");
    assert!(ok(&["rbd", "export", "--no-progress", "images/disk", "-"]) == image);
    let info = String::from_utf8(ok(&["rbd", "info", "p/second"])).expect("text");
    assert!(info.contains("size 6 MiB in 2 objects") && info.contains("exclusive-lock"), "{info}");
    let caps = String::from_utf8(ok(&["ceph", "auth", "get", "client.app"])).expect("text");
    assert!(
        caps.contains("caps mon = \"allow r\"") && caps.contains("caps osd = \"allow r pool=p\""),
        "{caps}"
    );
    assert_eq!(ok(&["rados", "--id", "app", "-p", "p", "get", "small", "-"]), b"hello");
    let (is_done, _) = run(&["rados", "--id", "app", "-p", "p", "rm", "small"]);
    assert!(!is_done, "client.app may only read");
}
