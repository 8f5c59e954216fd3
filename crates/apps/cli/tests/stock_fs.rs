//! Goal: `loligo fs` carries files and directories into a CephFS and out of it, and says what, where and
//! why when it cannot. Method: a stock metadata server; what was carried in and out again is compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn loligo(args: &[&str]) -> Output {
    let program = std::env::var_os("LOLIGO_BIN").expect("LOLIGO_BIN names the program");
    let conf = std::env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    Command::new(program).arg("-c").arg(conf).arg("fs").args(args).output().expect("it starts")
}

#[track_caller]
fn done(args: &[&str]) -> String {
    let output = loligo(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn failed(args: &[&str]) -> String {
    let output = loligo(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

/// A local folder, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("loligo-fs-cli-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder");
        Self(dir)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).into_os_string().into_string().expect("text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect()
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn files_are_carried_in_and_out() {
    let local = Folder::new("files");
    let data = pattern((21 << 20) + 5);
    fs::write(local.path("in"), &data).expect("written");
    done(&["mkdir", "--parents", "/cli/files"]);
    done(&["put", "--verify", &local.path("in"), "/cli/files/f"]);
    assert_eq!(done(&["ls", "/cli/files"]), "f\n");
    let shown: Value =
        serde_json::from_str(&done(&["stat", "/cli/files/f", "--format", "json"])).expect("json");
    assert_eq!((&shown[0]["size"], &shown[0]["type"]), (&data.len().into(), &"file".into()));
    done(&["get", "--verify", "/cli/files/f", &local.path("out")]);
    assert!(fs::read(local.path("out")).expect("there") == data);
    done(&["cp", "/cli/files/f", "/cli/files/g"]);
    let output = loligo(&["cat", "/cli/files/g"]);
    assert!(output.stdout == data);
    done(&["truncate", "/cli/files/g", "4K"]);
    assert!(loligo(&["cat", "/cli/files/g"]).stdout == data[..4096]);
    done(&["mv", "/cli/files/g", "/cli/files/h"]);
    done(&["ln", "--symbolic", "h", "/cli/files/link"]);
    done(&["chmod", "600", "/cli/files/h"]);
    let long = done(&["ls", "-l", "/cli/files"]);
    assert!(long.lines().any(|line| line.starts_with("-rw-------") && line.ends_with(" h")), "{long}");
    assert!(long.lines().any(|line| line.starts_with("lrwx") && line.ends_with(" link")), "{long}");
    done(&["setxattr", "/cli/files/h", "user.colour", "red"]);
    assert_eq!(done(&["getxattr", "/cli/files/h", "user.colour"]), "red\n");
    assert_eq!(done(&["listxattr", "/cli/files/h"]), "user.colour\n");
    done(&["mkdir", "/cli/files/.snap/before"]);
    done(&["rm", "/cli/files/h"]);
    assert!(loligo(&["cat", "/cli/files/.snap/before/h"]).stdout == data[..4096]);
    done(&["rmdir", "/cli/files/.snap/before"]);
    done(&["rm", "-r", "/cli/files"]);
    assert_eq!(
        failed(&["stat", "/cli/files"]),
        "loligo: stat /cli/files: No such file or directory (ENOENT)"
    );
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn directories_are_carried_in_and_out() {
    let local = Folder::new("dirs");
    let tree = ["a/one.log", "a/b/two.log", "a/b/three", "four"];
    for (at, name) in tree.iter().enumerate() {
        let path = PathBuf::from(local.path("in")).join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, pattern(at * 3_000_000)).expect("written");
    }
    std::os::unix::fs::symlink("b/two.log", Path::new(&local.path("in")).join("a/link")).expect("made");
    done(&["put", "-r", "--parallel", "8", &local.path("in"), "/cli/dirs"]);
    let mut found: Vec<String> =
        done(&["find", "/cli/dirs", "--name", "*.log", "--type", "f"]).lines().map(str::to_owned).collect();
    found.sort();
    assert_eq!(found, ["/cli/dirs/a/b/two.log", "/cli/dirs/a/one.log"]);
    let copied = done(&["get", "-r", "/cli/dirs", &local.path("out"), "--format", "json"]);
    let copied: Value = serde_json::from_str(&copied).expect("json");
    assert_eq!((&copied["files"], &copied["bytes"]), (&4.into(), &18_000_000.into()));
    for name in tree {
        let [before, after] =
            ["in", "out"].map(|side| fs::read(Path::new(&local.path(side)).join(name)).expect("there"));
        assert!(before == after, "{name}");
    }
    let link = fs::read_link(Path::new(&local.path("out")).join("a/link")).expect("a link");
    assert_eq!(link, Path::new("b/two.log"));
    assert!(done(&["du", "/cli/dirs"]).ends_with("/cli/dirs\n"));
    assert_eq!(
        failed(&["rm", "/cli/dirs"]),
        "loligo: rm /cli/dirs: is a directory; --recursive removes it with all below"
    );
    done(&["rm", "-r", "/cli/dirs"]);
    let none = failed(&["--fs", "none", "ls"]);
    assert_eq!(none, "loligo: mount: no file system 'none'; there is 'fs'");
}

/// The bytes that a transfer with `--resume` says it has carried.
#[track_caller]
fn carried(args: &[&str]) -> u64 {
    let told = done(&[args, &["--resume", "--verify", "--format", "json"]].concat());
    let told: Value = serde_json::from_str(&told).expect("json");
    told["bytes"].as_u64().expect("a number")
}

/// A note that so much of a source is there, as put and get keep it.
fn note(source: &fs::Metadata, size: usize, written: usize) -> String {
    use std::os::unix::fs::MetadataExt as _;
    let (mtime, nsec) = (source.mtime(), source.mtime_nsec());
    format!(r#"{{"size":{size},"mtime":{mtime},"mtime_nsec":{nsec},"written":{written}}}"#)
}

/// Goal: a transfer goes on where a note says that an earlier one has come to, if the source is the same
/// and what is there is its beginning. Method: the state that an interrupted transfer leaves is made by
/// hand.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn interrupted_transfers_go_on() {
    const ATTRIBUTE: &str = "user.loligo.put";
    let local = Folder::new("resume");
    let (source, part, out) = (local.path("in"), local.path("part"), local.path("out"));
    let data = pattern((20 << 20) + 7);
    let (len, half) = (data.len(), 12 << 20);
    fs::write(&source, &data).expect("written");
    fs::write(&part, &data[..half]).expect("written");
    done(&["mkdir", "--parents", "/cli/resume"]);
    let f = "/cli/resume/f";
    let noted = |written| note(&fs::metadata(&source).expect("there"), len, written);

    done(&["put", &part, f]);
    done(&["setxattr", f, ATTRIBUTE, &noted(half)]);
    assert_eq!(carried(&["put", &source, f]), (len - half) as u64);
    assert!(loligo(&["cat", f]).stdout == data);
    assert_eq!(done(&["getxattr", f, ATTRIBUTE]).trim_end(), noted(len));
    assert_eq!(carried(&["put", &source, f]), 0, "it is whole");
    // A put without --resume takes the note away; what the note would tell is not true any more.
    done(&["put", &part, f]);
    assert_eq!(done(&["listxattr", f]), "");
    // Another program has written there.
    fs::write(&part, vec![7; half]).expect("written");
    done(&["put", &part, f]);
    done(&["setxattr", f, ATTRIBUTE, &noted(half)]);
    assert_eq!(carried(&["put", &source, f]), len as u64);
    // The source has changed.
    let file = fs::File::options().write(true).open(&source).expect("there");
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("set");
    assert_eq!(carried(&["put", &source, f]), len as u64);
    assert!(loligo(&["cat", f]).stdout == data);

    assert_eq!(carried(&["get", f, &out]), len as u64);
    assert_eq!(carried(&["get", f, &out]), 0, "it is whole");
    let whole = fs::metadata(&out).expect("there");
    let beside = local.path(".out.loligo-get");
    for (there, expected) in [(&data[..half], len - half), (&vec![7; half], len)] {
        fs::write(&out, there).expect("written");
        fs::write(&beside, note(&whole, len, half)).expect("written");
        assert_eq!(carried(&["get", f, &out]), expected as u64);
        assert!(fs::read(&out).expect("there") == data && !Path::new(&beside).exists());
    }
    done(&["rm", "-r", "/cli/resume"]);
}

/// Goal: a put that is interrupted leaves a note that tells no more than is there.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn an_interrupted_put_leaves_a_note() {
    let local = Folder::new("interrupted");
    let source = local.path("large");
    // More than is carried before the first note.
    fs::File::create(&source).and_then(|file| file.set_len(64 << 30)).expect("made");
    done(&["mkdir", "--parents", "/cli/interrupted"]);
    let f = "/cli/interrupted/f";
    let program = std::env::var_os("LOLIGO_BIN").expect("LOLIGO_BIN names the program");
    let conf = std::env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    let mut command = Command::new(program);
    command.arg("-c").arg(conf).args(["fs", "put", "--resume", "--window", "8M", &source, f]);
    let mut putting = command.stderr(std::process::Stdio::null()).spawn().expect("it starts");
    let noted = loop {
        let output = loligo(&["getxattr", f, "user.loligo.put"]);
        if output.status.success() {
            break output.stdout;
        }
        assert!(putting.try_wait().expect("a child").is_none(), "it has ended without a note");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let interrupted = Command::new("kill").args(["-INT", &putting.id().to_string()]).status();
    assert!(interrupted.expect("kill runs").success() && !putting.wait().expect("a child").success());
    let noted: Value = serde_json::from_slice(&noted).expect("json");
    let shown: Value = serde_json::from_str(&done(&["stat", f, "--format", "json"])).expect("json");
    let (written, size) = (noted["written"].as_u64(), shown[0]["size"].as_u64());
    assert!(written > Some(0) && written <= size, "{noted} {size:?}");
    done(&["rm", "-r", "/cli/interrupted"]);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn snapshots_quotas_and_layouts_are_told_and_changed() {
    done(&["mkdir", "--parents", "/cli/rules/dir"]);
    done(&["snap", "create", "/cli/rules", "monday"]);
    done(&["snap", "rename", "/cli/rules", "monday", "tuesday"]);
    let table = done(&["snap", "ls", "/cli/rules"]);
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 2, "{table}");
    assert!(rows[0].starts_with("ID") && rows[1].contains("tuesday"), "{table}");
    let listed: Value =
        serde_json::from_str(&done(&["snap", "ls", "/cli/rules", "--format", "json"])).expect("json");
    assert_eq!(listed[0]["name"], "tuesday");
    assert!(listed[0]["created"].as_str().is_some_and(|time| time.contains('.')), "{listed}");
    assert!(done(&["snap", "info", "/cli/rules", "tuesday"]).contains("name: tuesday"));
    assert_eq!(
        failed(&["snap", "create", "/cli/rules", "tuesday"]),
        "loligo: snap create /cli/rules/.snap/tuesday: File exists (EEXIST)"
    );
    done(&["snap", "rm", "/cli/rules", "tuesday"]);
    assert_eq!(done(&["snap", "ls", "/cli/rules"]).lines().count(), 1);

    done(&["quota", "set", "/cli/rules", "--bytes", "1G", "--files", "100"]);
    let quota = done(&["quota", "get", "/cli/rules"]);
    assert!(quota.contains("1073741824") && quota.lines().any(|line| line.starts_with("files")), "{quota}");
    done(&["quota", "set", "/cli/rules", "--files", "0"]);
    let quota: Value =
        serde_json::from_str(&done(&["quota", "get", "/cli/rules", "--format", "json"])).expect("json");
    assert_eq!((&quota["max_bytes"], &quota["max_files"]), (&(1_u64 << 30).into(), &Value::Null));
    done(&["quota", "rm", "/cli/rules"]);
    assert!(done(&["quota", "get", "/cli/rules"]).contains("none"));

    done(&[
        "layout",
        "set",
        "/cli/rules/dir",
        "--stripe-count",
        "2",
        "--object-size",
        "8M",
        "--stripe-unit",
        "1M",
    ]);
    let layout: Value =
        serde_json::from_str(&done(&["layout", "get", "/cli/rules/dir", "--format", "json"])).expect("json");
    assert_eq!((&layout["stripe_count"], &layout["source"]), (&2.into(), &"set".into()));
    let local = Folder::new("rules");
    fs::write(local.path("in"), b"text").expect("written");
    done(&["put", &local.path("in"), "/cli/rules/dir/f"]);
    assert!(done(&["layout", "get", "/cli/rules/dir/f"]).contains("object_size: 8388608"));
    assert_eq!(
        failed(&["layout", "set", "/cli/rules/dir/f", "--stripe-count", "3"]),
        "loligo: layout set /cli/rules/dir/f: Directory not empty (ENOTEMPTY)"
    );
    done(&["layout", "rm", "/cli/rules/dir"]);
    assert!(!done(&["layout", "get", "/cli/rules/dir"]).contains("source: set"));
    assert_eq!(
        failed(&["quota", "get", "/cli/rules/dir/f"]),
        "loligo: quota get /cli/rules/dir/f: Not a directory (ENOTDIR)"
    );
    done(&["rm", "-r", "/cli/rules"]);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_command_runs_under_a_lock() {
    let ended = loligo(&["lock", "hold", "/cli-lock", "--", "sh", "-c", "echo inside; exit 3"]);
    assert_eq!((ended.status.code(), &ended.stdout[..]), (Some(3), &b"inside\n"[..]));
    let program = std::env::var("LOLIGO_BIN").expect("LOLIGO_BIN names the program");
    let conf = std::env::var("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    let inner = format!("'{program}' -c '{conf}' fs lock hold /cli-lock --no-wait -- echo never");
    let ended = loligo(&["lock", "hold", "/cli-lock", "--", "sh", "-c", &inner]);
    assert_eq!(ended.status.code(), Some(1));
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(told.trim_end(), "loligo: lock /cli-lock: somebody else has locked the file");
    let shared = inner.replace("--no-wait", "--no-wait --shared");
    let ended = loligo(&["lock", "hold", "/cli-lock", "--shared", "--", "sh", "-c", &shared]);
    assert_eq!(ended.stdout, b"never\n", "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(
        failed(&["lock", "hold", "/cli-lock", "--", "/no/such/program"]),
        "loligo: run /no/such/program: No such file or directory (os error 2)"
    );
    done(&["rm", "/cli-lock"]);
}

/// Goal: a trace shows a file's I/O as operations on its objects, those of one write together.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_trace_shows_the_objects_of_a_file() {
    let local = Folder::new("trace");
    fs::write(local.path("in"), pattern(64 << 20)).expect("written");
    done(&["mkdir", "--parents", "/cli/trace"]);
    done(&["put", "--trace", &local.path("t.json"), &local.path("in"), "/cli/trace/f"]);
    let text = fs::read_to_string(local.path("t.json")).expect("there");
    let ino: Value =
        serde_json::from_str(&done(&["stat", "/cli/trace/f", "--format", "json"])).expect("json");
    let ino = ino[0]["inode"].as_u64().expect("a number");
    for object in 0..16 {
        assert!(text.contains(&format!("{ino:x}.{object:08x}")), "object {object}: {}", &text[..1000]);
    }
    let program = std::env::var_os("LOLIGO_BIN").expect("LOLIGO_BIN names the program");
    let shown = Command::new(program).args(["trace", &local.path("t.json"), "--format", "json"]).output();
    let shown: Value = serde_json::from_slice(&shown.expect("it starts").stdout).expect("json");
    assert!(shown["ops"].as_u64() >= Some(16), "{shown}");
    assert!(shown["overlap_max"].as_u64() >= Some(2), "the objects of one piece leave together: {shown}");
    done(&["rm", "-r", "/cli/trace"]);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn each_measurement_counts_and_leaves_nothing() {
    done(&["mkdir", "--parents", "/cli/bench"]);
    let small = ["--files", "40", "-b", "64K", "--file-size", "1M", "-t", "4", "--dir", "/cli/bench"];
    for (mode, more, ops) in [
        ("write", &["--direct"][..], None),
        ("randwrite", &[], None),
        ("read", &[], None),
        ("randread", &["--warm", "--threads", "2"], None),
        ("create", &[], Some(40)),
        ("stat", &[], Some(40)),
        ("readdir", &[], Some(1)),
        ("unlink", &[], Some(40)),
    ] {
        let shown = done(&[&["bench", "1", mode, "--format", "json"], &small[..], more].concat());
        let shown: Value = serde_json::from_str(&shown).expect("json");
        let counted = shown["ops"].as_u64().expect("a number");
        assert!(counted > 0 && ops.is_none_or(|ops| ops == counted), "{mode}: {shown}");
        assert!(shown["lat_us"]["p50"].as_f64() > Some(0.0), "{mode}: {shown}");
        assert_eq!(done(&["ls", "/cli/bench"]), "", "{mode}");
    }
    assert_eq!(
        failed(&["bench", "1", "create", "--warm"]),
        "loligo: bench --warm: is for reads, stat and readdir: the others find nothing held"
    );
    done(&["rmdir", "/cli/bench"]);
}
