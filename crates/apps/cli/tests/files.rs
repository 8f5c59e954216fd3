//! Goal: `loligo file` and the stock `rados --striper` read each other's files. Method: `loligo file`
//! runs on a server of its own, alone and beside the stock program.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::{env, fs};

use loligo_server::{Handle, Server};

/// A server with a pool, and a directory for files.
struct Place {
    server: Handle,
    dir: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let dir = env::temp_dir().join(format!("loligo-files-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("room");
        Self { server: Server::memory().pool("p").start().expect("the server starts"), dir }
    }

    fn run(&self, program: &str, args: &[&str], input: &[u8]) -> Output {
        let mut child = Command::new(program)
            .env("CEPH_CONF", self.server.conf())
            .env_remove("CEPH_ARGS")
            .current_dir(&self.dir)
            .args(["-p", "p"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it is installed");
        let mut stdin = child.stdin.take().expect("piped");
        let input = input.to_vec();
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("the writer ends");
        output
    }

    fn ours(&self, args: &[&str], input: &[u8]) -> Output {
        self.run(env!("CARGO_BIN_EXE_loligo"), args, input)
    }

    /// Runs `loligo file`, which must succeed, and returns its output.
    fn file(&self, args: &[&str]) -> Vec<u8> {
        self.piped(args, b"")
    }

    fn piped(&self, args: &[&str], input: &[u8]) -> Vec<u8> {
        let output = self.ours(&[&["file"], args].concat(), input);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn text(&self, args: &[&str]) -> String {
        String::from_utf8(self.file(args)).expect("text")
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        let shown = self.file(&[&["--format", "json"], args].concat());
        serde_json::from_slice(&shown).unwrap_or_else(|e| panic!("{args:?}: {e}: {shown:?}"))
    }

    /// Runs `loligo file`, which must fail, and returns its error line.
    fn fails(&self, args: &[&str]) -> String {
        let output = self.ours(&[&["file"], args].concat(), b"");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn make(&self, name: &str, data: &[u8]) {
        let path = self.dir.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("room");
        fs::write(path, data).expect("room");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.dir.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 % 251) as u8 ^ (at >> 15) as u8).collect()
}

const WIDE: [&str; 6] = ["--stripe-unit", "64K", "--stripe-count", "3", "--object-size", "128K"];

#[test]
fn a_file_goes_there_and_back() {
    let place = Place::new("there");
    let data = pattern((9 << 20) + 13);
    place.make("f", &data);
    for layout in [&[][..], &WIDE] {
        place.file(&[&["put", "s", "f", "--verify"], layout].concat());
        place.file(&["get", "s", "back", "--verify"]);
        assert!(place.read("back") == data);
        assert!(place.file(&["cat", "s"]) == data && place.file(&["get", "s", "-", "--verify"]) == data);
        assert!(
            place.file(&["cat", "s", "s", "--offset", "1M", "--length", "70K"])
                == [&data[1 << 20..][..70 << 10]; 2].concat()
        );
    }
    // The layout stays if none is given; a shorter file leaves nothing of the longer one.
    assert_eq!(place.text(&["layout", "s"]), "stripe_unit=65536 stripe_count=3 object_size=131072\n");
    place.make("short", b"short");
    place.file(&["put", "s", "short"]);
    assert_eq!(place.file(&["cat", "s"]), b"short");
    assert_eq!(place.text(&["layout", "s"]), "stripe_unit=65536 stripe_count=3 object_size=131072\n");
    let mut all = b"short".to_vec();
    place.file(&["append", "s", "f"]);
    all.extend_from_slice(&data);
    assert!(place.file(&["cat", "s"]) == all);
    place.file(&["truncate", "s", "1M"]);
    assert!(place.file(&["cat", "s"]) == all[..1 << 20]);
    let shown = place.json(&["stat", "s"]);
    assert_eq!((shown["size"].as_u64(), shown["layout"]["stripe_count"].as_u64()), (Some(1 << 20), Some(3)));
    assert!(place.text(&["stat", "s"]).ends_with(&format!("size {}\n", 1 << 20)));
    let map = place.json(&["layout", "s", "--offset", "100K", "--length", "64K"]);
    assert_eq!(map[0]["object"], "s.0000000000000001");
    assert_eq!(
        (map[0]["object_offset"].as_u64(), map[0]["length"].as_u64()),
        (Some(36 << 10), Some(28 << 10))
    );
    assert_eq!((map[1]["object"].as_str(), map[2].is_null()), (Some("s.0000000000000002"), true));
    place.file(&["rm", "s"]);
    assert_eq!(String::from_utf8_lossy(&place.ours(&["ls"], b"").stdout), "", "no object is left");
    assert!(place.fails(&["get", "s", "back"]).starts_with("loligo: get p/s: "));
    assert!(place.fails(&["rm", "s"]).contains("No such file"));
    assert!(place.fails(&["put", "s", "f", "--stripe-unit", "1000"]).contains("64 KiB"));
}

#[test]
fn pipes_are_read_and_written() {
    let place = Place::new("pipes");
    let data = pattern((17 << 20) + 1);
    place.piped(&["put", "s", "-", "--verify"], &data);
    assert!(place.file(&["cat", "s"]) == data);
    place.piped(&["put", "empty", "-"], b"");
    assert!(place.file(&["cat", "empty"]).is_empty());
    place.piped(&["append", "empty", "-"], b"no more");
    assert_eq!(place.file(&["get", "empty", "-"]), b"no more");
    // A file whose length is unknown until it is read.
    place.file(&["put", "version", "/proc/version", "--verify"]);
    assert_eq!(place.file(&["cat", "version"]), fs::read("/proc/version").expect("Linux"));
}

/// Direct I/O transfers the same bytes, of any length and with holes, and reports files that it cannot
/// be used on.
#[test]
fn direct_io_carries_the_same_bytes() {
    let place = Place::new("direct");
    for len in [0, 1, 4096, (9 << 20) + 13] {
        let data = pattern(len);
        place.make("f", &data);
        place.file(&[&["put", "s", "f", "--direct", "--verify"][..], &WIDE].concat());
        assert!(place.file(&["cat", "s"]) == data);
        place.file(&["get", "s", "back", "--direct", "--verify"]);
        assert!(place.read("back") == data, "{len}");
    }
    // Resumed in the middle of a block.
    place.make("back", &pattern(5_000_003));
    let shown = place.json(&["get", "s", "back", "--direct", "--resume"]);
    assert_eq!(shown["bytes"].as_u64(), Some((9 << 20) + 13 - 5_000_003));
    assert!(place.read("back") == pattern((9 << 20) + 13));
    // A hole between data, and one at the end.
    place.file(&["truncate", "s", "30000001"]);
    place.piped(&["append", "s", "-"], &pattern(100_000));
    place.file(&["truncate", "s", "60M"]);
    place.file(&["get", "s", "cached"]);
    place.file(&["get", "s", "back", "--direct", "--verify"]);
    assert!(place.read("back") == place.read("cached"));
    let blocks = fs::metadata(place.dir.join("back")).expect("there").blocks();
    assert!(blocks < 25_000, "{blocks} blocks of 512 bytes");
    place.make("d/a", &pattern(70_000));
    place.file(&["put", "-r", "d", "d", "--direct"]);
    place.file(&["get", "-r", "d", "out", "--direct", "--verify"]);
    assert!(place.read("out/a") == pattern(70_000));

    assert!(place.fails(&["put", "s", "/proc/version", "--direct"]).contains("O_DIRECT"));
    assert!(place.fails(&["put", "s", "-", "--direct"]).contains("standard input"));
    assert!(place.fails(&["put", "s", "none"]).contains("open none"));
    assert_eq!(place.json(&["stat", "s"])["size"], 60 << 20, "what cannot be read replaces nothing");
    assert!(place.fails(&["get", "s", "-", "--direct"]).contains("standard output"));
    assert!(place.fails(&["get", "s", "/dev/null", "--direct"]).contains("neither a file nor"));
}

#[test]
fn holes_stay_holes() {
    let place = Place::new("holes");
    place.piped(&["put", "s", "-"], &pattern(100_000));
    place.file(&["truncate", "s", "100M"]);
    let mut expected = pattern(100_000);
    expected.resize(100 << 20, 0);
    place.file(&["cp", "s", "copy", "--stripe-count", "4"]);
    assert_eq!(place.json(&["stat", "copy"])["layout"]["stripe_count"].as_u64(), Some(4));
    place.file(&["cp", "s", "exact", "--sparse"]);
    for (name, how) in [("s", "--verify"), ("copy", "--sparse"), ("exact", "--verify")] {
        place.file(&["get", name, "f", how]);
        assert!(place.read("f") == expected, "{name}");
        let blocks = fs::metadata(place.dir.join("f")).expect("there").blocks();
        assert!(blocks < 10_000, "{name}: {blocks} blocks of 512 bytes");
    }
    // With `--sparse`, a hole within an object is found.
    place.file(&["truncate", "s", "3M"]);
    place.piped(&["append", "s", "-"], &pattern(100_000));
    place.file(&["get", "s", "f", "--sparse", "--verify"]);
    let blocks = fs::metadata(place.dir.join("f")).expect("there").blocks();
    assert!(place.read("f").len() == (3 << 20) + 100_000 && blocks < 2_000, "{blocks} blocks of 512 bytes");
    let objects = String::from_utf8(place.ours(&["ls"], b"").stdout).expect("text");
    assert_eq!(objects.lines().filter(|object| object.starts_with("copy.")).count(), 1, "{objects}");
    assert!(place.fails(&["cp", "s", "s"]).contains("itself"));
}

#[test]
fn directories_go_there_and_back() {
    let place = Place::new("dirs");
    let files = [("d/a", 10), ("d/b/c", 5 << 20), ("d/b/e/f", 0), ("d/g h", 70_000)];
    for (name, len) in files {
        place.make(name, &pattern(len));
    }
    let shown = place.json(&["put", "-r", "in", "d", "--verify", "--parallel", "3"]);
    assert_eq!((shown["files"].as_u64(), shown["bytes"].as_u64()), (Some(4), Some((5 << 20) + 70_010)));
    place.file(&["put", "apart", "d/a"]);
    let mut listed: Vec<String> = place.text(&["ls", "in/"]).lines().map(str::to_owned).collect();
    listed.sort_unstable();
    assert_eq!(listed, ["in/a", "in/b/c", "in/b/e/f", "in/g h"]);
    let long = place.text(&["ls", "--long", "in/b/c"]);
    assert!(
        long.trim_start().starts_with(&(5 << 20).to_string()) && long.contains("4194304/1/4194304"),
        "{long}"
    );
    assert_eq!(place.json(&["ls", "-l"]).as_array().map(Vec::len), Some(5));
    place.file(&["get", "-r", "in", "out", "--verify"]);
    for (name, len) in files {
        assert!(place.read(&name.replacen('d', "out", 1)) == pattern(len), "{name}");
    }
    assert!(!place.dir.join("out/apart").exists());
    assert!(place.fails(&["put", "in", "d"]).contains("--recursive"));
    assert!(place.fails(&["get", "-r", "none", "out"]).contains("no striped file"));
    // A file that cannot be written does not stop the others.
    fs::create_dir_all(place.dir.join("half/a")).expect("room");
    let said = place.fails(&["get", "-r", "in", "half"]);
    assert!(said.contains("1 of 4 files failed"), "{said}");
    assert!(place.read("half/b/c") == pattern(5 << 20));
}

/// Data noted as written is not written again; all other data is.
#[test]
fn an_interrupted_put_is_resumed() {
    let place = Place::new("resume-put");
    let data = pattern(6 << 20);
    place.make("f", &data);
    let put = ["put", "s", "f", "--resume"];
    place.file(&[&put[..], &WIDE].concat());
    let head = "s.0000000000000000";
    let note = place.ours(&["getxattr", head, "loligo.put"], b"").stdout;
    let mut note: serde_json::Value = serde_json::from_slice(&note).expect("a note");
    assert_eq!(note["written"].as_u64(), Some(6 << 20));
    // As if the put had been interrupted there; data on both sides of the offset is corrupted.
    note["written"] = (1 << 20).into();
    place.ours(&["setxattr", head, "loligo.put", &note.to_string()], b"");
    let spoil = |at: &str| {
        let map = place.json(&["layout", "s", "--offset", at]);
        let (object, offset) =
            (map[0]["object"].as_str().expect("a name"), map[0]["object_offset"].to_string());
        assert!(place.ours(&["put", object, "-", "--offset", &offset], b"spoilt").status.success());
    };
    spoil("1000000");
    spoil("2000000");
    let shown = place.json(&put);
    assert_eq!(shown["bytes"].as_u64(), Some(5 << 20));
    let mut expected = data.clone();
    expected[1_000_000..1_000_006].copy_from_slice(b"spoilt");
    assert!(place.file(&["cat", "s"]) == expected);
    let said = place.fails(&["put", "s", "f", "--resume", "--verify"]);
    assert!(said.contains("checksums differ"), "{said}");
    // The local file differs from the noted one, so all of it is written.
    place.make("f", &data[..5 << 20]);
    place.file(&["put", "s", "f", "--resume", "--verify"]);
    assert!(place.file(&["cat", "s"]) == data[..5 << 20]);
    // Without `--resume` there is no note afterwards.
    place.file(&["put", "s", "f"]);
    assert!(!place.ours(&["getxattr", head, "loligo.put"], b"").status.success());
}

/// A get resumes only if the local file is the beginning of the striped one.
#[test]
fn an_interrupted_get_is_resumed() {
    let place = Place::new("resume-get");
    let data = pattern(6 << 20);
    place.make("f", &data);
    place.file(&[&["put", "s", "f"][..], &WIDE].concat());
    let mut other = data.clone();
    other[70_000] ^= 1;
    for (there, left) in [
        (&data[..2_000_003], (6 << 20) - 2_000_003),
        (&other[..2_000_003], 6 << 20),
        (&data, 0),
        (&[0; 7 << 20], 6 << 20),
    ] {
        place.make("back", there);
        let shown = place.json(&["get", "s", "back", "--resume"]);
        assert_eq!(shown["bytes"].as_u64(), Some(left));
        assert!(place.read("back") == data);
    }
}

/// A put that is interrupted from the keyboard leaves no lock behind.
#[test]
fn an_interrupt_leaves_no_lock() {
    let place = Place::new("interrupt");
    let mut child = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .env("CEPH_CONF", place.server.conf())
        .env_remove("CEPH_ARGS")
        .args(["-p", "p", "file", "put", "s", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(&pattern(9 << 20)).expect("it reads");
    let locked = || {
        let shown =
            place.ours(&["lock", "info", "s.0000000000000000", "striper.lock", "--format", "json"], b"");
        String::from_utf8_lossy(&shown.stdout).contains("client.")
    };
    while !locked() {
        assert!(child.try_wait().expect("a child").is_none(), "it waits for more");
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "loligo: file: interrupted\n");
    assert!(!locked());
    place.file(&["rm", "s"]);
}

#[test]
fn files_have_attributes() {
    let place = Place::new("xattrs");
    assert!(place.fails(&["setxattr", "s", "colour", "red"]).contains("No such file"));
    place.piped(&["put", "s", "-"], b"content");
    place.file(&["setxattr", "s", "colour", "red"]);
    place.piped(&["setxattr", "s", "bytes", "-"], b"");
    place.piped(&["setxattr", "s", "piped"], b"\xff\0");
    assert_eq!(place.text(&["listxattr", "s"]), "bytes\ncolour\npiped\n");
    assert_eq!(place.json(&["listxattr", "s"]), serde_json::json!(["bytes", "colour", "piped"]));
    assert_eq!(place.file(&["getxattr", "s", "piped"]), b"\xff\0");
    assert_eq!(place.file(&["getxattr", "s", "bytes"]), b"-");
    place.file(&["rmxattr", "s", "piped"]);
    let said = place.fails(&["getxattr", "s", "piped"]);
    assert!(said.starts_with("loligo: getxattr p/s piped: "), "{said}");
    assert!(place.fails(&["setxattr", "s", "striper.size", "0"]).contains("the file's own"));
    assert_eq!(place.file(&["cat", "s"]), b"content");
    // A copy has the source's attributes and none of the replaced file's, and the note of an interrupted
    // put is hidden.
    place.piped(&["put", "copy", "-"], b"old");
    place.file(&["setxattr", "copy", "old", "x"]);
    place.ours(&["setxattr", "s.0000000000000000", "loligo.put", "{}"], b"");
    place.file(&["cp", "s", "copy"]);
    assert_eq!(place.text(&["listxattr", "copy"]), "bytes\ncolour\n");
    assert_eq!(place.file(&["getxattr", "copy", "colour"]), b"red");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn files_are_exchanged_with_rados() {
    let place = Place::new("exchange");
    let data = pattern((9 << 20) + 5);
    place.make("f", &data);
    let rados = |args: &[&str]| {
        let output = place.run("rados", &[&["--striper"], args].concat(), b"");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    place.file(&[&["put", "ours", "f"][..], &WIDE].concat());
    rados(&["put", "stock", "f"]);
    rados(&["get", "ours", "back"]);
    assert!(place.read("back") == data);
    place.file(&["get", "stock", "back2", "--verify"]);
    assert!(place.read("back2") == data);
    let seconds = |shown: String| shown.split('.').next().map(str::to_owned);
    for name in ["ours", "stock"] {
        // The stock program's `stat` prints times without fractions.
        assert_eq!(seconds(place.text(&["stat", name])), seconds(rados(&["stat", name])));
    }
    let sorted = |shown: String| {
        let mut lines: Vec<String> = shown.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(place.text(&["ls"])), sorted(rados(&["ls"])));
    for name in ["ours", "stock"] {
        rados(&["setxattr", name, "colour", "red"]);
        place.file(&["setxattr", name, "shape", "round"]);
        assert_eq!(place.text(&["listxattr", name]), rados(&["listxattr", name]));
        for attribute in ["colour", "shape"] {
            let shown = place.text(&["getxattr", name, attribute]);
            assert_eq!(shown.trim_end(), rados(&["getxattr", name, attribute]).trim_end());
        }
        place.file(&["rmxattr", name, "colour"]);
        rados(&["rmxattr", name, "shape"]);
        assert_eq!(place.text(&["listxattr", name]) + &rados(&["listxattr", name]), "");
    }
    rados(&["truncate", "ours", "100000"]);
    assert!(place.file(&["cat", "ours"]) == data[..100_000]);
    place.file(&["rm", "ours", "stock"]);
    assert_eq!(rados(&["ls"]), "");
}
