//! Goal: work that `loligo file put` and `get --resume` completed before they were killed (SIGKILL) is
//! not repeated, and the result is whole. Method: the programs are killed in the middle, on a slow
//! server.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use loligo_rados::Builder;
use loligo_server::{Handle, Server};
use serde_json::Value;

const FILE_BYTES: usize = 80 << 20;
/// With this delay and the window below, about 25 MB a second are written, and the note is updated each
/// second.
const DELAY: Duration = Duration::from_millis(20);
/// Time limit of all waits; exceeded only by an event that never comes.
const LONG: Duration = Duration::from_secs(120);

struct Place {
    server: Handle,
    dir: PathBuf,
}

impl Place {
    /// Creates the test's place; the local file `f` has the content of a striped file.
    fn new(name: &str, delay: Duration) -> Self {
        let dir = env::temp_dir().join(format!("loligo-file-kill-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("room");
        let data: Vec<u8> = (0..FILE_BYTES).map(|at| (at * 7 % 251) as u8 ^ (at >> 15) as u8).collect();
        fs::write(dir.join("f"), data).expect("room");
        let server = Server::memory().pool("p").commit_delay(delay).start().expect("the server starts");
        Self { server, dir }
    }

    fn loligo(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
        command.env("CEPH_CONF", self.server.conf()).env_remove("CEPH_ARGS").current_dir(&self.dir);
        command.args(["-p", "p", "--format", "json"]).args(args);
        command
    }

    /// Runs a put or get to its end. Returns the number of bytes that it transferred.
    fn carries(&self, args: &[&str]) -> u64 {
        let output = self.loligo(args).output().expect("it starts");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        shown["bytes"].as_u64().expect("a number")
    }

    /// Returns the offset up to which the striped file is written, according to its note.
    fn noted(&self) -> u64 {
        let output = self.loligo(&["file", "getxattr", "s", "loligo.put"]).output().expect("it starts");
        let note = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
        note["written"].as_u64().unwrap_or(0)
    }

    /// Runs a program until `far_enough`, and kills it. Returns `false` if it ended before.
    fn kills(&self, args: &[&str], far_enough: impl Fn() -> bool) -> bool {
        let mut child: Child = self.loligo(args).stdout(Stdio::null()).spawn().expect("it starts");
        let begun = Instant::now();
        while !far_enough() {
            if let Some(status) = child.try_wait().expect("a child") {
                assert!(status.success(), "{args:?}");
                return false;
            }
            assert!(begun.elapsed() < LONG, "{args:?} gets nowhere");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().expect("SIGKILL");
        !child.wait().expect("a child").success()
    }

    fn same(&self, one: &str, other: &str) -> bool {
        let read = |name: &str| fs::read(self.dir.join(name)).expect("there");
        read(one) == read(other)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn a_put_that_was_killed_goes_on() {
    put_is_killed("put", &[]);
}

#[test]
fn a_direct_put_that_was_killed_goes_on() {
    put_is_killed("direct-put", &["--direct"]);
}

/// Kills a put twice; the second one resumes where the first one stopped.
fn put_is_killed(name: &str, more: &[&str]) {
    let place = Place::new(name, DELAY);
    let put =
        [&["file", "put", "s", "f", "--resume", "--window", "512K", "--stripe-count", "3"], more].concat();
    let mut noted = 0;
    for kill in 0..2 {
        assert!(place.kills(&put, || place.noted() > noted), "{kill}: it takes seconds");
        let now = place.noted();
        assert!(noted < now && now < FILE_BYTES as u64, "{kill}: {noted}, {now}");
        noted = now;
    }
    let carried = place.carries(&[&put[..], &["--verify"]].concat());
    // A note that was in flight when the program was killed may have arrived later.
    assert!(carried > 0 && carried <= FILE_BYTES as u64 - noted, "{carried} after {noted}");
    place.carries(&["file", "get", "s", "back"]);
    assert!(place.same("f", "back"));
}

/// Kills a put at its start and in the middle, also over an existing file, and with another layout.
#[test]
fn what_a_killed_put_leaves_is_not_taken_for_a_whole_file() {
    let place = Place::new("left", DELAY);
    fs::write(place.dir.join("old"), vec![7; 3 << 20]).expect("room");
    // A file for each case: a killed program keeps its lock for a minute.
    for (name, replaces, far, layout) in [
        ("begun", false, 0, &[][..]),
        ("middle", false, 1, &[]),
        ("over", true, 0, &[]),
        ("anew", true, 0, &["--stripe-count", "3"]),
    ] {
        if replaces {
            place.carries(&["file", "put", name, "old"]);
        }
        let written = || {
            let output = place.loligo(&["file", "getxattr", name, "loligo.put"]).output().expect("it starts");
            serde_json::from_slice::<Value>(&output.stdout).ok()?["written"].as_u64()
        };
        let put = [&["file", "put", name, "f", "--window", "512K"], layout].concat();
        assert!(place.kills(&put, || written() >= Some(far)), "{name}: it takes seconds");
        for command in [["get", name, "back"].as_slice(), &["cat", name], &["stat", name], &["cp", name, "t"]]
        {
            let output = place.loligo(&[&["file"], command].concat()).output().expect("it starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && output.stdout.is_empty(), "{name}: {command:?}");
            // A put killed while it truncates the old file keeps its exclusive lock for a minute.
            // Between the removal of a file with another layout and the creation of the new one there is
            // no file.
            let in_use = replaces && (said.contains("in use") || said.contains("No such file"));
            let told = ["not whole", "file put", "file rm"].iter().all(|word| said.contains(word));
            assert!(told || in_use, "{name}: {command:?}: {said}");
        }
        let listed = place.loligo(&["file", "ls", "-l", name]).output().expect("it starts").stdout;
        let listed: Value = serde_json::from_slice(&listed).expect("JSON");
        assert!(listed[0]["whole"] == false || (replaces && listed[0].is_null()), "{listed}");
    }
    // A resumed put completes the file.
    place.carries(&["file", "put", "middle", "f", "--resume"]);
    place.carries(&["file", "get", "middle", "back"]);
    assert!(place.same("f", "back"));
}

impl Place {
    /// Starts programs, kills them after a pause, and breaks their locks, which would expire by time.
    fn kills_after(&self, commands: &[&[&str]], pause: Duration, name: &str) {
        let start = |args: &&[&str]| {
            self.loligo(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
        };
        let mut children: Vec<Child> = commands.iter().map(start).collect();
        std::thread::sleep(pause);
        for child in &mut children {
            child.kill().expect("SIGKILL");
            child.wait().expect("a child");
        }
        self.breaks_locks(name);
    }

    fn breaks_locks(&self, name: &str) {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        runtime.block_on(async {
            let builder = Builder::new().conf_file(self.server.conf().to_str().expect("UTF-8"));
            let rados = builder.connect().await.expect("connects");
            let io = rados.ioctx("p").await.expect("the pool");
            let first = format!("{name}.0000000000000000");
            let info = io.lock_info(&*first, "striper.lock").await;
            for holder in info.map(|info| info.holders).unwrap_or_default() {
                let broken = io.break_lock(&*first, "striper.lock", holder.client, &holder.cookie).await;
                broken.expect("broken");
            }
            rados.shutdown().await;
        });
    }

    /// Returns the data that `get` reads of a file; `None` if it reports a file that is not whole, or
    /// none.
    fn reads(&self, name: &str) -> Option<Vec<u8>> {
        let output = self.loligo(&["file", "get", name, "-"]).output().expect("it starts");
        if output.status.success() {
            return Some(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("not whole") || said.contains("No such file"), "{name}: {said}");
        assert!(output.stdout.is_empty(), "{name}");
        None
    }
}

const SMALL: usize = 5 << 20;

/// Times of kills, from before the program has connected to after it is done.
fn moments() -> impl Iterator<Item = Duration> {
    [10, 60, 75, 90, 110, 140, 180].into_iter().map(Duration::from_millis)
}

/// Kills each kind of writing program at each time: a read returns the state before or after it.
#[test]
fn what_a_killed_program_leaves_is_read_as_it_was_or_not_at_all() {
    let place = Place::new("moments", DELAY);
    let (old, new) = (vec![7; 1 << 20], fs::read(place.dir.join("f")).expect("there")[..SMALL].to_vec());
    fs::write(place.dir.join("old"), &old).expect("room");
    fs::write(place.dir.join("new"), &new).expect("room");
    let [with_cut, with_new] = [old[..100].to_vec(), [&old[..], &new].concat()];
    let kinds = [
        ("put", &["new", "--window", "512K"][..], &new),
        ("append", &["new"], &with_new),
        ("truncate", &["100"], &with_cut),
    ];
    let mut told = 0;
    for (number, pause) in moments().enumerate() {
        for (kind, more, after) in &kinds {
            let name = format!("{kind}-{number}");
            place.carries(&["file", "put", &name, "old"]);
            place.kills_after(&[&[&["file", kind, &name], *more].concat()], pause, &name);
            match place.reads(&name) {
                Some(read) => assert!(read == old || read == **after, "{name}: {} bytes", read.len()),
                None => told += 1,
            }
        }
        let copy = format!("copy-{number}");
        place.kills_after(&[&["file", "cp", "put-0", &copy]], pause, &copy);
        assert!(place.reads(&copy).is_none_or(|read| read == old || read == new), "{copy}");
    }
    assert!(told > 0, "none was killed in the middle");
}

/// Runs two appends at a time: either both are whole, or a read reports that one is not.
#[test]
fn two_appends_at_a_time_are_both_told_of() {
    let place = Place::new("two", DELAY);
    let old = vec![7; 1 << 20];
    fs::write(place.dir.join("old"), &old).expect("room");
    for (name, byte) in [("a", 1), ("b", 2)] {
        fs::write(place.dir.join(name), vec![byte; SMALL]).expect("room");
    }
    let mut told = 0;
    let all = Duration::from_secs(60);
    for (number, pause) in moments().skip(1).chain([all]).enumerate() {
        let name = format!("two-{number}");
        place.carries(&["file", "put", &name, "old"]);
        let both: [&[&str]; 2] = [&["file", "append", &name, "a"], &["file", "append", &name, "b"]];
        if pause == all {
            let mut children = both.map(|args| place.loligo(args).spawn().expect("it starts"));
            assert!(children.iter_mut().all(|child| child.wait().expect("a child").success()));
        } else {
            place.kills_after(&both, pause, &name);
        }
        let Some(read) = place.reads(&name) else {
            told += 1;
            continue;
        };
        let bytes = |byte| read.iter().filter(|there| **there == byte).count();
        let of_each = [bytes(1), bytes(2)];
        assert!(read.starts_with(&old) && of_each.iter().all(|n| *n == 0 || *n == SMALL), "{of_each:?}");
        assert_eq!(read.len(), old.len() + of_each.iter().sum::<usize>());
        assert!(pause != all || of_each == [SMALL, SMALL]);
    }
    assert!(told > 0, "none was killed in the middle");
    assert_eq!(place.loligo(&["file", "listxattr", "two-6"]).output().expect("it starts").stdout, b"[]\n");
}

/// While the program or its lock lives, readers get the content before the append; later they get an
/// error.
#[test]
fn what_is_being_appended_is_not_read() {
    let place = Place::new("appended", Duration::ZERO);
    fs::write(place.dir.join("old"), b"0123456789").expect("room");
    let file = |words: &[&str]| place.loligo(&[&["file"], words].concat()).output().expect("it starts");
    place.carries(&["file", "put", "s", "old"]);
    let mut child =
        place.loligo(&["file", "append", "s", "-"]).stdin(Stdio::piped()).spawn().expect("it starts");
    let mut piped = child.stdin.take().expect("piped");
    piped.write_all(&vec![5; 4 << 20]).expect("taken");
    let begun = Instant::now();
    while file(&["listxattr", "s"]).stdout == b"[]\n" {
        assert!(begun.elapsed() < LONG, "nothing is noted");
    }
    for command in [["get", "s", "-"].as_slice(), &["cat", "s"]] {
        let output = file(command);
        assert!(output.status.success() && output.stdout == b"0123456789", "{command:?}");
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(
            said.contains("a program appends to the file") && said.contains("first 10 of 4194314"),
            "{said}"
        );
    }
    assert!(file(&["cp", "s", "copy"]).status.success() && file(&["append", "s", "old"]).status.success());
    assert_eq!(file(&["get", "copy", "-"]).stdout, b"0123456789");
    assert_eq!(file(&["listxattr", "copy"]).stdout, b"[]\n");
    child.kill().expect("SIGKILL");
    child.wait().expect("a child");
    assert_eq!(file(&["get", "s", "-"]).stdout, b"0123456789");
    place.breaks_locks("s");
    for command in [
        ["get", "s", "-"].as_slice(),
        &["cat", "s"],
        &["stat", "s"],
        &["cp", "s", "t"],
        &["append", "s", "old"],
    ] {
        let output = file(command);
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(!output.status.success() && output.stdout.is_empty(), "{command:?}");
        assert!(
            said.contains("bytes 10 to 4194314") && said.contains("loligo.append."),
            "{command:?}: {said}"
        );
    }
    // It can be truncated to its size before the append; a rewritten file has no notes.
    assert!(!file(&["truncate", "s", "11"]).status.success());
    assert!(file(&["truncate", "s", "10"]).status.success());
    assert_eq!(file(&["get", "s", "-"]).stdout, b"0123456789");
    assert_eq!(file(&["listxattr", "s"]).stdout, b"[]\n");
    let note = r#"{"first":2,"begin":4,"end":6}"#;
    assert!(file(&["setxattr", "s", "loligo.append.gone", note]).status.success());
    assert!(!file(&["get", "s", "-"]).status.success());
    assert!(file(&["rmxattr", "s", "loligo.append.gone"]).status.success());
    assert!(file(&["get", "s", "-"]).status.success());
    assert!(file(&["setxattr", "s", "loligo.append.gone", note]).status.success());
    place.carries(&["file", "put", "s", "old", "--resume"]);
    assert_eq!(file(&["get", "s", "-"]).stdout, b"0123456789");
    // Data appended since the put is not part of the repeated put.
    assert!(file(&["append", "s", "old"]).status.success());
    place.carries(&["file", "put", "s", "old", "--resume"]);
    assert_eq!(file(&["get", "s", "-"]).stdout, b"0123456789");
}

/// A file that is not whole can be truncated to the part that is written, and no more; a completed put
/// leaves no note.
#[test]
fn a_file_that_is_not_whole_is_cut_or_written_again() {
    let place = Place::new("cut", Duration::ZERO);
    fs::write(place.dir.join("old"), b"0123456789").expect("room");
    let file = |words: &[&str]| place.loligo(&[&["file"], words].concat()).output().expect("it starts");
    for size in ["3", "4"] {
        place.carries(&["file", "put", "s", "old"]);
        let note = r#"{"size":10,"mtime":1,"mtime_nsec":0,"written":4}"#;
        assert!(file(&["setxattr", "s", "loligo.put", note]).status.success());
        let said = String::from_utf8(file(&["get", "s", "-"]).stderr).expect("text");
        assert!(said.contains("its first 4 of 10 bytes are there"), "{said}");
        assert!(
            !file(&["truncate", "s", "5"]).status.success()
                && !file(&["append", "s", "old"]).status.success()
        );
        assert!(file(&["truncate", "s", size]).status.success());
        let kept: usize = size.parse().expect("a number");
        assert_eq!(file(&["get", "s", "-"]).stdout, &b"0123456789"[..kept]);
    }
    place.carries(&["file", "put", "s", "old"]);
    assert_eq!(file(&["listxattr", "s"]).stdout, b"[]\n");
}

#[test]
fn a_get_that_was_killed_goes_on() {
    get_is_killed("get", &[]);
}

#[test]
fn a_direct_get_that_was_killed_goes_on() {
    get_is_killed("direct-get", &["--direct"]);
}

fn get_is_killed(name: &str, more: &[&str]) {
    let place = Place::new(name, Duration::ZERO);
    place.carries(&["file", "put", "s", "f", "--stripe-count", "3"]);
    let get = [&["file", "get", "s", "back", "--resume", "--window", "64K"], more].concat();
    let back = place.dir.join("back");
    let there = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len());
    // On a busy machine the program may end before it is killed.
    let mut tries = 0;
    while !place.kills(&get, || there(&back) >= 8 << 20) {
        fs::remove_file(&back).expect("it ended");
        tries += 1;
        assert!(tries < 50, "it cannot be killed");
    }
    let kept = there(&back);
    assert!(8 << 20 <= kept && kept < FILE_BYTES as u64, "{kept}");
    assert_eq!(place.carries(&get), FILE_BYTES as u64 - kept);
    assert!(place.same("f", "back"));
}
