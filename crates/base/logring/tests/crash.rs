//! Goal: after a crash the log has its dump. Method: each crash happens in a child process, which runs
//! this program with environment variables that select the crash.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::{env, fs, hint, ptr, thread};

use loligo_logring::{Config, Sink, log, set_option, start};

const HOW: &str = "LOGRING_TEST_CRASH";
const LOG: &str = "LOGRING_TEST_LOG";

/// Not a test of its own: the code of the child processes.
#[test]
fn child() {
    let (Ok(how), Ok(path)) = (env::var(HOW), env::var(LOG)) else { return };
    set_option("debug_osd", "1/20").unwrap();
    let logger = start(Config::new(Sink::File(path.into())).dump_on_crash(true)).unwrap();
    log!(OSD, 1, "written at once");
    log!(OSD, 20, "kept only: {}", 7);
    let crash = move || match how.as_str() {
        "panic" => panic!("on purpose"),
        // SAFETY: deliberately unsound; this is the tested crash.
        "segv" => unsafe { hint::black_box(ptr::null_mut::<u32>()).write_volatile(1) },
        "abort" => std::process::abort(),
        "overflow" => drop(overflow(hint::black_box(1))),
        // SAFETY: sends a signal to this process.
        "sent" => drop(unsafe { libc::raise(libc::SIGBUS) }),
        other => panic!("no such crash: {other}"),
    };
    let crashed = thread::Builder::new().name("victim".to_owned()).spawn(crash).unwrap().join();
    log!(OSD, 1, "afterwards");
    logger.stop();
    assert!(crashed.is_ok());
}

fn overflow(n: u64) -> u64 {
    let frame = hint::black_box([n; 512]);
    if n == 0 { 0 } else { overflow(n + 1) + frame[7] }
}

/// Runs a child. Returns its log, its exit status and its standard error.
fn crash(how: &str) -> (String, ExitStatus, String) {
    let path = env::temp_dir().join(format!("logring-crash-{how}.{}", std::process::id()));
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", "child", "--nocapture"]).env(HOW, how).env(LOG, &path);
    let output = child.output().unwrap();
    let log = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    (log, output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn assert_dumped(log: &str) {
    let (before, dump) = log.split_once("--- begin dump of recent events ---\n").expect(log);
    assert!(before.contains(" 1 osd: written at once\n"), "{log}");
    assert!(!before.contains("kept only"), "{log}");
    assert!(dump.contains(" osd: kept only: 7\n"), "{log}");
    assert!(dump.contains("--- logging levels ---\n") && dump.contains("\n   1/20 osd\n"), "{log}");
    assert!(dump.contains("--- end dump of recent events ---\n"), "{log}");
}

fn assert_signal(how: &str, signal: i32, name: &str) -> String {
    let (log, status, stderr) = crash(how);
    assert_dumped(&log);
    assert!(log.contains(&format!("*** Caught signal ({name}) **\n in thread ")), "{log}");
    assert_eq!(status.signal(), Some(signal), "it dies of the signal nevertheless: {status}");
    stderr
}

#[test]
fn a_panic_is_logged_and_dumps_and_the_program_goes_on() {
    let (log, status, stderr) = crash("panic");
    assert_dumped(&log);
    assert!(log.contains("-1 none: thread 'victim' panicked: "), "{log}");
    assert!(log.contains("on purpose") && log.ends_with(" 1 osd: afterwards\n"), "{log}");
    assert!(stderr.contains("on purpose"), "the earlier hook is called: {stderr}");
    assert_eq!(status.code(), Some(101), "the child's own assertion");
}

#[test]
fn a_segmentation_fault_dumps() {
    assert_signal("segv", libc::SIGSEGV, "Segmentation fault");
}

#[test]
fn an_abort_dumps() {
    assert_signal("abort", libc::SIGABRT, "Aborted");
}

#[test]
fn a_signal_that_is_sent_dumps() {
    assert_signal("sent", libc::SIGBUS, "Bus error");
}

#[test]
fn a_stack_overflow_dumps_and_is_still_told() {
    // Rust's handler turns the fault into an abort: two signals and two
    // dumps. The first dump has the entries.
    let (log, status, stderr) = crash("overflow");
    assert_dumped(&log);
    assert!(stderr.contains("has overflowed its stack"), "{stderr}");
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{status}");
}
