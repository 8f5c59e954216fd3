//! The program: one file that needs no shared library.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::process::{cargo, output_of, succeed, workspace};

/// The target that the program is built for. It is named even where it is the host's, so that procedural
/// macros, which the compiler loads as shared libraries, are built without the flags of the program.
pub(super) fn target() -> Result<String> {
    let version = output_of(Command::new("rustc").arg("-vV").current_dir(workspace()))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc -vV names no host")?.to_owned())
}

/// Where the program comes from.
pub(super) enum Source<'a> {
    /// It is built as it is handed out.
    Built,
    /// It is built without optimisation, to try the packages.
    Debug,
    /// Somebody has built it.
    Given(&'a Path),
}

/// Puts the program into `dir`.
pub(super) fn place(source: &Source<'_>, dir: &Path) -> Result<PathBuf> {
    let built = match source {
        Source::Built => build()?,
        Source::Debug => build_quickly()?,
        Source::Given(file) => file.to_path_buf(),
    };
    let program = dir.join("loligo");
    // The file that is given may be this one.
    let copy = dir.join("loligo.new");
    fs::copy(&built, &copy).map_err(|why| format!("cannot copy {}: {why}", built.display()))?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
    // A program that runs keeps its old file.
    fs::rename(&copy, &program)?;
    check(&program)?;
    Ok(program)
}

fn build() -> Result<PathBuf> {
    let target = target()?;
    let folder = workspace().join("target").join("dist");
    let mut build = cargo();
    build.args(["build", "--locked", "--profile", "dist", "--package", "loligo", "--target", &target]);
    build.arg("--target-dir").arg(&folder);
    build
        .env("RUSTFLAGS", rust_flags(&target)?)
        .env("CFLAGS", c_flags()?)
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    succeed(&mut build)?;
    Ok(folder.join(&target).join("dist").join("loligo"))
}

/// Links the packages of the debug build anew, without shared libraries; none is compiled twice.
fn build_quickly() -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["rustc", "--locked", "--package", "loligo", "--bin", "loligo", "--"]);
    succeed(build.arg("-Ctarget-feature=+crt-static"))?;
    Ok(workspace().join("target").join("debug").join("loligo"))
}

/// Where random numbers are from: the kernel's call. Otherwise the crate looks for the C library's function
/// in shared libraries, finds none, and reads `/dev/random`, which an empty root does not have.
const RANDOM: &str = r#"getrandom_backend="linux_getrandom""#;

/// The target for which rustc links with its own lld. Other linkers do not know all of [`SMALL`].
const LINKED_BY_LLD: &str = "x86_64-unknown-linux-gnu";

/// Functions that are equal are there once (Rust does not promise that functions have different addresses),
/// as are the ends of strings, and the places that hold addresses are a map of bits instead of a table.
const SMALL: &str = " -Clink-arg=-Wl,--icf=all,-O2,-z,pack-relative-relocs";

/// No shared libraries, and no folder of this machine in the program: two machines make equal files. Cargo
/// forgets `strip` for a package that has another setting of its own in the profile.
fn rust_flags(target: &str) -> Result<String> {
    let renamed =
        folders()?.map(|(folder, name)| format!(" --remap-path-prefix={}={name}", folder.display()));
    let small = if target == LINKED_BY_LLD { SMALL } else { "" };
    let renamed = renamed.concat();
    Ok(format!("-Ctarget-feature=+crt-static -Cstrip=symbols{small} --cfg {RANDOM}{renamed}"))
}

/// No panic passes through C: its functions need no tables for it.
fn c_flags() -> Result<String> {
    let renamed = folders()?.map(|(folder, name)| format!("-ffile-prefix-map={}={name} ", folder.display()));
    Ok(format!("{}-fno-asynchronous-unwind-tables -fno-unwind-tables", renamed.concat()))
}

/// The folders whose names compilers would write into what they make, and what stands for them there.
fn folders() -> Result<[(PathBuf, &'static str); 2]> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let registry = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    Ok([(workspace(), "/loligo"), (registry.ok_or("neither CARGO_HOME nor HOME is set")?, "/cargo")])
}

/// Checks that the program asks for no interpreter and no library.
fn check(program: &Path) -> Result<()> {
    let headers =
        output_of(Command::new("readelf").args(["-W", "--program-headers", "--dynamic"]).arg(program))?;
    match headers.lines().find(|line| line.contains(" INTERP ") || line.contains("(NEEDED)")) {
        None => Ok(()),
        Some(line) => Err(format!(
            "{} needs a shared library, which an image does not have: {}; link it statically",
            program.display(),
            line.trim()
        )
        .into()),
    }
}

/// Has the program write its manual pages and completions.
pub(super) fn describe(program: &Path, dir: &Path) -> Result<()> {
    let (manual, completions) = (dir.join("man"), dir.join("completions"));
    for folder in [&manual, &completions] {
        fs::create_dir_all(folder)?;
    }
    succeed(Command::new(program).arg("manual").arg(&manual))?;
    for (shell, file) in [("bash", "loligo"), ("zsh", "_loligo"), ("fish", "loligo.fish")] {
        let script = output_of(Command::new(program).args(["completions", shell]))?;
        fs::write(completions.join(file), script)?;
    }
    Ok(())
}
