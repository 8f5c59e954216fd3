//! Prints the output of commands.
//!
//! `println!` panics when the reader is gone (`loligo ls | head`), since Rust's programs ignore SIGPIPE;
//! connections need that.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// The status that a shell shows for a program ended by SIGPIPE: 128 and the signal's number.
const PIPE_CLOSED: i32 = 141;

/// Set when a write to standard output failed because its reader was gone. Relaxed: only the thread that
/// ends the program reads it.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// Prints on standard output. A failed write ends the program; if the reader is gone, without a message,
/// as other programs end then.
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

/// Prints bytes, with the errors of `say`.
pub(crate) fn say_bytes(bytes: &[u8]) {
    if let Err(e) = Stdout.write_all(bytes) {
        end(&e);
    }
}

/// Standard output as a writer. A command whose write fails releases its locks, and the program then
/// ends as [`end_of_reader`] describes.
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

/// Returns the exit status if the output's reader is gone; no error message is printed then.
pub(crate) fn end_of_reader() -> Option<i32> {
    READER_GONE.load(Ordering::Relaxed).then_some(PIPE_CLOSED)
}

/// Prints like `print!`, but see [`fn@say`].
macro_rules! say {
    ($($text:tt)*) => { $crate::say::say(format_args!($($text)*)) };
}

/// Prints a line with names in the form of [`crate::name::shown`]. The names are printed as their bytes.
pub(crate) fn say_line(line: &str) {
    let mut bytes = crate::name::as_bytes(line);
    bytes.push(b'\n');
    say_bytes(&bytes);
}

/// Prints like `println!`, but see [`fn@say`].
macro_rules! sayln {
    () => { $crate::say::say(format_args!("\n")) };
    ($($text:tt)*) => { $crate::say::say(format_args!("{}\n", format_args!($($text)*))) };
}
