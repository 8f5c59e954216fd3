//! Runs test commands, and kills test programs that hang.

use std::io::{ErrorKind, PipeReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Result;

/// A test program that prints nothing for this time hangs: tests that take minutes print their progress.
/// During compilation cargo has no children but compilers.
const SILENCE: Duration = Duration::from_secs(600);

/// How a watched command ended.
pub(crate) struct Ended {
    pub(crate) is_success: bool,
    /// The number of test programs that were killed because they hung.
    pub(crate) hung: u64,
}

/// Runs a cargo command to its end. Shows its output at once, so that the name of a hanging test is
/// visible, and passes each whole line to `line`. Kills and reports test programs that hang.
pub(crate) fn run(command: &mut Command, line: impl FnMut(&str)) -> Result<Ended> {
    run_with(command, SILENCE, &mut Shown::AtOnce, line)
}

/// Runs one test program to its end, while others may run. Shows its output, under its name, when it has
/// ended; nothing if it had no test to run. Passes each whole line to `line`. Kills a program that hangs.
pub(crate) fn run_apart(command: &mut Command, name: &str, line: impl FnMut(&str)) -> Result<Ended> {
    let mut shown = Shown::AtEnd(Vec::new());
    let ended = run_with(command, SILENCE, &mut shown, line);
    if let Shown::AtEnd(said) = shown
        && !is_empty(&said)
    {
        // Through the macro: a test of this function keeps it from those who count the test's own results.
        print!("     Running {name}\n{}", String::from_utf8_lossy(&said));
    }
    ended
}

/// Whether a test program had no test to run.
fn is_empty(said: &[u8]) -> bool {
    String::from_utf8_lossy(said).trim_start().starts_with("running 0 tests\n")
}

/// When the output of a command is shown.
enum Shown {
    /// The command is cargo, whose children are the test programs.
    AtOnce,
    /// The command is a test program. What it has said so far.
    AtEnd(Vec<u8>),
}

fn run_with(
    command: &mut Command,
    silence: Duration,
    shown: &mut Shown,
    mut line: impl FnMut(&str),
) -> Result<Ended> {
    // One pipe, so that the name of a test program, which cargo writes to standard error, comes before what
    // the program says.
    let (mut said, into) = std::io::pipe()?;
    let mut child = command.stdout(into.try_clone()?).stderr(into).spawn()?;
    // The command keeps its ends of the pipe, which would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut lines = Lines::default();
    let mut hung = 0;
    let mut piece = [0; 4096];
    loop {
        if !readable(&said, silence)? {
            hung += match shown {
                Shown::AtOnce => kill_tests(&child),
                Shown::AtEnd(_) if child.try_wait()?.is_some() => break, // A child of it keeps the pipe.
                Shown::AtEnd(said) => {
                    child.kill()?;
                    said.extend_from_slice(b"\nit has said nothing for too long and is killed\n");
                    1
                }
            };
            continue;
        }
        match said.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => {
                match shown {
                    Shown::AtOnce => show(&piece[..n])?,
                    Shown::AtEnd(said) => said.extend_from_slice(&piece[..n]),
                }
                lines.add(&piece[..n], &mut line);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    lines.end(&mut line);
    Ok(Ended { is_success: child.wait()?.success(), hung })
}

fn show(piece: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(piece)?;
    Ok(out.flush()?)
}

/// Waits until there is something to read; false if there was nothing for so long.
fn readable(said: &PipeReader, limit: Duration) -> Result<bool> {
    let mut poll = libc::pollfd { fd: said.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let limit_ms = libc::c_int::try_from(limit.as_millis())?;
    // SAFETY: one valid entry, which outlives the call.
    match unsafe { libc::poll(&raw mut poll, 1, limit_ms) } {
        -1 => match std::io::Error::last_os_error() {
            e if e.kind() == ErrorKind::Interrupted => Ok(true),
            e => Err(e.into()),
        },
        n => Ok(n > 0),
    }
}

/// Kills the children of cargo that are not compilers, that is, test programs. Prints their names, and
/// returns their number.
fn kill_tests(cargo: &Child) -> u64 {
    let mut killed = 0;
    for (pid, name) in children(cargo.id()) {
        if ["rustc", "rustdoc", "cargo", "ld", "cc"].contains(&name.as_str()) {
            continue;
        }
        println!("\n{name} (process {pid}) has said nothing for too long and is killed");
        // SAFETY: sends a signal to a process for which cargo has not waited: it is cargo's child, or
        // was a moment ago.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        killed += 1;
    }
    killed
}

/// The processes whose parent is `parent`, with their short names. Source: proc_pid_stat(5).
fn children(parent: u32) -> Vec<(libc::pid_t, String)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let stats = entries.flatten().filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter_map(|stat| child_of(parent, &stat)).collect()
}

fn child_of(parent: u32, stat: &str) -> Option<(libc::pid_t, String)> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let of = rest.split(' ').nth(1)?.parse::<u32>().ok()?;
    (of == parent).then_some((pid.parse().ok()?, name.to_owned()))
}

/// Joins pieces of output to lines.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn add(&mut self, piece: &[u8], line: &mut impl FnMut(&str)) {
        self.rest.extend_from_slice(piece);
        while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
            let whole: Vec<u8> = self.rest.drain(..=end).collect();
            line(String::from_utf8_lossy(&whole[..end]).as_ref());
        }
    }

    fn end(self, line: &mut impl FnMut(&str)) {
        if !self.rest.is_empty() {
            line(String::from_utf8_lossy(&self.rest).as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_killed_and_counted() {
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        // The shell stands for cargo: it goes on after its child's death.
        command.args(["-c", "echo one; sleep 1000; echo two >&2; printf three"]);
        let ended = run_with(&mut command, Duration::from_millis(300), &mut Shown::AtOnce, |line| {
            seen.push(line.to_owned());
        })
        .expect("runs");
        assert_eq!((ended.is_success, ended.hung), (true, 1));
        // The shell says so itself.
        seen.retain(|line| line != "Killed");
        assert_eq!(seen, ["one", "two", "three"]);
    }

    #[test]
    fn a_program_that_hangs_among_others_is_killed_and_counted() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; exec sleep 1000"]);
        let (mut shown, mut seen) = (Shown::AtEnd(Vec::new()), Vec::new());
        let ended = run_with(&mut command, Duration::from_millis(300), &mut shown, |line| {
            seen.push(line.to_owned());
        })
        .expect("runs");
        assert_eq!((ended.is_success, ended.hung), (false, 1));
        assert_eq!(seen, ["one"]);
        let Shown::AtEnd(said) = shown else { panic!("it is shown at the end") };
        let said = String::from_utf8(said).expect("text");
        assert!(said.starts_with("one\n") && said.contains("is killed"), "{said}");
        assert!(!is_empty(said.as_bytes()) && is_empty(b"\nrunning 0 tests\n\ntest result: ok."));
    }

    #[test]
    fn names_with_parentheses_are_read() {
        assert_eq!(child_of(7, "12 (a) (b) S 7 12 12 0"), Some((12, "a) (b".to_owned())));
        assert_eq!(child_of(8, "12 (a) S 7 12 12 0"), None);
    }
}
