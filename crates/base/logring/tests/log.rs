//! Tests of the public interface. A process has one log, so these tests run one at a time.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;

use loligo_logring::{
    Config, Levels, Logger, RING_BYTES, RINGS_BYTES_MAX, Sink, StartError, Subsys, dump, flush, line, log,
    redirect, reopen, set_levels, set_option, start, text,
};

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for subsys in Subsys::ALL {
        set_levels(*subsys, Levels { log: 5, gather: 10 });
    }
    turn
}

/// The bytes written to a sink.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn start() -> (Self, Logger) {
        let memory = Self::default();
        let logger = start(Config::new(Sink::Writer(Box::new(memory.clone())))).unwrap();
        (memory, logger)
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Lines without their times and threads.
    fn lines(&self) -> Vec<String> {
        let text = self.text();
        text.lines().map(|line| line.splitn(3, ' ').last().unwrap_or_default().to_owned()).collect()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_are_in_the_order_of_time_over_all_threads() {
    let _turn = turn();
    let (memory, logger) = Memory::start();
    let (threads, each) = (4, 2000);
    let counter = Mutex::new(0);
    thread::scope(|s| {
        for thread in 0..threads {
            let counter = &counter;
            s.spawn(move || {
                for _ in 0..each {
                    let mut counter = counter.lock().unwrap();
                    log!(OSD, 1, "{} by {}", *counter, thread);
                    *counter += 1;
                    drop(counter);
                    thread::yield_now();
                }
            });
        }
    });
    logger.stop();
    let lines = memory.lines();
    assert_eq!(lines.len(), threads * each, "{lines:?}");
    for (number, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!(" 1 osd: {number} by ")), "line {number}: {line}");
    }
    let text = memory.text();
    let times: Vec<&str> = text.lines().map(|line| &line[..31]).collect();
    assert!(times.is_sorted(), "no time is before an earlier line's");
    assert!(times[0].ends_with("+0000"), "{}", times[0]);
}

/// A sink that blocks in each write.
struct Gate(Receiver<()>, Sender<()>, Memory);

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.1.send(());
        let _ = self.0.recv();
        self.2.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_finds_no_room_is_counted_exactly_and_said() {
    let _turn = turn();
    let memory = Memory::default();
    let (open, gate) = mpsc::channel();
    let (inside, is_inside) = mpsc::channel();
    let logger = start(Config::new(Sink::Writer(Box::new(Gate(gate, inside, memory.clone()))))).unwrap();
    log!(MSGR, -1, "first");
    is_inside.recv().unwrap();
    // The log thread is blocked in the sink. Entries are four words, so the ring has no room for all of
    // these.
    let logged = 3 * RING_BYTES / 32;
    let thread = thread::Builder::new().name("talker".to_owned()).spawn(move || {
        (0..logged).for_each(|n| log!(MSGR, 1, "entry {}", n));
    });
    thread.unwrap().join().unwrap();
    drop(open);
    logger.stop();
    let lines = memory.lines();
    let written = lines.iter().filter(|line| line.starts_with(" 1 msgr: entry ")).count();
    assert_eq!(written, RING_BYTES / 32, "the ring was filled to the last word");
    let reports: Vec<_> = lines.iter().filter(|line| line.contains("dropped")).collect();
    let [report] = reports[..] else { panic!("{reports:?}") };
    assert!(
        report.starts_with(&format!("-1 none: {} entries dropped by thread ", logged - written)),
        "{report}"
    );
    assert!(report.ends_with(" (talker)"), "{report}");
}

#[test]
fn levels_are_switched_while_it_runs() {
    let _turn = turn();
    let (memory, logger) = Memory::start();
    let evaluated = AtomicUsize::new(0);
    let say = |n: u32| {
        let argument = || evaluated.fetch_add(1, SeqCst);
        log!(MSGR, 10, "ten {} {}", n, argument());
        log!(MSGR, 1, "one {}", n);
        log!(MSGR, -1, "error {}", n);
    };
    set_option("debug_msgr", "0/0").unwrap();
    say(0);
    assert_eq!(evaluated.load(SeqCst), 0, "an argument of what is off is not evaluated");
    assert!(flush());
    set_option("debug-ms", "1/10").unwrap();
    say(1);
    assert!(flush());
    set_option("debug msgr", "10").unwrap();
    say(2);
    logger.stop();
    say(3);
    let expected = [
        "-1 msgr: error 0",
        " 1 msgr: one 1",
        "-1 msgr: error 1",
        "10 msgr: ten 2 1",
        " 1 msgr: one 2",
        "-1 msgr: error 2",
    ];
    assert_eq!(memory.lines(), expected);
    assert_eq!(evaluated.load(SeqCst), 2);
}

