//! What a package installs: the program, the helper of mount(8), services, manual pages, completions and
//! licences.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::process::workspace;

use super::tarball::compressed;

/// A file of a package.
pub(super) struct Installed {
    /// Its path in the system, from the root, without the first slash.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

/// All files, in the order of their paths. `dir` has the program and what it wrote of itself.
pub(super) fn of_the_package(dir: &Path) -> Result<Vec<Installed>> {
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
        let bytes = fs::read(dir.join(file))?;
        files.push(Installed { path: format!("usr/share/doc/loligo/{file}"), mode: 0o644, bytes });
    }
    let own = ["LICENSE-MIT", "LICENSE-APACHE"].map(|file| fs::read_to_string(workspace().join(file)));
    let [mit, apache] = own;
    let copyright =
        format!("Loligo is licensed under MIT or Apache-2.0, at your choice.\n\n{}\n{}", mit?, apache?);
    let path = "usr/share/doc/loligo/copyright".to_owned();
    files.push(Installed { path, mode: 0o644, bytes: copyright.into_bytes() });
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
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
