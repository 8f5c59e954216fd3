//! `cargo xtask lint`: the checks that do not run the program.

use std::fs;
use std::process::Command;

use crate::process::{cargo, installed, output_of, succeed, workspace};
use crate::{Result, api, outside, tidy};

/// The checker of dependencies, in the version for which the rules were written.
const CARGO_DENY: &str = "cargo-deny@0.20.2";

/// The arguments of `cargo xtask lint`.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Checks only the project's own rules, which takes seconds and builds nothing.
    #[arg(long)]
    rules: bool,
    /// Checks only files that are read elsewhere: workflows, scripts, the formula, crates for macOS.
    #[arg(long, conflicts_with = "rules")]
    outside: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.rules {
        return tidy::run();
    }
    if options.outside {
        return outside::check();
    }
    println!("== format");
    succeed(cargo().args(["fmt", "--all", "--check"]))?;
    println!("== clippy");
    succeed(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    println!("== public API");
    api::check()?;
    println!("== documentation");
    succeed(
        cargo()
            .args(["doc", "--workspace", "--no-deps", "--document-private-items"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    println!("== our own rules");
    tidy::run()?;
    outside::check()?;
    oldest_compiler()?;
    dependencies()?;
    println!("lint: all well");
    Ok(())
}

/// Builds with the oldest compiler that the manifest promises, if rustup has it on this machine.
fn oldest_compiler() -> Result<()> {
    println!("== the oldest compiler");
    let manifest: toml::Table = toml::from_str(&fs::read_to_string(workspace().join("Cargo.toml"))?)?;
    let version =
        manifest.get("workspace").and_then(|w| w.get("package")).and_then(|p| p.get("rust-version"));
    let version = version.and_then(toml::Value::as_str).ok_or("Cargo.toml has no rust-version")?;
    let there = installed("rustup").then(|| output_of(Command::new("rustup").args(["toolchain", "list"])));
    let is_it = |line: &str| line.strip_prefix(version).is_some_and(|rest| rest.starts_with(['-', '.']));
    if !there.is_some_and(|list| list.is_ok_and(|list| list.lines().any(is_it))) {
        println!("left out: rust {version} (rustup toolchain install {version})");
        return Ok(());
    }
    let mut check = Command::new("rustup");
    check.args([
        "run",
        version,
        "cargo",
        "check",
        "--workspace",
        "--locked",
        "--target-dir",
        "target/oldest",
    ]);
    succeed(check.current_dir(workspace()).env_remove("CARGO"))
}

/// Checks licences, sources and duplicates of the dependencies. In CI no check may be left out, so there
/// the checker is installed.
fn dependencies() -> Result<()> {
    if !installed("cargo-deny") {
        if std::env::var_os("CI").is_none() {
            println!(
                "left out: dependencies (cargo-deny is not installed: cargo install --locked {CARGO_DENY})"
            );
            return Ok(());
        }
        println!("== cargo-deny");
        succeed(cargo().args(["install", "--locked", "--quiet", CARGO_DENY]))?;
    }
    println!("== dependencies");
    succeed(cargo().args(["deny", "check", "bans", "licenses", "sources"]))?;
    advisories()
}

/// Checks the dependencies for known vulnerabilities in the RustSec database, which is fetched. A
/// machine that cannot reach the database leaves this check out and says so: no change of the code can
/// fix that.
fn advisories() -> Result<()> {
    println!("== advisories");
    if succeed(cargo().args(["deny", "fetch", "db"])).is_err() {
        println!("left out: advisories (the database of RustSec cannot be fetched)");
        return Ok(());
    }
    succeed(cargo().args(["deny", "--offline", "check", "advisories"]))
}
