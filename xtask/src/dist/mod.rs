//! `cargo xtask dist DIR`: what is handed out, made from this repository alone.
//!
//! One program that needs no shared library, its manual pages and completions, a container image with
//! nothing else in it, packages for Debian and for systems with RPM, a list of what is inside (CycloneDX),
//! the licences of that, and checksums of all files. Two runs over the same sources and the same toolchain
//! make equal files: nothing here depends on the time, on the folder, or on the order in which a folder is
//! read. `--libs DIR` makes the libraries for C and packages of them. `--doors` goes the ways by which a
//! stranger gets the program, as the book shows them.

mod contents;
mod deb;
mod doors;
mod image;
mod licences;
mod packages;
mod product;
mod program;
mod rpm;
mod sbom;
mod shared;
mod sums;
mod tarball;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::libs;

use packages::Packages;
use product::Product;
use program::Source;

#[derive(clap::Args)]
#[group(id = "dist")]
pub(crate) struct Options {
    /// The folder that gets the program and all that comes with it.
    #[arg(value_name = "DIR", required_unless_present_any = ["libs", "write_headers"])]
    dir: Option<PathBuf>,
    /// Packs this program instead of building one.
    #[arg(long, value_name = "FILE", requires = "dir", conflicts_with = "debug")]
    program: Option<PathBuf>,
    /// Then installs what is in DIR in clean Debian roots, as docs/book/installing.md shows it.
    #[arg(long, requires = "dir")]
    doors: bool,
    #[command(flatten)]
    libs: libs::Options,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let libs = libs::run(&options.libs)?;
    let about = Packages::of("loligo")?;
    if let Some(dir) = options.dir.as_deref() {
        fs::create_dir_all(dir)?;
        let source = match &options.program {
            Some(file) => Source::Given(file),
            None if options.libs.debug => Source::Debug,
            None => Source::Built,
        };
        make(&source, &about, dir)?;
    }
    if let Some(libs) = libs {
        let packages = Packages::of("loligo-capi")?;
        let files = contents::of_the_libraries(libs, &packages)?;
        let needs = shared::Needs::of(&libs.join("librados.so.2"))?;
        let product = Product::libraries(about.root()?, needs, files)?;
        write_packages(&product, options.dir.as_deref().unwrap_or(libs))?;
    }
    let Some(dir) = options.dir.as_deref() else { return Ok(()) };
    fs::write(dir.join("SHA256SUMS"), sums::of_files(dir)?)?;
    for name in sums::files(dir)? {
        println!("{:>11}  {name}", fs::metadata(dir.join(&name))?.len());
    }
    if options.doors { doors::try_all(dir) } else { Ok(()) }
}

/// Makes the program and what is made of it alone.
fn make(source: &Source<'_>, packages: &Packages, dir: &Path) -> Result<()> {
    let program = program::place(source, dir)?;
    let root = if matches!(source, Source::Debug) { trial::Root::WithRandom } else { trial::Root::Empty };
    trial::of_the_program(&program, root)?;
    program::describe(&program, dir)?;
    fs::write(dir.join("loligo.cdx.json"), sbom::json(packages)?)?;
    fs::write(dir.join("LICENSES.txt"), licences::text(packages)?)?;
    image::write(&program, &dir.join("loligo-image.tar"))?;
    write_packages(&Product::program(packages.root()?, contents::of_the_program(dir)?)?, dir)
}

fn write_packages(product: &Product, dir: &Path) -> Result<()> {
    deb::write(product, dir)?;
    rpm::write(product, dir)
}
