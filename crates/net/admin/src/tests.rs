//! Goal: every request has an answer and none does harm. Method: requests to the tables directly, and
//! bytes sent to a socket.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::{env, fs};

use serde_json::{Value, json};

use super::*;

/// A table with the commands of every program, and a setting like a log level.
fn admin() -> (Admin, Arc<AtomicU32>) {
    let admin = Admin::new();
    let level = Arc::new(AtomicU32::new(0));
    let (get, set) = (Arc::clone(&level), Arc::clone(&level));
    let option = ConfigOption::new("debug_msgr", move || get.load(Ordering::Relaxed).to_string());
    admin.option(option.settable(move |value| {
        let level = value.parse().map_err(|_| Failure::new("not a number"))?;
        set.store(level, Ordering::Relaxed);
        Ok(())
    }));
    (admin, level)
}

/// The answer of the socket to a request.
fn answer(admin: &Admin, request: &[u8]) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(admin.answer(request.to_vec(), ()))
}

fn json_of(admin: &Admin, request: &str) -> Value {
    let answer = answer(admin, request.as_bytes());
    serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{request}: {e} in {answer}"))
}

#[test]
fn words_and_json_mean_the_same() {
    let (admin, level) = admin();
    assert_eq!(json_of(&admin, "config set debug_msgr 10"), json!({ "success": "" }));
    assert_eq!(level.load(Ordering::Relaxed), 10);
    let request = r#"{"prefix": "config set", "var": "debug-msgr", "val": ["20"], "format": "json"}"#;
    assert_eq!(answer(&admin, request.as_bytes()), r#"{"success":""}"#);
    assert_eq!(level.load(Ordering::Relaxed), 20);
    assert_eq!(json_of(&admin, "config get debug_msgr"), json!({ "debug_msgr": "20" }));
    assert_eq!(json_of(&admin, r#"{"prefix":"config show"}"#)["debug_msgr"], "20");
}

#[test]
fn what_cannot_be_done_is_said() {
    let (admin, level) = admin();
    for (request, why) in [
        ("", "no command"),
        ("nonsense", "no command 'nonsense'"),
        ("config", "no command"),
        ("config set debug_msgr", "missing: val"),
        ("config set debug_msgr high", "not a number"),
        ("config set fsid 1", "(2) No such file or directory"),
        ("config get", "missing: var"),
        ("version now", "does not know what to do with 'now'"),
        ("lock_stat mode everything", "not one of off, contended, full, exact"),
        ("{", "JSON"),
        (r#"{"prefix": 1}"#, "'prefix'"),
        (r#"["help"]"#, "no command"),
    ] {
        let answer = answer(&admin, request.as_bytes());
        assert!(answer.starts_with("ERROR: ") && answer.contains(why), "{request}: {answer}");
    }
    assert!(answer(&admin, b"\xff\xfe").starts_with("ERROR: "));
    assert_eq!(level.load(Ordering::Relaxed), 0);
}

#[test]
fn descriptions_have_the_form_that_ceph_reads() {
    let (admin, _) = admin();
    let described = json_of(&admin, "get_command_descriptions");
    let commands = described.as_object().expect("an object");
    let sig_of = |prefix: &str| {
        let words: Vec<Value> = prefix.split(' ').map(|w| json!(w)).collect();
        let found = commands.values().map(|c| c["sig"].as_array().expect("a list"));
        let is_it = |sig: &&Vec<Value>| sig.iter().filter(|a| a.is_string()).eq(words.iter());
        found.clone().find(is_it).unwrap_or_else(|| panic!("{prefix} in {described}")).clone()
    };
    assert_eq!(sig_of("help"), [json!("help")]);
    let set = sig_of("config set");
    assert_eq!(set[2], json!({ "name": "var", "type": "CephString", "req": "true" }));
    assert_eq!(set[3], json!({ "name": "val", "type": "CephString", "req": "true", "n": "N" }));
    let format = &sig_of("lock_stat")[1];
    assert_eq!((&format["type"], &format["req"]), (&json!("CephChoices"), &json!("false")));
    assert!(json_of(&admin, "help")["lock_stat"].is_string());
    assert!(json_of(&admin, "help").get("0").is_none(), "for programs only");
}

#[test]
fn locks_report_in_every_format() {
    let (admin, _) = admin();
    assert!(answer(&admin, b"lock_stat").starts_with("lock_stat version 0.4\n"));
    assert!(json_of(&admin, "lock_stat json")["classes"].is_array());
    assert!(json_of(&admin, r#"{"prefix":"lock_stat","format":"json-pretty"}"#)["mode"].is_string());
    assert!(
        answer(&admin, b"lock_stat prometheus").contains("# TYPE loligo_lock_contentions_total counter\n")
    );
    assert!(answer(&admin, b"lock_stat xml").starts_with("lock_stat version"));
}

#[test]
fn what_a_command_owns_goes_with_the_table() {
    let owned = Arc::new(());
    let admin = Admin::new();
    let kept = Arc::clone(&owned);
    admin.command(Command::new("own", "Own something.", move |_| Ok(format!("{kept:?}"))));
    assert_eq!(answer(&admin, b"own"), "()");
    drop(admin);
    assert_eq!(Arc::strong_count(&owned), 1);
}

/// A directory for one test, removed on drop.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("loligo-asok-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The text that a socket answers to `request`, or `None`.
fn ask(path: &Path, request: &[u8]) -> Option<String> {
    let mut stream = UnixStream::connect(path).expect("it listens");
    stream.write_all(request).expect("it takes the request");
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).ok()?;
    let (len, text) = reply.split_first_chunk::<4>()?;
    assert_eq!(u32::from_be_bytes(*len) as usize, text.len());
    Some(String::from_utf8(text.to_vec()).expect("text"))
}

#[test]
fn a_socket_answers_whoever_may_ask() {
    let scratch = Scratch::new("answers");
    let path = scratch.0.join("loligo.asok");
    fs::write(&path, "left by somebody").expect("a file");
    let socket = AdminSocket::open(&path, admin().0).expect("it opens");
    let mode = fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read_dir(&scratch.0).expect("a directory").count(), 1, "nothing else is left there");

    assert!(ask(&path, b"{\"prefix\": \"version\"}\0").is_some_and(|text| text.contains("loligo version")));
    assert!(ask(&path, b"help\n").is_some_and(|text| text.contains("lock_stat")));
    assert_eq!(ask(&path, &[0, 0, 0, 0]).as_deref(), Some("2"));
    assert!(ask(&path, &[0, 0, 0, 9]).is_some_and(|text| text.starts_with("ERROR")));
    // A client that sends too much gets no answer; idle clients do not delay others.
    assert_eq!(ask(&path, &[b'x'; protocol::REQUEST_MAX]), None);
    let idle: Vec<UnixStream> = (0..4).map(|_| UnixStream::connect(&path).expect("it listens")).collect();
    assert!(ask(&path, b"version\0").is_some());
    drop(idle);
    let second = AdminSocket::open(&path, Admin::new()).expect_err("one program at a path");
    assert_eq!(second.kind(), std::io::ErrorKind::AddrInUse);
    drop(socket);
    assert!(!path.exists());
}

#[test]
fn a_request_may_come_in_pieces_and_many_at_a_time() {
    let scratch = Scratch::new("pieces");
    let path = scratch.0.join("loligo.asok");
    let _socket = AdminSocket::open(&path, admin().0).expect("it opens");
    let answers = Mutex::new(0);
    std::thread::scope(|s| {
        for _ in 0..40 {
            s.spawn(|| {
                let mut stream = UnixStream::connect(&path).expect("it listens");
                for byte in b"{\"prefix\":\"config get\",\"var\":\"debug_msgr\"}\0" {
                    stream.write_all(&[*byte]).expect("it takes the byte");
                }
                let mut reply = Vec::new();
                stream.read_to_end(&mut reply).expect("it answers");
                assert!(reply.ends_with(b"}\n"));
                *answers.lock().expect("no panic") += 1;
            });
        }
    });
    assert_eq!(answers.into_inner().expect("no panic"), 40);
}

#[test]
fn a_command_that_takes_its_time_keeps_nobody_waiting() {
    let scratch = Scratch::new("lasting");
    let path = scratch.0.join("loligo.asok");
    let admin = Admin::new();
    let told = Arc::new(tokio::sync::Notify::new());
    let waits = Arc::clone(&told);
    admin.command(Command::lasting("wait", "Wait.", move |_| {
        let waits = Arc::clone(&waits);
        Box::pin(async move {
            waits.notified().await;
            Ok("told\n".to_owned())
        })
    }));
    let elsewhere = admin.run(b"wait").expect_err("only the socket has time");
    assert!(matches!(elsewhere, Refusal::Failed(_)));
    let _socket = AdminSocket::open(&path, admin).expect("it opens");
    std::thread::scope(|s| {
        let waiting = s.spawn(|| ask(&path, b"wait\0"));
        assert!(ask(&path, b"version\0").is_some());
        assert!(!waiting.is_finished());
        told.notify_one();
        assert_eq!(waiting.join().expect("no panic").as_deref(), Some("told\n"));
    });
}

#[test]
fn a_command_may_wait_for_a_runtime_of_its_program_and_keeps_nobody_waiting() {
    let scratch = Scratch::new("waits");
    let path = scratch.0.join("loligo.asok");
    let admin = Admin::new();
    let programs = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    let (told, runtime) = (Arc::new(tokio::sync::Notify::new()), programs.handle().clone());
    let waits = Arc::clone(&told);
    admin.command(Command::new("wait", "Wait.", move |_| {
        runtime.block_on(waits.notified());
        Ok("told\n".to_owned())
    }));
    admin.command(Command::new("fall", "Panic.", |_| panic!("a fault in a command")));
    let _socket = AdminSocket::open(&path, admin).expect("it opens");
    std::thread::scope(|s| {
        let waiting = s.spawn(|| ask(&path, b"wait\0"));
        assert!(ask(&path, b"version\0").is_some());
        assert!(!waiting.is_finished());
        told.notify_one();
        assert_eq!(waiting.join().expect("no panic").as_deref(), Some("told\n"));
    });
    assert!(ask(&path, b"fall\0").is_some_and(|text| text.starts_with("ERROR: the command has failed")));
}

#[test]
fn a_socket_closes_while_a_command_waits() {
    let scratch = Scratch::new("closes");
    let path = scratch.0.join("loligo.asok");
    let admin = Admin::new();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    admin.command(Command::new("wait", "Wait.", move |_| {
        begun.send(()).expect("the test waits");
        let _ = ended.lock().expect("no panic").recv();
        Ok(String::new())
    }));
    let socket = AdminSocket::open(&path, admin).expect("it opens");
    let mut stream = UnixStream::connect(&path).expect("it listens");
    stream.write_all(b"wait\0").expect("it takes the request");
    has_begun.recv().expect("the command begins");
    drop(socket); // would wait for ever if it waited for the command
    assert!(!path.exists(), "nobody else can connect");
    end.send(()).expect("the command still waits");
}

#[test]
fn a_path_may_be_longer_than_a_sockets() {
    let scratch = Scratch::new("long");
    let dir = scratch.0.join("d".repeat(120));
    fs::create_dir_all(&dir).expect("a directory");
    let path = dir.join("loligo.asok");
    let socket = AdminSocket::open(&path, admin().0).expect("it opens");
    let link = scratch.0.join("short");
    std::os::unix::fs::symlink(&dir, &link).expect("a link");
    assert!(ask(&link.join("loligo.asok"), b"version\0").is_some());
    drop(socket);
}

#[test]
fn levels_of_the_log_are_settings() {
    let admin = Admin::new();
    assert_eq!(json_of(&admin, "config set debug_objecter 3/7"), json!({ "success": "" }));
    assert_eq!(json_of(&admin, "config get debug_objecter"), json!({ "debug_objecter": "3/7" }));
    assert_eq!(json_of(&admin, "config set debug_ms 4"), json!({ "success": "" }));
    assert_eq!(json_of(&admin, "config get debug-msgr"), json!({ "debug_msgr": "4/4" }));
    let refused = answer(&admin, b"config set debug_osd loud");
    assert!(refused.starts_with("ERROR: error setting 'debug_osd' to 'loud': "), "{refused}");
    assert_eq!(answer(&admin, b"log dump"), "ERROR: this process has no log\n");
}

/// The client of a command may go before the command ends.
#[test]
fn a_command_keeps_its_place_until_it_ends() {
    let admin = Admin::new();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Mutex::new(released);
    admin.command(Command::new("hang", "Wait.", move |_| {
        begun.send(()).expect("the test waits");
        let _ = released.lock().expect("one command").recv();
        Ok(String::new())
    }));
    let place = Arc::new(());
    let held = Arc::downgrade(&place);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let asked = runtime.spawn({
        let admin = admin.clone();
        async move { admin.answer(b"hang".to_vec(), place).await }
    });
    runtime.block_on(async {
        tokio::task::yield_now().await;
        asked.abort();
        assert!(asked.await.expect_err("it was given up").is_cancelled());
    });
    has_begun.recv().expect("the command has begun");
    assert_eq!(held.strong_count(), 1, "it runs still");
    drop(release);
    runtime.shutdown_timeout(std::time::Duration::from_secs(60));
    assert_eq!(held.strong_count(), 0);
}
