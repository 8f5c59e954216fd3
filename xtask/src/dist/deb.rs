//! The package for Debian and systems made from it: an archive of three files.
//!
//! Form: deb(5) and the Debian Policy, chapter 5. dpkg-deb is not needed to make it, and it is equal
//! wherever it is made. No package has scripts: what it installs is its files, and removing them is all that
//! removes it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Cursor;
use std::path::Path;

use crate::Result;

use super::contents::Installed;
use super::product::Product;
use super::tarball::{Tarball, compressed};

/// Writes the package into `dir`.
pub(super) fn write(product: &Product, dir: &Path) -> Result<()> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => return Err(format!("Debian's name of {other} is not known here").into()),
    };
    let mut metadata = Tarball::new();
    metadata.file("control", 0o644, 0, control(product, architecture)?.as_bytes())?;
    let parts = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", compressed(&metadata.finish()?)?),
        ("data.tar.gz", compressed(&data(&product.files)?)?),
    ];
    let mut archive = ar::Builder::new(Vec::new());
    for (name, bytes) in parts {
        let mut header = ar::Header::new(name.into(), bytes.len().try_into()?);
        header.set_mode(0o100_644);
        archive.append(&header, Cursor::new(bytes))?;
    }
    let name = format!("{}_{}_{architecture}.deb", product.name, product.version);
    Ok(fs::write(dir.join(name), archive.into_inner()?)?)
}

fn control(product: &Product, architecture: &str) -> Result<String> {
    let kib = product.files.iter().map(|file| file.bytes.len()).sum::<usize>().div_ceil(1024);
    let mut text = format!(
        "Package: {}\nVersion: {}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {kib}\n",
        product.name, product.version,
    );
    let one = |name: Option<&str>| name.map(str::to_owned).into_iter().collect::<Vec<_>>();
    for (field, packages) in [
        ("Depends", product.needs.of_debian()),
        ("Recommends", one(product.recommends)),
        ("Suggests", one(product.suggests)),
    ] {
        if !packages.is_empty() {
            writeln!(text, "{field}: {}", packages.join(", "))?;
        }
    }
    writeln!(
        text,
        "Section: {}\nPriority: optional\nHomepage: {}\nDescription: {}\n {}",
        product.section, product.homepage, product.summary, product.description,
    )?;
    Ok(text)
}

/// The files below the root, each folder before what is in it.
fn data(contents: &[Installed]) -> Result<Vec<u8>> {
    let mut data = Tarball::new();
    let mut folders = BTreeSet::new();
    for file in contents {
        for (at, _) in file.path.match_indices('/') {
            let folder = &file.path[..=at];
            if folders.insert(folder) {
                data.folder(folder, 0o755, 0)?;
            }
        }
        data.file(&file.path, file.mode, 0, &file.bytes)?;
    }
    data.finish()
}

const MAINTAINER: &str = "The Loligo authors <loligo@example.invalid>";

#[cfg(test)]
mod tests {
    use super::super::packages::Packages;
    use super::super::shared::Needs;
    use super::*;

    fn installed(path: &str, len: usize) -> Installed {
        Installed { path: path.to_owned(), mode: 0o644, bytes: vec![0; len] }
    }

    #[test]
    fn the_control_file_has_the_fields_that_apply() {
        let packages = Packages::of("loligo").expect("cargo metadata works");
        let about = packages.root().expect("a root");
        let program = Product::program(about, vec![installed("usr/bin/loligo", 1025)]).expect("a product");
        let text = control(&program, "amd64").expect("a control file");
        assert!(text.starts_with("Package: loligo\nVersion: "), "{text}");
        assert!(text.contains("\nInstalled-Size: 2\nSuggests: fuse3\nSection: admin\n"), "{text}");
        let libraries = Product::libraries(about, Needs::default(), Vec::new()).expect("a product");
        let text = control(&libraries, "amd64").expect("a control file");
        assert!(text.contains("\nInstalled-Size: 0\nRecommends: loligo\nSection: libs\n"), "{text}");
        // Each line is a field, or goes on with the one above.
        assert!(text.lines().all(|line| line.contains(": ") || line.starts_with(' ')), "{text}");
        assert!(text.ends_with(".\n"));
    }

    #[test]
    fn each_folder_is_there_once_before_its_files() {
        let data = data(&[installed("usr/lib/a", 1), installed("usr/lib/b/c", 1)]).expect("a tar file");
        let mut archive = tar::Archive::new(&*data);
        let paths = archive
            .entries()
            .expect("entries")
            .map(|entry| String::from_utf8_lossy(&entry.expect("an entry").path_bytes()).into_owned());
        let paths: Vec<_> = paths.collect();
        assert_eq!(paths, ["usr/", "usr/lib/", "usr/lib/a", "usr/lib/b/", "usr/lib/b/c"]);
    }
}
