//! What commands print. `println!` panics where nobody reads any more (`loligo ls | head`), as Rust's
//! programs are not ended by SIGPIPE: connections need it to be ignored.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a shell shows of a program that SIGPIPE has ended (128 and the signal's number).
const PIPE_CLOSED: i32 = 141;

/// Whether a write to the standard output has failed as its reader has gone. Relaxed: only the thread that
/// ends the program reads it.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// Prints on the standard output; ends the program if that cannot be: quietly if the reader has gone, as
/// other programs end then.
pub(crate) fn say(text: Arguments<'_>) {
    if let Err(e) = Stdout.write_fmt(text) {
        end(&e);
    }
}

fn end(why: &io::Error) -> ! {
    let status = end_of_reader().unwrap_or_else(|| {
        eprintln!("loligo: write standard output: {why}");
        1
    });
    std::process::exit(status);
}

/// The same for bytes.
pub(crate) fn say_bytes(bytes: &[u8]) {
    if let Err(e) = Stdout.write_all(bytes) {
        end(&e);
    }
}

/// The standard output, for bytes. A command that fails at it ends as [`end_of_reader`] says, when it has
/// given up its locks.
pub(crate) struct Stdout;

impl io::Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        noted(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        noted(io::stdout().flush())
    }
}

fn noted<T>(written: io::Result<T>) -> io::Result<T> {
    let gone = written.as_ref().is_err_and(|e| e.kind() == ErrorKind::BrokenPipe);
    READER_GONE.fetch_or(gone, Ordering::Relaxed);
    written
}

/// The status of a program that fails because nobody reads its output any more: there is nothing to say then.
pub(crate) fn end_of_reader() -> Option<i32> {
    READER_GONE.load(Ordering::Relaxed).then_some(PIPE_CLOSED)
}

/// `print!`, but see [`fn@say`].
macro_rules! say {
    ($($text:tt)*) => { $crate::say::say(format_args!($($text)*)) };
}

/// The same for a line that has names in it as [`crate::name::shown`] writes them: they are printed as their
/// bytes.
pub(crate) fn say_line(line: &str) {
    let mut bytes = crate::name::as_bytes(line);
    bytes.push(b'\n');
    say_bytes(&bytes);
}

/// `println!`, but see [`fn@say`].
macro_rules! sayln {
    () => { $crate::say::say(format_args!("\n")) };
    ($($text:tt)*) => { $crate::say::say(format_args!("{}\n", format_args!($($text)*))) };
}
