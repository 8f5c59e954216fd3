//! A command whose reader has gone (`loligo … | head`) ends quietly, as other programs do.

use std::io;
use std::process::{Command, Stdio};

#[test]
fn where_nobody_reads_a_command_ends_quietly() {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(["completions", "bash"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(141), "as if SIGPIPE had ended it");
}
