//! `cargo xtask lint`: what can be checked without running the program.

use crate::process::{cargo, installed, succeed};
use crate::{Result, tidy};

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
    if installed("cargo-deny") {
        println!("== dependencies");
        succeed(cargo().args(["deny", "check", "bans", "licenses", "sources"]))?;
    } else {
        println!("left out: dependencies (cargo-deny is not installed)");
    }
    println!("lint: all well");
    Ok(())
}
