//! What a package installs. Of the program: itself, the helper of mount(8), services, manual pages and
//! completions. Of the libraries: them, headers and files for pkg-config. Of both: licences.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::process::{succeed, workspace};

use super::packages::Packages;
use super::tarball::compressed;
use super::{licences, sbom, sums};

/// A file of a package.
pub(super) struct Installed {
    /// Its path in the system, from the root, without the first slash.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

/// The files of the program's package, in the order of their paths. `dir` has the program and what it wrote
/// of itself.
pub(super) fn of_the_program(dir: &Path) -> Result<Vec<Installed>> {
    let mut files = vec![
        Installed { path: "usr/bin/loligo".to_owned(), mode: 0o755, bytes: fs::read(dir.join("loligo"))? },
        Installed { path: "usr/sbin/mount.loligo".to_owned(), mode: 0o755, bytes: MOUNT_HELPER.into() },
    ];
    folder(&dir.join("man"), "usr/share/man/man1", true, &mut files)?;
    for (file, path) in [
        ("loligo", "usr/share/bash-completion/completions/loligo"),
        ("_loligo", "usr/share/zsh/vendor-completions/_loligo"),
        ("loligo.fish", "usr/share/fish/vendor_completions.d/loligo.fish"),
    ] {
        let bytes = fs::read(dir.join("completions").join(file))?;
        files.push(Installed { path: path.to_owned(), mode: 0o644, bytes });
    }
    folder(&workspace().join("packaging/systemd"), "usr/lib/systemd/system", false, &mut files)?;
    for file in ["LICENSES.txt", "loligo.cdx.json"] {
        files.push(document("loligo", file, fs::read(dir.join(file))?));
    }
    files.push(document("loligo", "copyright", copyright()?));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Where `loligo run` looks for the libraries, seen from `/usr/bin`; no loader and no compiler looks there by
/// itself.
const LIBRARIES: &str = "usr/lib/loligo";

/// The files of the libraries' package, in the order of their paths. `dir` is what `libs::run` made.
pub(super) fn of_the_libraries(dir: &Path, packages: &Packages) -> Result<Vec<Installed>> {
    let mut files = Vec::new();
    // The folder may have packages that were made of it before.
    let belongs = |name: &String| {
        name.contains(".so") || ["include/", "pkgconfig/"].iter().any(|f| name.starts_with(f))
    };
    for name in sums::files(dir)?.into_iter().filter(belongs) {
        let path = dir.join(&name);
        let is_library = name.contains(".so.");
        let bytes = if is_library { stripped(&path)? } else { fs::read(&path)? };
        files.push(Installed { path: format!("{LIBRARIES}/{name}"), mode: 0o644, bytes });
    }
    files.push(document("loligo-libs", "LICENSES.txt", licences::text(packages)?.into_bytes()));
    files.push(document("loligo-libs", "loligo-libs.cdx.json", sbom::json(packages)?));
    files.push(document("loligo-libs", "copyright", copyright()?));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// A library without what only debuggers read.
fn stripped(library: &Path) -> Result<Vec<u8>> {
    let smaller = std::env::temp_dir().join(format!("loligo-stripped.{}", std::process::id()));
    succeed(Command::new("strip").arg("--strip-unneeded").arg("-o").arg(&smaller).arg(library))?;
    let bytes = fs::read(&smaller)?;
    fs::remove_file(&smaller)?;
    Ok(bytes)
}

fn document(package: &str, name: &str, bytes: Vec<u8>) -> Installed {
    Installed { path: format!("usr/share/doc/{package}/{name}"), mode: 0o644, bytes }
}

/// Our own licences; the others' are in `LICENSES.txt`.
fn copyright() -> Result<Vec<u8>> {
    let own = ["LICENSE-MIT", "LICENSE-APACHE"].map(|file| fs::read_to_string(workspace().join(file)));
    let [mit, apache] = own;
    let text =
        format!("Loligo is licensed under MIT or Apache-2.0, at your choice.\n\n{}\n{}", mit?, apache?);
    Ok(text.into_bytes())
}

/// `mount -t loligo FS:/ DIR -o …`, and a line of fstab, run this with the same words.
const MOUNT_HELPER: &str = "#!/bin/sh\nexec /usr/bin/loligo mount \"$@\"\n";

/// Adds the files of a folder.
fn folder(from: &Path, into: &str, is_compressed: bool, files: &mut Vec<Installed>) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = fs::read(entry.path())?;
        files.push(if is_compressed {
            Installed { path: format!("{into}/{name}.gz"), mode: 0o644, bytes: compressed(&bytes)? }
        } else {
            Installed { path: format!("{into}/{name}"), mode: 0o644, bytes }
        });
    }
    Ok(())
}
