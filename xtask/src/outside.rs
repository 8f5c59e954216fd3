//! Checks of files that are read elsewhere: by GitHub, by Homebrew, by a compiler for macOS.
//!
//! Each check needs a program that not every machine has. A machine without it leaves the check out, by name.

use std::fs;
use std::process::Command;

use crate::Result;
use crate::process::{cargo, installed, output_of, succeed, workspace};

/// The checker of workflows, which is a Go module. It reads the action that a workflow uses, too.
const ACTIONLINT: &str = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12";

const FORMULA: &str = "packaging/homebrew/loligo.rb";

/// The scripts of what is handed out and of CI.
const SCRIPTS: [&str; 2] = ["packaging/action/serve.sh", ".ci/run"];

/// The target of Macs.
const MACOS: &str = "aarch64-apple-darwin";

/// The crates that compile for macOS. `lockstat` and `logring`, and with them all others, wait on the futexes
/// of Linux; `msgr-proto` compiles C, which needs a compiler for macOS.
const FOR_MACOS: [&str; 7] = [
    "loligo-types",
    "loligo-wire",
    "loligo-layout",
    "loligo-maps",
    "loligo-cephx",
    "loligo-fs-core",
    "loligo-nbd-proto",
];

pub(crate) fn check() -> Result<()> {
    workflows()?;
    println!("== scripts");
    for script in SCRIPTS {
        succeed(Command::new("bash").args(["-n", script]).current_dir(workspace()))?;
    }
    formula()?;
    macos()
}

/// Checks the workflows, and the scripts in them if shellcheck is installed.
fn workflows() -> Result<()> {
    println!("== workflows");
    if !installed("go") {
        println!("left out: workflows (go is not installed; it fetches {ACTIONLINT})");
        return Ok(());
    }
    let folder = workspace().join("target/tools");
    fs::create_dir_all(&folder)?;
    // No change of the code can help a machine that does not reach the proxy of modules.
    if let Err(why) = output_of(Command::new("go").args(["install", ACTIONLINT]).env("GOBIN", &folder)) {
        println!("left out: workflows (actionlint cannot be fetched: {why})");
        return Ok(());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(workspace().join(".github/workflows"))? {
        files.push(entry?.path());
    }
    succeed(Command::new(folder.join("actionlint")).args(&files).current_dir(workspace()))
}

/// Checks that the formula is Ruby. What Homebrew thinks of it, only Homebrew knows.
fn formula() -> Result<()> {
    println!("== formula");
    if !installed("ruby") {
        println!("left out: formula (ruby is not installed)");
        return Ok(());
    }
    output_of(Command::new("ruby").args(["-c", FORMULA]).current_dir(workspace())).map(drop)
}

/// Checks that crates which compile for macOS still do, if rustup has the target on this machine.
fn macos() -> Result<()> {
    println!("== macOS");
    let mut targets = Command::new("rustup");
    targets.args(["target", "list", "--installed"]).current_dir(workspace());
    let there = installed("rustup") && output_of(&mut targets)?.lines().any(|line| line == MACOS);
    if !there {
        println!("left out: macOS (rustup target add {MACOS})");
        return Ok(());
    }
    let mut check = cargo();
    check.args(["check", "--quiet", "--locked", "--target", MACOS, "--target-dir", "target/macos"]);
    for package in FOR_MACOS {
        check.args(["--package", package]);
    }
    succeed(&mut check)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that name the version of what they install.
    const NAMING: [(&str, &str); 3] = [
        ("packaging/action/action.yml", "default: "),
        ("packaging/nix/flake.nix", "version = \""),
        (FORMULA, "tag: \"v"),
    ];

    #[test]
    fn packaging_names_this_version() {
        for (file, before) in NAMING {
            let text = fs::read_to_string(workspace().join(file)).expect("the file");
            let named = format!("{before}{}", env!("CARGO_PKG_VERSION"));
            assert!(text.contains(&named), "{file} does not say '{named}'");
        }
    }
}
