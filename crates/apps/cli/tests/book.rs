//! Goal: the commands that the user's book shows work as shown. Method: the commands of each page
//! (`docs/book/*.md`, blocks marked `console`) run in a directory of their own, in order. Each must end
//! with status 0 and print the text below it, where `…` is any text.
//!
//! A command that ends in `&` stays in the background; the next one runs when it has printed something.
//! A `loligo serve` without `--mon-addr` gets a free port.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The character that stands for any text.
const ANY: char = '…';

struct Step {
    command: String,
    output: String,
}

#[test]
fn each_command_of_the_book_does_what_the_book_shows() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/book");
    let mut wrong = String::new();
    let mut steps_in_all = 0;
    for entry in fs::read_dir(&book).expect("the book") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let steps = steps(&fs::read_to_string(&path).expect("a page"));
            steps_in_all += steps.len();
            try_page(&path, &steps, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(steps_in_all > 50, "{steps_in_all} commands were found");
}

/// Returns the commands of a page, each with the output shown below it.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        match line {
            "```console" => is_inside = true,
            "```" => is_inside = false,
            _ if !is_inside => {}
            _ => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { command: command.to_owned(), output: String::new() });
                }
                (None, Some(step)) => writeln!(step.output, "{line}").expect("memory"),
                (None, None) => panic!("output before the first command: {line}"),
            },
        }
    }
    steps
}

fn try_page(page: &Path, steps: &[Step], wrong: &mut String) {
    if steps.is_empty() {
        return;
    }
    let name = page.file_stem().expect("a name").to_string_lossy().into_owned();
    let dir = env::temp_dir().join(format!("loligo-book-{name}.{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    let status = Command::new("bash")
        .args(["-c", &script(steps)])
        .current_dir(&dir)
        .env("PATH", path_with_loligo())
        .env("HOME", &dir)
        .env_remove("CEPH_CONF")
        .env_remove("CEPH_ARGS")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.is_ok(), "{name}: {status:?}");
    for (i, step) in steps.iter().enumerate() {
        let read = |what: &str| fs::read_to_string(dir.join(format!("{what}.{i}"))).unwrap_or_default();
        let (output, status) = (read("out"), read("status"));
        let status = status.trim();
        if !matches(step.output.trim_end(), output.trim_end()) || !["", "0"].contains(&status) {
            writeln!(
                wrong,
                "{name}: $ {}\nstatus {status}, shown:\n{}printed:\n{output}",
                step.command, step.output
            )
            .expect("memory");
        }
    }
    let _ = fs::remove_dir_all(&dir);
}

/// Builds a script of all commands, which records the output and status of each.
fn script(steps: &[Step]) -> String {
    let mut script = String::new();
    for (i, step) in steps.iter().enumerate() {
        let command = match step.command.strip_prefix("loligo serve ") {
            Some(rest) if !rest.contains("--mon-addr") => {
                format!("loligo serve --mon-addr 127.0.0.1:0 {rest}")
            }
            _ => step.command.clone(),
        };
        match command.strip_suffix('&') {
            Some(command) => write!(
                script,
                "{command} >\"$HOME/out.{i}\" 2>&1 &\n\
                 until [ -s \"$HOME/out.{i}\" ]; do kill -0 $! || break; sleep 0.02; done\n"
            ),
            None => {
                write!(script, "{{ {command}\n}} >\"$HOME/out.{i}\" 2>&1; echo $? >\"$HOME/status.{i}\"\n")
            }
        }
        .expect("memory");
    }
    script + "kill $(jobs -p); wait\n"
}

fn path_with_loligo() -> String {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_loligo"));
    let dir = program.parent().expect("a directory").display().to_string();
    format!("{dir}:{}", env::var("PATH").unwrap_or_default())
}

/// Returns `true` if a text matches the shown one, in which [`ANY`] stands for any text.
fn matches(shown: &str, text: &str) -> bool {
    let mut parts = shown.split(ANY);
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn an_ellipsis_is_any_text() {
    for (shown, text, is) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("", "a", false),
        ("…", "", true),
        ("a … c", "a b c", true),
        ("a … c", "a b", false),
        ("ready …", "ready conf", true),
        ("…\np …\n…", "x\np 1\ny", true),
    ] {
        assert_eq!(matches(shown, text), is, "{shown:?} and {text:?}");
    }
}
