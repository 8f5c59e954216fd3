//! `cargo xtask dist DIR`: what is handed out, made from this repository alone.
//!
//! One program that needs no shared library, its manual pages and completions, a container image with
//! nothing else in it, packages for Debian and for systems with RPM, a list of what is inside (CycloneDX),
//! the licences of that, and checksums of all files. Two runs over the same sources and the same toolchain
//! make equal files: nothing here depends on the time, on the folder, or on the order in which a folder is
//! read. `--libs DIR` makes the libraries for C.

mod contents;
mod deb;
mod image;
mod licences;
mod packages;
mod program;
mod rpm;
mod sbom;
mod sums;
mod tarball;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::libs;

use packages::Packages;

#[derive(clap::Args)]
#[group(id = "dist")]
pub(crate) struct Options {
    /// The folder that gets the program and all that comes with it.
    #[arg(value_name = "DIR", required_unless_present_any = ["libs", "write_headers"])]
    dir: Option<PathBuf>,
    #[command(flatten)]
    libs: libs::Options,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    libs::run(&options.libs)?;
    options.dir.as_deref().map_or(Ok(()), make)
}

fn make(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    let program = program::build(dir)?;
    trial::of_the_program(&program)?;
    program::describe(&program, dir)?;
    let packages = Packages::of_the_program()?;
    fs::write(dir.join("loligo.cdx.json"), sbom::json(&packages)?)?;
    fs::write(dir.join("LICENSES.txt"), licences::text(&packages)?)?;
    image::write(&program, &dir.join("loligo-image.tar"))?;
    let about = packages.root()?;
    let contents = contents::of_the_package(dir)?;
    deb::write(about, &contents, dir)?;
    rpm::write(about, &contents, dir)?;
    fs::write(dir.join("SHA256SUMS"), sums::of_files(dir)?)?;
    for name in sums::files(dir)? {
        println!("{:>11}  {name}", fs::metadata(dir.join(&name))?.len());
    }
    Ok(())
}
