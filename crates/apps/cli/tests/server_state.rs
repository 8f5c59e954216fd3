//! The state of a server as a whole.
//!
//! Goal: `loligo server reset`, `dump` and `restore` and `serve --snapshot` bring a state back, with all that
//! belongs to it, and refuse what they cannot do. Method: the program serves in memory; its own commands, and
//! stock ones, change the state and read it.

mod server_process;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use server_process::{Scratch, ServerProcess};

/// A process that goes with this.
struct Going(Child);

impl Drop for Going {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server in memory.
struct Server {
    _process: ServerProcess,
    dir: PathBuf,
}

/// The program, without the environment's own servers.
fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_loligo"));
    for variable in ["CEPH_CONF", "CEPH_ARGS", "LOLIGO_SNAPSHOT", "LOLIGO_LOAD", "LOLIGO_USERS", "LOLIGO_KEY"]
    {
        program.env_remove(variable);
    }
    program.stdin(Stdio::null());
    program
}

fn serve(dir: &Path, options: &[&str]) -> Command {
    let mut serve = program();
    serve.args(["--no-config-file", "serve", "--store", "memory", "--mon-addr", "127.0.0.1:0", "--data"]);
    serve.arg(dir).args(options);
    serve
}

impl Server {
    fn start(dir: PathBuf, options: &[&str]) -> Self {
        Self::started(serve(&dir, options), dir)
    }

    fn started(mut serve: Command, dir: PathBuf) -> Self {
        Self { _process: ServerProcess::ready(&mut serve, &dir), dir }
    }

    fn output(&self, words: &[&str]) -> Output {
        program().arg("-c").arg(self.dir.join("ceph.conf")).args(words).output().expect("it runs")
    }

