//! Goal: no word of a command line, and nothing in the environment, makes the program panic. Method:
//! each command gets a word that is not UTF-8 in each position, and as the value of each option.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs, thread};

use loligo_server::Server;

const OURS: &str = env!("CARGO_BIN_EXE_loligo");
const BYTES: &[u8] = b"a\xff\xc3";

/// A command's subcommands, the number of its words, and its options that have a value.
#[derive(Clone, Debug, Default)]
struct Shape {
    path: Vec<String>,
    commands: Vec<String>,
    words: usize,
    options: Vec<String>,
}

fn help(path: &[String]) -> String {
    let output = Command::new(OURS).args(path).arg("-h").env_remove("CEPH_ARGS").output().expect("it runs");
    String::from_utf8(output.stdout).expect("help is text")
}

/// Reads a command's shape from its help.
fn shape(path: &[String]) -> Shape {
    let (text, mut shape) = (help(path), Shape { path: path.to_vec(), ..Shape::default() });
    let mut section = "";
    // The program's own commands stand under headings of their own, before its options.
    let lists_commands =
        |section: &str| section == "Commands:" || path.is_empty() && !section.starts_with("Options");
    for line in text.lines() {
        if let Some(usage) = line.strip_prefix("Usage: ") {
            let placed = usage.split_whitespace().skip(1 + path.len());
            let is_word =
                |word: &str| word.starts_with(['<', '[']) && !["[OPTIONS]", "<COMMAND>"].contains(&word);
            shape.words = placed.filter(|word| is_word(word)).count();
        } else if line.ends_with(':') && !line.starts_with(' ') {
            section = line;
        } else if lists_commands(section) && line.starts_with("  ") && !line.starts_with("   ") {
            shape.commands.extend(line.split_whitespace().next().map(str::to_owned));
        } else if section.starts_with("Options") && line.contains("--") {
            let option = line.split_whitespace().find(|word| word.starts_with("--"));
            let has_value = line.split("  ").any(|part| part.contains("--") && part.contains('<'));
            shape.options.extend(option.filter(|_| has_value).map(str::to_owned));
        }
    }
    // The `help` command that clap adds is removed; `config help` is ours.
    shape.commands.retain(|command| command != "help" || path == ["config"]);
    shape
}

/// Returns all commands without subcommands.
fn leaves() -> Vec<Shape> {
    let (mut open, mut leaves) = (vec![shape(&[])], Vec::new());
    while let Some(at) = open.pop() {
        for command in &at.commands {
            open.push(shape(&[&at.path[..], std::slice::from_ref(command)].concat()));
        }
        if at.commands.is_empty() {
            leaves.push(at);
        }
    }
    leaves
}

/// Returns command lines with a word that is not UTF-8 in each position, and in all of them.
fn lines(leaf: &Shape) -> Vec<Vec<Vec<u8>>> {
    let path = leaf.path.iter().map(|word| word.as_bytes().to_vec());
    let filled = |odd: &dyn Fn(usize) -> bool, more: &[&[u8]]| {
        let words = (0..leaf.words).map(|at| if odd(at) { BYTES.to_vec() } else { b"1".to_vec() });
        path.clone().chain(words).chain(more.iter().map(|word| word.to_vec())).collect::<Vec<_>>()
    };
    let mut all = vec![filled(&|_| true, &[])];
    all.extend((0..leaf.words).map(|at| filled(&|n| n == at, &[])));
    for (number, option) in leaf.options.iter().enumerate() {
        all.push(match number % 2 {
            0 => filled(&|_| false, &[option.as_bytes(), BYTES]),
            _ => filled(&|_| false, &[&[option.as_bytes(), b"=", BYTES].concat()]),
        });
    }
    all
}

/// Runs the program and returns its status and error output. It is killed after five seconds.
fn run(conf: &Path, dir: &Path, line: &[Vec<u8>], environment: &[(&str, &[u8])]) -> (Option<i32>, String) {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "5", OURS, "-p", "p", "--client-mount-timeout", "5"]);
    command.args(line.iter().map(|word| OsStr::from_bytes(word)));
    command
        .env("CEPH_CONF", conf)
        .env_remove("CEPH_ARGS")
        .current_dir(dir)
        .stdin(std::process::Stdio::null());
    // Sockets without a given path are created there.
    command.env("XDG_RUNTIME_DIR", dir);
    command.envs(environment.iter().map(|(name, value)| (name, OsStr::from_bytes(value))));
    let output = command.output().expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn check(conf: &Path, dir: &Path, line: &[Vec<u8>], environment: &[(&str, &[u8])]) {
    let (status, said) = run(conf, dir, line, environment);
    let shown: Vec<_> = line.iter().map(|word| word.escape_ascii().to_string()).collect();
    assert!(status != Some(101) && !said.contains("panicked"), "{shown:?} {environment:?}: {said}");
}

#[test]
fn no_word_makes_it_panic() {
    let server = Server::memory().pool("p").start().expect("the server starts");
    let dir = env::temp_dir().join(format!("loligo-any-word-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("room");
    let leaves = leaves();
    let known: BTreeSet<String> = leaves.iter().map(|leaf| leaf.path.join(" ")).collect();
    for one in ["put", "rbd group snap rename", "nbd attach", "config help", "file layout"] {
        assert!(known.contains(one), "{one} is not among {known:?}");
    }
    // Commands that run for a long time whatever their words are left out.
    let stays = |leaf: &Shape| ["demo", "contend"].contains(&&*leaf.path.join(" "));
    // The program's own options are the same for all commands, so they are tested with one.
    let common = shape(&[]).options;
    let own = |leaf: &Shape| {
        let mut leaf = leaf.clone();
        leaf.options.retain(|option| leaf.path == ["ls"] || !common.contains(option));
        lines(&leaf)
    };
    let lines: Vec<_> = leaves.iter().filter(|leaf| !stays(leaf)).flat_map(own).collect();
    let (conf, threads) = (server.conf(), thread::available_parallelism().map_or(2, usize::from));
    thread::scope(|scope| {
        for first in 0..threads {
            let (lines, dir) = (&lines, &dir);
            scope.spawn(move || {
                lines.iter().skip(first).step_by(threads).for_each(|line| check(conf, dir, line, &[]));
            });
        }
    });
    let _ = fs::remove_dir_all(&dir);
}

#[test]
fn no_environment_makes_it_panic() {
    let server = Server::memory().pool("p").start().expect("the server starts");
    let dir = env::temp_dir();
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    for name in ["CEPH_ARGS", "CEPH_CONF", "CEPH_KEYRING", "HOME", "TMPDIR", "NO_COLOR", "LANG", "COLUMNS"] {
        for line in ["ls", "rbd ls", "file ls", "config ls", "--help"] {
            check(server.conf(), &dir, &words(line), &[(name, BYTES), ("LOLIGO_ODD", BYTES)]);
        }
    }
}
