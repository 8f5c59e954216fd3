//! The log thread: its life cycle and its rounds.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::arrivals::Arrivals;
use crate::asks::{
    BELL, DUMP, FLUSH, NUDGED, OPEN, REOPEN, THREAD, is_log_thread, is_open, reopen, this_thread,
};
use crate::clock::{self, WallClock};
use crate::crash;
use crate::line::Lines;
use crate::merge::{Found, Merge};
use crate::recent::Recent;
use crate::sink::{Output, Sink};
use crate::subsys::{self, Subsys, levels};

/// The interval between rounds while there are entries. A line is in the file within two of these.
const ROUND_MIN: Duration = Duration::from_millis(10);
/// The longest interval, after a long time without entries: an idle program has five wake-ups per
/// second.
const ROUND_MAX: Duration = Duration::from_millis(200);
/// An entry stays in its ring for at least this long, so that an entry that was begun earlier and
/// completed later is still written first.
const HELD_BACK: Duration = Duration::from_millis(2);
/// Lines are written when they have this many bytes, and at the end of a round.
const WRITE_BYTES: usize = 64 << 10;
static STOP: AtomicBool = AtomicBool::new(false);
/// A log thread exists. There is at most one.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The destination that [`redirect`] has opened, taken when the log is opened again.
static NEXT: Arrivals<Next> = Arrivals::new();

/// What the last log thread left for the next one: rings live longer than it.
static LEFT: Arrivals<Merge> = Arrivals::new();

/// The settings of the log.
#[derive(Debug)]
pub struct Config {
    sink: Sink,
    recent_max: usize,
    dump_on_crash: bool,
    errors_to_stderr: bool,
}

impl Config {
    /// Creates a configuration for a sink, with the default settings.
    pub fn new(sink: Sink) -> Self {
        Self { sink, recent_max: 10_000, dump_on_crash: false, errors_to_stderr: false }
    }

    /// The number of entries kept for a crash (Ceph: `log_max_recent`); by default 10,000, as in Ceph's
    /// daemons.
    pub fn recent_max(self, entries: usize) -> Self {
        Self { recent_max: entries, ..self }
    }

    /// Whether a panic or a fatal signal writes the kept entries; by default not. Applies to the whole
    /// process, and cannot be undone.
    pub fn dump_on_crash(self, dump: bool) -> Self {
        Self { dump_on_crash: dump, ..self }
    }

    /// Whether entries of level −1 also go to standard error; by default not.
    pub fn errors_to_stderr(self, also: bool) -> Self {
        Self { errors_to_stderr: also, ..self }
    }
}

/// The reason why the log could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// This process has a log already.
    #[error("the log has been started already")]
    Running,
    /// The file could not be opened, or the thread could not be created.
    #[error("log {name}: {source}")]
    Io {
        /// The name of the file.
        name: String,
        /// The cause.
        source: io::Error,
    },
}

/// A running log. Dropping it writes everything logged before, and ends the log.
#[derive(Debug)]
pub struct Logger {
    thread: Option<JoinHandle<()>>,
}

impl Logger {
    /// Writes everything logged before, and ends the log. Later entries are not recorded.
    pub fn stop(self) {}
}

impl Drop for Logger {
    fn drop(&mut self) {
        if crash::is_forked() {
            return; // the thread belongs to the parent
        }
        subsys::set_recording(false);
        STOP.store(true, SeqCst);
        BELL.ring();
        if let Some(thread) = self.thread.take() {
            // The thread panics only by a bug in this crate, and the panic has been printed.
            let _ = thread.join();
        }
    }
}

/// Starts the log of this process.
pub fn start(config: Config) -> Result<Logger, StartError> {
    let name = match &config.sink {
        Sink::File(path) => path.display().to_string(),
        _ => String::new(),
    };
    if TAKEN.swap(true, SeqCst) {
        return Err(StartError::Running);
    }
    let output = match Output::open(config.sink) {
        Ok(output) => output,
        Err(source) => {
            TAKEN.store(false, SeqCst);
            return Err(StartError::Io { name, source });
        }
    };
    crash::watch_forks();
    clock::choose();
    STOP.store(false, SeqCst);
    // A redirect that raced with the end of an earlier log may have left its destination.
    drop(NEXT.take());
    // Before the thread is created: it finds everything logged from now on in the rings.
    OPEN.store(true, SeqCst);
    subsys::set_recording(true);
    let end = End;
    let (errors_to_stderr, recent_max) = (config.errors_to_stderr, config.recent_max);
    let spawned = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
        let _end = end;
        THREAD.store(this_thread(), SeqCst);
        let mut merge = LEFT.take().pop().unwrap_or_default();
        let clock = WallClock::calibrate();
        let (recent, lines) = (Recent::new(recent_max), Lines::default());
        Worker { output, errors_to_stderr, recent, lines, clock }.run(&mut merge);
        LEFT.add(merge);
    });
    let thread = spawned.map_err(|source| StartError::Io { name, source })?;
    if config.dump_on_crash {
        crash::install();
    }
    Ok(Logger { thread: Some(thread) })
}

/// Runs at the end of the log thread, or if it cannot be created: releases all threads that wait for it,
/// and allows another log to start.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        subsys::set_recording(false);
        OPEN.store(false, SeqCst);
        [&FLUSH, &DUMP, &REOPEN].iter().for_each(|ticket| ticket.close());
        THREAD.store(0, SeqCst);
        TAKEN.store(false, SeqCst);
    }
}

/// A destination, and whether errors also go to standard error from then on.
struct Next {
    output: Output,
    errors_to_stderr: bool,
}