#[test]
fn a_dump_shows_what_was_only_kept_and_then_forgets_it() {
    let _turn = turn();
    let memory = Memory::default();
    let config = Config::new(Sink::Writer(Box::new(memory.clone()))).recent_max(3);
    let logger = start(config).unwrap();
    for n in 0..5 {
        log!(OSD, 10, "kept {}", n);
    }
    assert!(flush());
    assert_eq!(memory.text(), "");
    assert!(dump());
    let dumped = memory.text();
    let kept: Vec<_> = dumped.lines().filter(|line| line.contains("osd: kept")).collect();
    assert_eq!(kept.len(), 3, "{dumped}");
    for (index, line) in kept.iter().enumerate() {
        assert!(line.starts_with(&format!("{:>6}> 20", format!("-{}", 2 - index))), "{line}");
        assert!(line.ends_with(&format!(" 10 osd: kept {}", index + 2)), "{line}");
    }
    assert!(dumped.contains("\n   5/10 osd\n") && dumped.contains("\n  max_recent         3\n"), "{dumped}");
    assert!(dump());
    assert!(!memory.text()[dumped.len()..].contains("kept"), "shown once");
    logger.stop();
}

#[test]
fn rings_of_threads_that_end_are_emptied_and_freed() {
    let _turn = turn();
    let (memory, logger) = Memory::start();
    // More rings than fit into the bound for all rings.
    let threads = 2 * RINGS_BYTES_MAX / RING_BYTES;
    for n in 0..threads {
        thread::spawn(move || log!(MON, 1, "thread {}", n)).join().unwrap();
        if n % 64 == 0 {
            assert!(flush());
        }
    }
    logger.stop();
    let lines = memory.lines();
    assert_eq!(lines.len(), threads, "{:?}", lines.iter().find(|line| line.contains("dropped")));
    assert!(lines.iter().enumerate().all(|(n, line)| *line == format!(" 1 mon: thread {n}")));
}

#[test]
fn a_thread_may_log_to_its_very_end() {
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            log!(MON, 1, "the last word");
        }
    }
    thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });
    let _turn = turn();
    let (memory, logger) = Memory::start();
    // Some systems run destructors in the order of registration, others in reverse order: in one of the
    // two cases `LAST` is registered before the ring.
    let ended = thread::spawn(|| {
        LAST.set(Some(Last));
        log!(MON, 1, "first");
    });
    ended.join().unwrap();
    let ended = thread::spawn(|| {
        log!(MON, 1, "first");
        LAST.set(Some(Last));
    });
    ended.join().unwrap();
    logger.stop();
    assert_eq!(memory.lines(), [" 1 mon: first", " 1 mon: the last word"].repeat(2));
}

#[test]
fn it_starts_once_and_again() {
    let _turn = turn();
    let (first, logger) = Memory::start();
    assert!(matches!(start(Config::new(Sink::Stderr)), Err(StartError::Running)));
    log!(OSD, 1, "one");
    logger.stop();
    assert!(!flush() && !dump() && !reopen(), "nobody is there");
    let (second, logger) = Memory::start();
    log!(OSD, 1, "two");
    line(Subsys::AUTH, 3, format_args!("{}-{}", 3, 4));
    line(Subsys::AUTH, 11, format_args!("off"));
    logger.stop();
    assert_eq!(first.lines(), [" 1 osd: one"]);
    assert_eq!(second.lines(), [" 1 osd: two", " 3 auth: 3-4"]);
    let error = start(Config::new(Sink::File("/no/such/directory/log".into()))).unwrap_err();
    assert!(error.to_string().starts_with("log /no/such/directory/log: "), "{error}");
}

