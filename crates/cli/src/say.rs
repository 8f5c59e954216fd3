//! What commands print. `println!` panics where nobody reads any more (`loligo ls | head`), as Rust's programs are not ended by SIGPIPE:
//! connections need it to be ignored.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write as _};

/// What a shell shows of a program that SIGPIPE has ended (128 and the signal's number).
const PIPE_CLOSED: i32 = 141;

/// Prints on the standard output; ends the program if that cannot be: quietly if the reader has gone, as other programs end then.
pub(crate) fn say(text: Arguments<'_>) {
    let failed = |e: io::Error| match e.kind() {
        ErrorKind::BrokenPipe => PIPE_CLOSED,
        _ => {
            eprintln!("loligo: write standard output: {e}");
            1
        }
    };
    if let Err(status) = io::stdout().lock().write_fmt(text).map_err(failed) {
        std::process::exit(status);
    }
}

/// `print!`, but see [`fn@say`].
macro_rules! say {
    ($($text:tt)*) => { $crate::say::say(format_args!($($text)*)) };
}

/// `println!`, but see [`fn@say`].
macro_rules! sayln {
    () => { $crate::say::say(format_args!("\n")) };
    ($($text:tt)*) => { $crate::say::say(format_args!("{}\n", format_args!($($text)*))) };
}