    /// Runs a command that must succeed; returns what it prints.
    #[track_caller]
    fn said(&self, words: &[&str]) -> String {
        let output = self.output(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a command that must fail; returns its error.
    #[track_caller]
    fn refused(&self, words: &[&str]) -> String {
        one_error(&self.output(words))
    }

    fn put(&self, name: &str, text: &str) {
        let file = self.dir.with_extension("put");
        fs::write(&file, text).expect("a file");
        self.said(&["-p", "p", "put", name, &file.display().to_string()]);
    }

    fn get(&self, name: &str) -> String {
        self.said(&["-p", "p", "get", name, "-"])
    }

    /// The objects that are not an image's.
    fn objects(&self) -> Vec<String> {
        let all = self.said(&["-p", "p", "ls"]);
        let mut names: Vec<_> =
            all.lines().filter(|name| !name.starts_with("rbd")).map(str::to_owned).collect();
        names.sort();
        names
    }
}

#[track_caller]
fn one_error(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.lines().count() == 1, "{output:?}");
    error
}

/// What a server of the tests begins with.
fn contents(scratch: &Path) -> Vec<String> {
    let load = scratch.join("load");
    fs::create_dir_all(load.join("p")).expect("a folder");
    fs::write(load.join("p/kept"), "first").expect("a file");
    let mut image = vec![0; 6 << 20];
    image[5 << 20..][..3].copy_from_slice(b"end");
    fs::write(scratch.join("image"), image).expect("a file");
    let image = format!("p/disk={}", scratch.join("image").display());
    let user = "client.app=mon 'allow r' osd 'allow rw pool=p'";
    ["--load", &load.display().to_string(), "--image", &image, "--user", user].map(str::to_owned).to_vec()
}

/// Changes everything that there is.
fn disturb(server: &Server) {
    server.put("kept", "changed");
    server.put("new", "new");
    server.said(&["-p", "p", "setomapval", "new", "key", "value"]);
    server.said(&[
        "-p",
        "other",
        "--create",
        "put",
        "o",
        &server.dir.join("ceph.conf").display().to_string(),
    ]);
    server.said(&["rbd", "snap", "create", "p/disk@s"]);
    server.said(&["rbd", "create", "p/second", "--size", "1M"]);
    server.said(&["rbd", "resize", "p/disk", "--size", "16M"]);
}

#[track_caller]
fn is_as_at_first(server: &Server, scratch: &Path) {
    assert_eq!((server.objects(), server.get("kept")), (vec!["kept".to_owned()], "first".to_owned()));
    assert_eq!(server.said(&["lspools"]), "p\n");
    assert_eq!(server.said(&["rbd", "ls", "p"]), "disk\n");
    assert_eq!(server.said(&["rbd", "snap", "ls", "p/disk"]), "");
    let exported = scratch.join("exported");
    let _ = fs::remove_file(&exported);
    server.said(&["rbd", "export", "p/disk", &exported.display().to_string()]);
    let same = fs::read(exported).expect("a file") == fs::read(scratch.join("image")).expect("a file");
    assert!(same, "the image differs");
    assert_eq!(server.said(&["-n", "client.app", "-p", "p", "get", "kept", "-"]), "first");
}

#[test]
fn a_reset_returns_to_the_first_contents() {
    let scratch = Scratch::new("state-reset");
    let options = contents(&scratch.0);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let server = Server::start(scratch.0.join("data"), &options);
    for _ in 0..2 {
        disturb(&server);
        server.said(&["server", "reset"]);
        is_as_at_first(&server, &scratch.0);
    }
    // The server works on, and the socket may be named.
    let socket = server.dir.join("loligo.asok").display().to_string();
    server.put("new", "new");
    let reset = program().args(["server", "reset", "--asok", &socket]).output().expect("it runs");
    assert!(reset.status.success() && reset.stdout.is_empty() && reset.stderr.is_empty(), "{reset:?}");
    assert_eq!(server.objects(), ["kept"]);
}

#[test]
fn a_file_has_the_whole_state() {
    let scratch = Scratch::new("state-file");
    let options = contents(&scratch.0);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let server = Server::start(scratch.0.join("data"), &options);
    let file = scratch.0.join("state");
    let name = file.display().to_string();
    server.said(&["server", "dump", &name]);
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    disturb(&server);
    server.said(&["server", "restore", &name]);
    is_as_at_first(&server, &scratch.0);
    let key = fs::read_to_string(server.dir.join("keyring")).expect("a keyring");
    drop(server);

    // Another server, whose clients have the same keys. It is started twice in its directory.
    for _ in 0..2 {
        let mut serve = serve(&scratch.0.join("other"), &options[4..]);
        serve.env("LOLIGO_SNAPSHOT", &file);
        let other = Server::started(serve, scratch.0.join("other"));
        is_as_at_first(&other, &scratch.0);
        assert_eq!(fs::read_to_string(other.dir.join("keyring")).expect("a keyring"), key);
        disturb(&other);
        other.said(&["server", "reset"]);
        is_as_at_first(&other, &scratch.0);
    }
    let others = scratch.0.join("others");
    let several = Server::start(others, &["--osds", "3"]);
    let error = several.refused(&["server", "restore", &name]);
    assert!(error.contains("a cluster of 1 OSDs") && error.contains("--osds 1"), "{error}");
}

#[test]
fn what_cannot_be_done_is_refused() {
    let scratch = Scratch::new("state-refused");
    let server = Server::start(scratch.0.join("data"), &["--pools", "p"]);
    server.put("o", "o");
    let file = scratch.0.join("state");
    let name = file.display().to_string();
    server.said(&["server", "dump", &name]);
    // A damaged file changes nothing.
    let mut content = fs::read(&file).expect("a file");
    let last = content.len() - 20;
    content[last] ^= 1;
    let bad = scratch.0.join("bad");
    fs::write(&bad, &content).expect("a file");
    let bad = bad.display().to_string();
    for wrong in [&*bad, &server.dir.join("ceph.conf").display().to_string(), "/nonexistent"] {
        let error = server.refused(&["server", "restore", wrong]);
        assert!(error.contains(wrong), "{error}");
    }
    assert_eq!(server.get("o"), "o");
    let nowhere = scratch.0.join("none/state").display().to_string();
    let error = server.refused(&["server", "dump", &nowhere]);
    assert!(error.contains("none/state") && error.contains("No such file"), "{error}");
    let refused = serve(&scratch.0.join("new"), &["--snapshot", &bad]).output().expect("it runs");
    let error = one_error(&refused);
    assert!(error.contains("snapshot") && error.contains("checksum"), "{error}");
    // On disk.
    let disk = scratch.0.join("disk");
    let mut on_disk = ServerProcess::start(&disk);
    let error = program().arg("-c").arg(disk.join("ceph.conf")).args(["server", "reset"]).output();
    let error = one_error(&error.expect("it runs"));
    assert!(error.contains("on disk") && error.contains("--store memory"), "{error}");
    on_disk.kill();
    let mut again = serve(&disk, &["--snapshot", &name]);
    let error = one_error(&again.output().expect("it runs"));
    assert!(error.contains("has a server's state already"), "{error}");
    // No server at all.
    let error =
        one_error(&program().args(["--no-config-file", "server", "reset"]).output().expect("it runs"));
    assert!(error.contains("--asok"), "{error}");
}

/// Stock programs are clients as ours are; one of them stays connected.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn stock_programs_find_the_first_contents() {
    let scratch = Scratch::new("state-stock");
    let options = contents(&scratch.0);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let server = Server::start(scratch.0.join("data"), &options);
    let stock = |name: &str, words: &[&str]| {
        let mut stock = Command::new(name);
        stock.arg("-c").arg(server.dir.join("ceph.conf")).args(words).env_remove("CEPH_ARGS");
        let output = stock.output().expect("it runs");
        assert!(output.status.success(), "{name} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let epoch = || {
        let dump: serde_json::Value =
            serde_json::from_str(&stock("ceph", &["osd", "dump", "-f", "json"])).expect("JSON");
        dump["epoch"].as_u64().expect("a number")
    };
    for _ in 0..2 {
        // Writes all the time, over the resets.
        let bench = ["-p", "p", "bench", "2", "write", "-b", "4096", "-t", "4", "--no-cleanup"];
        let mut writer = Command::new("rados");
        writer.arg("-c").arg(server.dir.join("ceph.conf")).args(bench).env_remove("CEPH_ARGS");
        let mut writer = Going(writer.stdout(Stdio::null()).spawn().expect("it runs"));
        let before = epoch();
        stock("ceph", &["osd", "pool", "create", "stock"]);
        stock("rbd", &["create", "p/stock", "--size", "8M"]);
        stock("rbd", &["snap", "create", "p/stock@s"]);
        stock("ceph", &["config", "set", "osd", "debug_osd", "3"]);
        server.said(&["server", "reset"]);
        assert!(epoch() > before);
        assert_eq!(stock("rbd", &["ls", "p"]), "disk\n");
        assert_eq!(stock("rados", &["lspools"]), "p\n");
        assert!(!stock("ceph", &["config", "dump"]).contains("debug_osd"));
        let ended = writer.0.wait().expect("it ends");
        assert!(ended.success(), "{ended:?}");
        server.said(&["server", "reset"]);
        assert_eq!(stock("rados", &["-p", "p", "get", "kept", "-"]), "first");
        stock("rbd", &["bench", "--io-type", "write", "--io-size", "64K", "--io-total", "1M", "p/disk"]);
        server.said(&["server", "reset"]);
        is_as_at_first(&server, &scratch.0);
    }
}
