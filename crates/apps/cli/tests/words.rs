//! Goal: commands on objects have the effects and the output for people of the stock `rados`. Method:
//! both programs run side by side. LOLIGO_STOCK_CONF names a stock cluster's ceph.conf; its pool `p` is
//! used, and one is created for snapshots.

use std::io::Write as _;
use std::process::{Command, Stdio};

fn conf() -> String {
    std::env::var("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf")
}

/// Runs a program. Returns whether it succeeded, and its output.
fn run(program: &str, args: &[&str], input: &[u8]) -> (bool, Vec<u8>) {
    let mut child = Command::new(program)
        .env("CEPH_CONF", conf())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it is installed");
    child.stdin.take().expect("piped").write_all(input).expect("it reads, or little is written");
    let output = child.wait_with_output().expect("it ends");
    (output.status.success(), output.stdout)
}

fn loligo(args: &[&str]) -> (bool, Vec<u8>) {
    run(env!("CARGO_BIN_EXE_loligo"), args, b"")
}

fn does(args: &[&str]) {
    assert!(loligo(args).0, "{args:?}");
}

/// Both programs must print the same, and both succeed or both fail.
fn same(args: &[&str]) {
    let (ours, stock) = (loligo(args), run("rados", args, b""));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!((ours.0, text(&ours.1)), (stock.0, text(&stock.1)), "{args:?}");
}

