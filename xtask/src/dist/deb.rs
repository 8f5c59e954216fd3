//! The package for Debian and systems made from it: an archive of three files.
//!
//! Form: deb(5) and the Debian Policy, chapter 5. dpkg-deb is not needed to make it, and it is equal
//! wherever it is made.

use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;
use std::path::Path;

use cargo_metadata::Package;

use crate::Result;

use super::contents::Installed;
use super::tarball::{Tarball, compressed};

/// Writes the package into `dir`.
pub(super) fn write(about: &Package, contents: &[Installed], dir: &Path) -> Result<()> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => return Err(format!("Debian's name of {other} is not known here").into()),
    };
    let control = control(about, contents, architecture);
    let mut metadata = Tarball::new();
    metadata.file("./control", 0o644, 0, control.as_bytes())?;
    let parts = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", compressed(&metadata.finish()?)?),
        ("data.tar.gz", compressed(&data(contents)?)?),
    ];
    let mut archive = ar::Builder::new(Vec::new());
    for (name, bytes) in parts {
        let mut header = ar::Header::new(name.into(), bytes.len().try_into()?);
        header.set_mode(0o100_644);
        archive.append(&header, Cursor::new(bytes))?;
    }
    let name = format!("loligo_{}_{architecture}.deb", about.version);
    Ok(fs::write(dir.join(name), archive.into_inner()?)?)
}

fn control(about: &Package, contents: &[Installed], architecture: &str) -> String {
    let kib = contents.iter().map(|file| file.bytes.len()).sum::<usize>().div_ceil(1024);
    format!(
        "Package: loligo\nVersion: {}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {kib}\nSuggests: fuse3\nSection: admin\nPriority: optional\nHomepage: {}\n\
         Description: {SUMMARY}\n {DESCRIPTION}\n",
        about.version,
        about.repository.as_deref().unwrap_or_default(),
    )
}

/// The files below the root, each folder before what is in it.
fn data(contents: &[Installed]) -> Result<Vec<u8>> {
    let mut data = Tarball::new();
    let mut folders = BTreeSet::new();
    for file in contents {
        for (at, _) in file.path.match_indices('/') {
            let folder = &file.path[..=at];
            if folders.insert(folder) {
                data.folder(&format!("./{folder}"), 0o755, 0)?;
            }
        }
        data.file(&format!("./{}", file.path), file.mode, 0, &file.bytes)?;
    }
    data.finish()
}

pub(super) const MAINTAINER: &str = "The Loligo authors <loligo@example.invalid>";
pub(super) const SUMMARY: &str = "Ceph-compatible client and server without coarse locks";
pub(super) const DESCRIPTION: &str = "Objects, striped files, images, block devices and CephFS of any Ceph \
                                      cluster, and a server in one process that Ceph's own programs use as a cluster.";
