//! `cargo xtask fuzz`: the fuzz targets under libFuzzer, each for a while, with the compiler that builds
//! everything else. What `cargo fuzz` has beside that, the sanitizers, needs a nightly one.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::Result;
use crate::process::{cargo, output_of, succeed, workspace};

/// What has the compiler count which code an input reaches, as `cargo fuzz` does.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// What `cargo xtask fuzz` takes.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The targets; without any, all of them.
    targets: Vec<String>,
    /// For how long each runs, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

impl Options {
    /// All targets.
    pub(crate) fn all(seconds: u64) -> Self {
        Self { targets: Vec::new(), seconds }
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let known = targets()?;
    if let Some(unknown) = options.targets.iter().find(|target| !known.contains(target)) {
        return Err(format!("there is no fuzz target {unknown}; there are {}", known.join(", ")).into());
    }
    let wanted = if options.targets.is_empty() { &known } else { &options.targets };
    let host = host()?;
    let mut build = cargo();
    build.args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", &host]);
    for target in wanted {
        build.args(["--bin", target]);
    }
    build.env("RUSTFLAGS", COVERAGE).env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
    succeed(build.env("CARGO_TARGET_DIR", folder()))?;
    for target in wanted {
        println!("== {target} for {} s", options.seconds);
        fuzz(target, &host, options.seconds)?;
    }
    Ok(())
}

/// Inputs that reach something new are kept beside the build; the repository's corpus is only read.
fn fuzz(target: &str, host: &str, seconds: u64) -> Result<()> {
    let found = folder().join("corpus").join(target);
    fs::create_dir_all(&found)?;
    let mut fuzzer = Command::new(folder().join(host).join("release").join(target));
    fuzzer.arg(format!("-max_total_time={seconds}"));
    fuzzer.arg(format!("-artifact_prefix={}/{target}-", folder().display()));
    fuzzer.arg(found).arg(workspace().join("fuzz/corpus").join(target));
    succeed(&mut fuzzer)
}

fn folder() -> PathBuf {
    workspace().join("target/fuzz")
}

/// The targets' names, in order.
fn targets() -> Result<Vec<String>> {
    let files = fs::read_dir(workspace().join("fuzz/fuzz_targets"))?;
    let mut names = Vec::new();
    for file in files {
        names.extend(file?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// With a target that is named, cargo leaves build scripts as they are.
fn host() -> Result<String> {
    let told = output_of(Command::new("rustc").arg("-vV"))?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not say for which machine it is")?.to_owned())
}