/// Compares the outputs as JSON values.
fn same_json(args: &[&str]) {
    let read = |(good, shown): (bool, Vec<u8>)| {
        (good, serde_json::from_slice::<serde_json::Value>(&shown).expect("JSON"))
    };
    assert_eq!(read(loligo(args)), read(run("rados", args, b"")), "{args:?}");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn maps_are_shown_as_rados_shows_them() {
    let p = ["-p", "p"];
    let with = |args: &[&'static str]| [&p[..], args].concat();
    does(&with(&["setomapval", "wo", "k1", "a value of more than sixteen bytes"]));
    assert!(run(env!("CARGO_BIN_EXE_loligo"), &with(&["setomapval", "wo", "zeros"]), &[0; 3000]).0);
    does(&with(&["setomapheader", "wo", "header"]));
    same(&with(&["listomapkeys", "wo"]));
    same(&with(&["listomapvals", "wo"]));
    same(&with(&["getomapval", "wo", "k1"]));
    same(&with(&["getomapheader", "wo"]));
    does(&with(&["cp", "wo", "wo2"]));
    same(&with(&["listomapvals", "wo2"]));
    does(&with(&["rmomapkey", "wo", "zeros"]));
    same(&with(&["listomapkeys", "wo"]));
    does(&with(&["clearomap", "wo"]));
    same(&with(&["listomapvals", "wo"]));
    same(&with(&["listomapkeys", "none"]));
    assert!(!loligo(&with(&["getomapval", "wo", "k1"])).0);
    // The stock program's `stat` prints times without fractions.
    let (_, stat) = loligo(&with(&["stat", "wo2"]));
    let (_, stock) = run("rados", &with(&["stat", "wo2"]), b"");
    let second = |shown: &[u8]| String::from_utf8_lossy(shown).split('.').next().map(str::to_owned);
    assert_eq!(second(&stat), second(&stock));
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn locks_are_seen_by_both() {
    let lock = |args: &[&'static str]| [&["-p", "p", "lock"], args].concat();
    let taken = ["get", "wl", "l", "--lock-cookie", "c", "--lock-tag", "t", "--lock-duration", "60"];
    does(&lock(&taken));
    assert!(!loligo(&lock(&taken)).0, "it is held");
    same_json(&lock(&["list", "wl", "--format", "json"]));
    same_json(&lock(&["info", "wl", "l", "--format", "json"]));
    same_json(&lock(&["info", "wl", "none", "--format", "json"]));
    let (_, info) = loligo(&lock(&["info", "wl", "l", "--format", "json"]));
    let info: serde_json::Value = serde_json::from_slice(&info).expect("JSON");
    let holder = info["lockers"][0]["name"].as_str().expect("a holder");
    does(&["-p", "p", "lock", "break", "wl", "l", holder, "--lock-cookie", "c"]);
    same(&lock(&["break", "wl", "l", "client.1"]));
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn snapshots_are_seen_by_both() {
    let pool = format!("words-{}", std::process::id());
    assert!(run("ceph", &["osd", "pool", "create", &pool, "8"], b"").0);
    let with = |args: &[&'static str]| [&["-p", &pool], args].concat();
    assert!(run("rados", &with(&["put", "o", "-"]), b"first").0);
    same(&with(&["lssnap"]));
    does(&with(&["mksnap", "s"]));
    assert!(!loligo(&with(&["mksnap", "s"])).0);
    same(&with(&["lssnap"]));
    assert!(run("rados", &with(&["put", "o", "-"]), b"the second").0);
    same(&with(&["listsnaps", "o"]));
    assert_eq!(loligo(&with(&["-s", "s", "get", "o", "-"])), (true, b"first".to_vec()));
    does(&with(&["rollback", "o", "s"]));
    same(&with(&["get", "o", "-"]));
    same(&with(&["rmsnap", "none"]));
    does(&with(&["rmsnap", "s"]));
    same(&with(&["lssnap"]));
}

/// Replaces numbers with `#`: the cluster's numbers differ each time.
fn masked(shown: &[u8]) -> String {
    let mut text = String::new();
    for c in String::from_utf8_lossy(shown).chars() {
        match c {
            '0'..='9' if text.ends_with('#') => {}
            '0'..='9' => text.push('#'),
            other => text.push(other),
        }
    }
    text
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn watchers_are_notified_and_listed_by_both() {
    let word = |args: &[&'static str]| [&["-p", "p"], args].concat();
    let loligo_bin = env!("CARGO_BIN_EXE_loligo");
    does(&word(&["put", "ww", "/dev/null"]));
    let mut heard = Vec::new();
    for watcher in [loligo_bin, "rados"] {
        let mut child = Command::new(watcher)
            .env("CEPH_CONF", conf())
            .args(word(&["watch", "ww"]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it is installed");
        while loligo(&word(&["listwatchers", "ww"])).1.is_empty() {
            assert!(child.try_wait().expect("a child").is_none(), "{watcher} ended");
        }
        same(&word(&["listwatchers", "ww"]));
        let [ours, stock] =
            [loligo_bin, "rados"].map(|program| run(program, &word(&["notify", "ww", "hello you"]), b""));
        assert_eq!((ours.0, masked(&ours.1)), (stock.0, masked(&stock.1)), "notified {watcher}");
        assert!(masked(&ours.1).starts_with("reply client.# cookie # : # bytes"), "{}", masked(&ours.1));
        child.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{watcher}");
        heard.push(masked(&output.stdout).replace("press enter to exit...\n", ""));
    }
    assert_eq!(heard[0], heard[1]);
    same(&word(&["listwatchers", "ww"]));
    assert!(!loligo(&word(&["notify", "none", "x"])).0 && !loligo(&word(&["watch", "none"])).0);
}

/// Returns a line's value in the output of a bench.
fn value(shown: &[u8], name: &str) -> String {
    let text = String::from_utf8_lossy(shown).into_owned();
    let line = text.lines().find(|line| line.starts_with(name));
    line.unwrap_or_else(|| panic!("no '{name}' in {text}")).rsplit(' ').next().unwrap_or_default().to_owned()
}

/// Either program reads the other's bench objects, which hold several operations.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn benches_read_each_others_objects() {
    let loligo_bin = env!("CARGO_BIN_EXE_loligo");
    for (writer, reader) in [("rados", loligo_bin), (loligo_bin, "rados")] {
        let bench = |program: &str, namespace: &str, words: &[&str]| {
            let (good, shown) = run(program, &[&["-p", "p", "-N", namespace], words].concat(), b"");
            assert!(good, "{program} {words:?}");
            shown
        };
        let size = ["-b", "1000", "-O", "4096", "--max-objects", "5"];
        let wrote = [&["bench", "1", "write", "--no-cleanup", "-t", "4"][..], &size].concat();
        let wrote = bench(writer, "bench", &wrote);
        // Stock begins a few more operations if it stops in the middle of an object.
        let writes = value(&wrote, "Total writes made:");
        assert!(["20", "21", "22", "23", "24"].contains(&&*writes), "{writes}");
        assert_eq!(value(&wrote, "Object size:"), "4096");
        for mode in ["seq", "rand"] {
            let read = bench(reader, "bench", &["bench", "1", mode]);
            assert_eq!(
                (value(&read, "Read size:"), value(&read, "Object size:")),
                ("1000".into(), "4096".into())
            );
            if mode == "seq" {
                assert_eq!(value(&read, "Total reads made:"), writes);
            }
        }
        bench(reader, "bench", &["cleanup"]);
        assert_eq!(bench(writer, "bench", &["ls"]), b"");
        // Objects written without data have the same names.
        let wrote =
            ["bench", "1", "write", "--no-cleanup", "--write-omap", "--write-xattr", "--max-objects", "1"];
        bench(writer, "elsewhere", &[&wrote[..], &["-b", "1000", "-O", "2000"]].concat());
        let object = bench(reader, "elsewhere", &["ls"]);
        let object = String::from_utf8_lossy(&object)
            .lines()
            .find(|name| name.starts_with("benchmark_data"))
            .map(str::to_owned);
        let object = object.expect("one is written");
        assert_eq!(
            bench(reader, "elsewhere", &["listomapkeys", &object]),
            b"bench-omap-key-0\nbench-omap-key-1000\n"
        );
        assert_eq!(
            bench(reader, "elsewhere", &["listxattr", &object]),
            b"bench-xattr-key-0\nbench-xattr-key-1000\n"
        );
        // They have no data to read.
        assert!(!run(reader, &["-p", "p", "-N", "elsewhere", "bench", "1", "seq"], b"").0);
        bench(reader, "elsewhere", &["cleanup"]);
        assert_eq!(bench(writer, "elsewhere", &["ls"]), b"");
    }
    for words in [
        &["bench", "1", "seq", "--write-omap"][..],
        &["bench", "1", "write", "--output", "/dev/null"],
        &["bench", "1k", "write"],
    ] {
        let words = [&["-p", "p"], words].concat();
        assert_eq!((loligo(&words).0, run("rados", &words, b"").0), (false, false), "{words:?}");
    }
}

/// Gives a key, a value, a snapshot and a pool by options instead of words; stock accepts and refuses
/// the same.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn options_name_what_words_name_otherwise() {
    let dir = std::env::temp_dir().join(format!("loligo-words-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("room");
    let file = |name: &str, content: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, content).expect("room");
        path.to_str().expect("text").to_owned()
    };
    let (key, value) = (file("key", b"k\xff\n1"), file("value", b"a value"));
    let with = |args: &[&str]| [&["-p", "p", "-N", "options"], args].concat().join("\n");
    let both = |args: &[&str]| {
        let words = with(args);
        same(&words.split('\n').collect::<Vec<_>>());
    };
    for program in [env!("CARGO_BIN_EXE_loligo"), "rados"] {
        let does = |args: &[&str]| {
            let words = with(args);
            assert!(run(program, &words.split('\n').collect::<Vec<_>>(), b"").0, "{program} {args:?}");
        };
        does(&["setomapval", "o", "--omap-key-file", &key, "v1"]);
        does(&["setomapval", "o", "k2", "--input-file", &value]);
        both(&["listomapvals", "o"]);
        both(&["getomapval", "o", "--omap-key-file", &key]);
        does(&["clearomap", "o"]);
    }
    assert!(!loligo(&["-p", "p", "-N", "options", "getomapval", "o", "--omap-key-file", &key]).0);
    does(&["-p", "p", "-N", "options", "rm", "o"]);
    let pool = format!("options-{}", std::process::id());
    does(&["--create", "-p", &pool, "ls"]);
    same(&["--create", "-p", &pool, "ls"]);
    does(&["-p", &pool, "create", "o"]);
    does(&["-p", &pool, "mksnap", "s"]);
    does(&["-p", &pool, "rm", "o"]);
    let (_, listed) = loligo(&["-p", &pool, "lssnap"]);
    let id = String::from_utf8_lossy(&listed).split('\t').next().expect("a number").to_owned();
    for (id, is_there) in [(&*id, true), ("999999", false), ("1k", false)] {
        let words = ["-p", &pool, "--snapid", id, "get", "o", "/dev/null"];
        assert_eq!((loligo(&words).0, run("rados", &words, b"").0), (is_there, is_there), "{id}");
    }
    does(&["-p", &pool, "rmsnap", "s"]);
    std::fs::remove_dir_all(&dir).expect("it is ours");
}
