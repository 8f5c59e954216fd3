//! `cargo xtask lint`: the checks that do not run the program.

use crate::process::{cargo, installed, succeed};
use crate::{Result, tidy};

/// The checker of dependencies, in the version for which the rules were written.
const CARGO_DENY: &str = "cargo-deny@0.20.2";

pub(crate) fn run() -> Result<()> {
    println!("== format");
    succeed(cargo().args(["fmt", "--all", "--check"]))?;
    println!("== clippy");
    succeed(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    println!("== documentation");
    succeed(
        cargo()
            .args(["doc", "--workspace", "--no-deps", "--document-private-items"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    println!("== our own rules");
    tidy::run()?;
    dependencies()?;
    println!("lint: all well");
    Ok(())
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
