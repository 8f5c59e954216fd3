//! Running programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;

/// The folder of the workspace.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

/// Cargo, in the workspace.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace());
    cargo
}

/// Runs a command to its end; its output goes to this process's output.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|e| format!("{}: {e}", name(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} failed: {status}", name(command)).into()) }
}

/// Runs a command and returns its stdout; if it fails, its stderr is part of the error.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{}: {e}", name(command)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} failed: {}", name(command), stderr.trim()).into())
}

/// Whether a program is on the PATH.
pub(crate) fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn name(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
