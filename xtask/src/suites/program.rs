//! Runs a program until it ends or hangs.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::Result;

/// How a program ended.
pub(super) struct Ended {
    pub(super) is_success: bool,
    /// A description for people.
    pub(super) how: String,
}

/// Passes each line that the program prints to stdout or stderr to `line`. Kills a program that prints
/// nothing for `silence`.
pub(super) fn run(command: &mut Command, silence: Duration, mut line: impl FnMut(&str)) -> Result<Ended> {
    let (from, to) = std::io::pipe()?;
    let child = command.stdin(Stdio::null()).stdout(to.try_clone()?).stderr(to).spawn();
    // The command holds the other ends of the pipe; until they are closed, the reader does not see the
    // program's end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child?;
    let (lines, printed) = channel();
    let reader = thread::spawn(move || {
        for piece in BufReader::new(from).split(b'\n').map_while(std::io::Result::ok) {
            if lines.send(String::from_utf8_lossy(&piece).into_owned()).is_err() {
                break;
            }
        }
    });
    let is_hung = loop {
        match printed.recv_timeout(silence) {
            Ok(text) => line(&text),
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                break true;
            }
        }
    };
    let status = child.wait()?;
    drop(printed);
    if !is_hung {
        reader.join().expect("the reader does not panic");
    }
    let how = if is_hung {
        format!("killed: it said nothing for {} s", silence.as_secs())
    } else {
        format!("the program ended: {status}")
    };
    Ok(Ended { is_success: status.success() && !is_hung, how })
}

/// Returns the stdout of a program, and whether it succeeded.
pub(super) fn output_of(command: &mut Command) -> Result<(String, bool)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut bytes = Vec::new();
    child.stdout.take().ok_or("no pipe to the program")?.read_to_end(&mut bytes)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), child.wait()?.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_kinds_are_given_and_silence_ends_it() {
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; printf three; exit 3"]);
        let ended =
            run(&mut command, Duration::from_secs(20), |line| seen.push(line.to_owned())).expect("runs");
        assert_eq!(seen, ["one", "two", "three"]);
        assert!(!ended.is_success && ended.how.contains("exit status: 3"), "{}", ended.how);
        let mut command = Command::new("sleep");
        let ended = run(command.arg("1000"), Duration::from_millis(50), |_| {}).expect("runs");
        assert!(!ended.is_success && ended.how.starts_with("killed"), "{}", ended.how);
    }
}