/// Redirects the log. Entries logged before the call are written to the old destination.
/// `errors_to_stderr` is as in [`Config::errors_to_stderr`]. Returns `false` if there is no log.
///
/// Opens the file, and waits until the log thread has taken it: not for a thread that must not wait.
///
/// # Errors
/// The file cannot be opened; the log keeps its destination.
pub fn redirect(sink: Sink, errors_to_stderr: bool) -> io::Result<bool> {
    if !is_open() || is_log_thread() {
        return Ok(false);
    }
    NEXT.add(Next { output: Output::open(sink)?, errors_to_stderr });
    Ok(reopen())
}

struct Worker {
    output: Output,
    errors_to_stderr: bool,
    recent: Recent,
    lines: Lines,
    clock: WallClock,
}

impl Worker {
    fn run(&mut self, merge: &mut Merge) {
        let mut pause = ROUND_MIN;
        loop {
            let seen = BELL.look();
            // A ring that fills up must not wait, and an error should not.
            let nudged = NUDGED.swap(false, Relaxed);
            // Requests are read before the rings, so that a flush covers everything logged before it.
            let (stop, flush, dump, reopen) =
                (STOP.load(SeqCst), FLUSH.pending(), DUMP.pending(), REOPEN.pending());
            let now = self.clock.look();
            let at_once = nudged || stop || flush.is_some() || dump.is_some() || reopen.is_some();
            let upto = if at_once { now } else { now.saturating_sub(self.clock.ticks_of(HELD_BACK)) };
            let found = self.round(merge, now, upto);
            if let Some(number) = reopen {
                self.reopen();
                REOPEN.finish(number);
            }
            if let Some(number) = dump {
                self.dump(now);
                DUMP.finish(number);
            }
            if let Some(number) = flush {
                FLUSH.finish(number);
            }
            if stop {
                return;
            }
            pause = if found { ROUND_MIN } else { (pause * 2).min(ROUND_MAX) };
            BELL.wait(seen, pause);
        }
    }

    /// Writes the entries that are due. Returns whether there were any.
    fn round(&mut self, merge: &mut Merge, now: u64, upto: u64) -> bool {
        if let Some((lost, why)) = self.output.report_lost() {
            let report = format!("{lost} lines could not be written: {why}");
            self.say(now, format_args!("{report}"));
        }
        let mut found = false;
        merge.take(upto, |what| {
            found = true;
            match what {
                Found::Entry(entry) => {
                    if i16::from(entry.header.level) <= i16::from(levels(entry.header.subsys).log) {
                        let begin = self.lines.as_bytes().len();
                        self.lines.entry(self.clock.wall_ns(entry.header.ticks), &entry);
                        if self.errors_to_stderr && entry.header.level < 0 {
                            to_stderr(&self.lines.as_bytes()[begin..]);
                        }
                    }
                    self.recent.keep(&entry);
                }
                Found::Dropped(count, Some(thread)) => {
                    let (number, name) = (thread.thread, &thread.name);
                    self.say(now, format_args!("{count} entries dropped by thread {number:x} ({name})"));
                }
                Found::Dropped(count, None) => {
                    self.say(now, format_args!("{count} entries dropped by threads without a ring"));
                }
            }
            if self.lines.as_bytes().len() >= WRITE_BYTES {
                self.write();
            }
        });
        self.write();
        found
    }

    /// Adds a line by the log itself. It has level −1, so that it is always written.
    fn say(&mut self, now: u64, text: std::fmt::Arguments<'_>) {
        self.lines.text(self.clock.wall_ns(now), this_thread(), -1, Subsys::NONE, text);
    }

    fn write(&mut self) {
        if !self.lines.as_bytes().is_empty() {
            self.output.write(self.lines.as_bytes(), self.lines.count());
            self.lines.clear();
        }
    }

    fn reopen(&mut self) {
        if let Some(Next { output, errors_to_stderr }) = NEXT.take().pop() {
            self.output.replace_by(output);
            self.errors_to_stderr = errors_to_stderr;
            return;
        }
        if let Err(e) = self.output.reopen() {
            let now = clock::ticks();
            let name = self.output.name();
            self.say(now, format_args!("log {name} cannot be opened again: {e}"));
            self.write();
        }
    }

    /// Writes the kept entries as Ceph does: the newest one last, with number 0.
    fn dump(&mut self, now: u64) {
        if let Some((signal, thread)) = crash::caught() {
            let name = crash::name_of(signal);
            self.lines.bare(format_args!("*** Caught signal ({name}) **\n in thread {thread:x}\n\n"));
        }
        self.lines.bare(format_args!("--- begin dump of recent events ---\n"));
        let mut recent = std::mem::replace(&mut self.recent, Recent::new(0));
        let mut left = recent.len();
        recent.empty(|entry| {
            left -= 1;
            self.lines.bare(format_args!("{:>6}> ", format!("-{left}")));
            self.lines.entry(self.clock.wall_ns(entry.header.ticks), &entry);
            if self.lines.as_bytes().len() >= WRITE_BYTES {
                self.write();
            }
        });
        self.lines.bare(format_args!("--- logging levels ---\n"));
        for subsys in Subsys::ALL {
            let levels = levels(*subsys);
            let (log, gather, name) = (levels.log, levels.gather, subsys.name());
            self.lines.bare(format_args!("  {log:2}/{gather:2} {name}\n"));
        }
        let (max, name) = (recent.entries_max(), self.output.name());
        self.lines.bare(format_args!("  max_recent {max:9}\n  log_file {name}\n"));
        self.lines.bare(format_args!("--- end dump of recent events ---\n"));
        self.recent = recent;
        let _ = self.clock.wall_ns(now);
        self.write();
    }
}

fn to_stderr(line: &[u8]) {
    use std::io::Write as _;
    // There is nowhere to report a failure of this write.
    let _ = io::stderr().write_all(line);
}
