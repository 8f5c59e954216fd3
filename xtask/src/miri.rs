//! `cargo xtask miri`: runs the tests of the crates with unsafe code in an interpreter that detects
//! undefined behaviour.

use std::process::{Command, Stdio};

use crate::Result;
use crate::process::{output_of, succeed, workspace};

/// The packages, the arguments of their tests, and Miri's flags.
const PACKAGES: [(&str, &[&str], &str); 3] = [
    ("loligo-lane", &[], FLAGS),
    // Not the documentation: an example of it is refused by the compiler on purpose.
    ("loligo-lockstat", &["--lib", "--tests"], FLAGS_OF_LOCKS),
    // The rings and their merge. Other tests of this crate send signals and kill their own processes.
    ("loligo-logring", &["--lib", "--", "raw::", "merge::", "arrivals::", "entry::"], FLAGS),
];

/// The code that Miri cannot run, since it does not support the system calls.
const LEFT_OUT: [&str; 3] = [
    "loligo-heap: all of it calls mimalloc, which is C",
    "loligo-logring: signal handlers (crash.rs) and the tests of whole programs",
    "loligo-store-disk: the ring of the disk reader (ring.rs), which is io_uring's",
];

/// The tests use real time and read files of the system.
const FLAGS: &str = "-Zmiri-disable-isolation";

/// A scope waits for its threads' work, not for their end: some still end when the tests are over, which Miri
/// takes for a leak.
const FLAGS_OF_LOCKS: &str = "-Zmiri-disable-isolation -Zmiri-ignore-leaks";

/// Random cases per property: the interpreter is some hundred times slower than native code.
const CASES: &str = "4";

pub(crate) fn run() -> Result<()> {
    if !is_there() {
        println!("left out: Miri is not installed (rustup component add miri rust-src --toolchain nightly)");
        return Ok(());
    }
    for (package, arguments, flags) in PACKAGES {
        println!("== Miri: {package}");
        let mut miri = nightly();
        miri.args(["miri", "test", "--package", package]).args(arguments);
        succeed(miri.env("MIRIFLAGS", flags).env("PROPTEST_CASES", CASES))?;
    }
    LEFT_OUT.iter().for_each(|what| println!("left out: {what}"));
    Ok(())
}

fn is_there() -> bool {
    output_of(nightly().args(["miri", "--version"]).stderr(Stdio::null())).is_ok()
}

/// Cargo of the nightly toolchain, which is not the one that runs this command.
fn nightly() -> Command {
    let mut cargo = Command::new("rustup");
    cargo.args(["run", "nightly", "cargo"]).current_dir(workspace());
    cargo
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env("CARGO_TARGET_DIR", workspace().join("target/miri"));
    cargo
}
