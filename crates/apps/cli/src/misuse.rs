//! Reports errors in a command line in one line.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::Failure;
use crate::words::CalledAs;

/// Ends the program: prints the requested help, or the error. The status of an error is 1, as for stock
/// programs: 2 would mean ENOENT.
pub(crate) fn end(wrong: &clap::Error, called: CalledAs) -> ! {
    let asks_for_words = wrong.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if wrong.use_stderr() && !asks_for_words {
        let why = absent(wrong, called).unwrap_or_else(|| one_line(&wrong.render().to_string()));
        eprintln!("{}: {}", called.name(), as_called(Failure::new("command line", why).to_string(), called));
    } else if called == CalledAs::Rbd {
        let text = as_called(wrong.render().to_string(), called);
        if wrong.use_stderr() { eprint!("{text}") } else { say!("{text}") }
    } else {
        // The reader of the output may be gone: an error is ignored.
        let _ = wrong.print();
    }
    std::process::exit(i32::from(wrong.use_stderr()))
}

/// Under the name `rbd` the program takes the words of its `rbd` command without that word.
fn as_called(text: String, called: CalledAs) -> String {
    if called == CalledAs::Rbd { text.replace("rbd rbd", "rbd") } else { text }
}

/// Commands of stock `rbd` that this program lacks.
const ABSENT: [&str; 13] = [
    "bash-completion",
    "device",
    "encryption",
    "journal",
    "map",
    "mirror",
    "nbd",
    "perf",
    "persistent-cache",
    "showmapped",
    "unmap",
    "watch",
    "ggate",
];

/// Returns the error text for a command that only stock `rbd` has.
fn absent(wrong: &clap::Error, called: CalledAs) -> Option<String> {
    let Some(ContextValue::String(command)) = wrong.get(ContextKind::InvalidSubcommand) else { return None };
    let is_known = ABSENT.contains(&command.as_str())
        && (called == CalledAs::Rbd || wrong.render().to_string().contains("loligo rbd"));
    is_known.then(|| format!("'rbd {command}' is not supported here; stock rbd has it"))
}

/// Returns the first paragraphs of clap's text, up to the usage, and a pointer to the help.
fn one_line(text: &str) -> String {
    let (said, usage) = text.split_once("Usage:").unwrap_or((text, ""));
    let said = said.strip_prefix("error: ").unwrap_or(said);
    let paragraphs = said.split("\n\n").map(|paragraph| {
        paragraph
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace("For more information, try '--help'.", "")
    });
    let said = paragraphs.filter(|paragraph| !paragraph.is_empty()).collect::<Vec<_>>().join("; ");
    let is_name =
        |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
    let command = usage.split_whitespace().take_while(is_name).collect::<Vec<_>>().join(" ");
    format!("{said}; see '{} --help'", if command.is_empty() { "loligo" } else { &command })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn a_wrong_command_line_is_one_line() {
        for (said, told) in [
            ("lspools --nosuch=3", "unexpected argument '--nosuch' found; see 'loligo lspools --help'"),
            ("qqqq", "unrecognized subcommand 'qqqq'; see 'loligo --help'"),
            (
                "-p p put o",
                "the following required arguments were not provided: <FILE>; see 'loligo put --help'",
            ),
            ("rbd qqqq", "unrecognized subcommand 'qqqq'; see 'loligo rbd --help'"),
        ] {
            let words = std::iter::once("loligo").chain(said.split(' '));
            let wrong = Cli::command().try_get_matches_from(words).expect_err(said);
            assert_eq!(one_line(&wrong.render().to_string()), told);
        }
    }
}