#[test]
fn many_arguments_long_texts_and_nested_calls() {
    struct Talks;
    impl std::fmt::Display for Talks {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            log!(OSD, 1, "within");
            f.write_str("talks")
        }
    }
    let _turn = turn();
    let (memory, logger) = Memory::start();
    let long = "ä".repeat(2000);
    // Repeated, so that entries of every length wrap around the ring's end.
    for n in 0..200 {
        log!(OSD, 1, "{} {} {:?} {:>4} {:x} {} {} {}", n, long, "a\n", 1.5, 255, 'c', true, long);
        if n % 10 == 0 {
            assert!(flush());
        }
    }
    log!(OSD, 1, "{}", text(&Talks));
    logger.stop();
    let (lines, cut) = (memory.lines(), "ä".repeat(512));
    for (n, line) in lines[..200].iter().enumerate() {
        assert_eq!(*line, format!(" 1 osd: {n} {cut}… \"a\\n\"  1.5 ff c true {cut}…"));
    }
    let last: Vec<_> = lines[200..].iter().map(String::as_str).collect();
    assert!(last.contains(&" 1 osd: within") && last.contains(&" 1 osd: talks"), "{last:?}");
}

#[test]
fn a_file_that_was_moved_away_is_made_anew() {
    let _turn = turn();
    let path = std::env::temp_dir().join(format!("logring-test.{}", std::process::id()));
    let old = PathBuf::from(format!("{}.1", path.display()));
    let logger = start(Config::new(Sink::File(path.clone()))).unwrap();
    log!(OSD, 1, "before");
    assert!(flush());
    fs::rename(&path, &old).unwrap();
    assert!(reopen());
    log!(OSD, 1, "after");
    logger.stop();
    assert!(fs::read_to_string(&old).unwrap().ends_with(" osd: before\n"));
    assert!(fs::read_to_string(&path).unwrap().ends_with(" osd: after\n"));
    [path, old].iter().for_each(|path| fs::remove_file(path).unwrap());
}

/// A disk that is full at times.
struct Full(Arc<AtomicBool>, Memory);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.load(SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { self.1.write(bytes) }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn it_goes_elsewhere_while_it_runs() {
    let _turn = turn();
    assert!(!redirect(Sink::Stderr, false).unwrap(), "there is none");
    let (first, logger) = Memory::start();
    log!(OSD, 1, "one");
    assert!(redirect(Sink::File("/no/such/directory/log".into()), false).is_err());
    log!(OSD, 1, "two");
    let second = Memory::default();
    assert!(redirect(Sink::Writer(Box::new(second.clone())), false).unwrap());
    log!(OSD, 1, "three");
    logger.stop();
    assert_eq!(first.lines(), [" 1 osd: one", " 1 osd: two"]);
    assert_eq!(second.lines(), [" 1 osd: three"]);
}

#[test]
fn lines_that_cannot_be_written_are_counted() {
    let _turn = turn();
    let (memory, full) = (Memory::default(), Arc::new(AtomicBool::new(true)));
    let sink = Full(Arc::clone(&full), memory.clone());
    let logger = start(Config::new(Sink::Writer(Box::new(sink)))).unwrap();
    for n in 0..3 {
        log!(OSD, 1, "lost {}", n);
    }
    assert!(flush());
    full.store(false, SeqCst);
    log!(OSD, 1, "written");
    logger.stop();
    let lines = memory.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("-1 none: 3 lines could not be written: "), "{lines:?}");
    assert_eq!(lines[1], " 1 osd: written");
}

#[test]
fn flushes_of_many_threads_are_all_answered() {
    let _turn = turn();
    let (memory, logger) = Memory::start();
    let start = Barrier::new(8);
    thread::scope(|s| {
        for thread in 0..8 {
            let (start, memory) = (&start, &memory);
            s.spawn(move || {
                start.wait();
                for n in 0..20 {
                    log!(OSD, 1, "{}:{}.", thread, n);
                    assert!(flush());
                    assert!(
                        memory.text().contains(&format!(" osd: {thread}:{n}.\n")),
                        "written when flush returns"
                    );
                }
            });
        }
    });
    logger.stop();
}

#[test]
fn a_forked_child_logs_nothing_and_waits_for_nobody() {
    let _turn = turn();
    let (memory, logger) = Memory::start();
    log!(OSD, 1, "parent");
    assert!(flush());
    // SAFETY: the child calls nothing that takes a lock, and exits at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let waited = flush() || dump() || Subsys::OSD.records(-1);
        // SAFETY: ends the child without running any of the parent's destructors or exit handlers.
        unsafe { libc::_exit(if waited { 1 } else { 0 }) };
    }
    let mut status = -1;
    // SAFETY: waits for this process's child, and writes only to `status`.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    log!(OSD, 1, "still the parent");
    logger.stop();
    assert_eq!(memory.lines(), [" 1 osd: parent", " 1 osd: still the parent"]);
}
