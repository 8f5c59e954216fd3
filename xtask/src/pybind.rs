//! The public tests of Ceph's Python modules. Debian's packages do not have them: they are taken from its
//! source package of release 18.2.7, whose checksum is known.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::process::output_of;

const ARCHIVE: &str = "http://deb.debian.org/debian/pool/main/c/ceph/ceph_18.2.7%2bds.orig.tar.xz";
const SHA256: &str = "SHA256:71c0795fa0d6312ec7b57dee4031559b7e62e086a78e6ae1ad8549e0b351e28f";
/// The folder in the archive.
const WITHIN: &str = "ceph-18.2.7+ds/src/test/pybind";
const FILES: [&str; 4] = ["assertions.py", "pytest.ini", "test_rados.py", "test_rbd.py"];

/// Fetches the tests into a folder, unless they are there.
pub(crate) fn fetch(folder: &Path) -> Result<()> {
    if FILES.iter().all(|name| folder.join(name).exists()) {
        return Ok(());
    }
    eprintln!("fetching the tests of Ceph's Python modules: {ARCHIVE}");
    let (unfinished, archive) = (beside(folder, ".unfinished"), beside(folder, ".tar.xz"));
    // apt's own client: it knows the machine's proxies, and compares the checksum.
    let mut fetch = Command::new("/usr/lib/apt/apt-helper");
    output_of(fetch.args(["download-file", ARCHIVE]).arg(&archive).arg(SHA256))?;
    fs::create_dir_all(&unfinished)?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xJf").arg(&archive).arg("-C").arg(&unfinished).arg("--strip-components=4");
    output_of(unpack.args(FILES.map(|name| format!("{WITHIN}/{name}"))))?;
    fs::remove_file(&archive)?;
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::rename(&unfinished, folder)?)
}

fn beside(folder: &Path, ending: &str) -> PathBuf {
    let mut path = folder.as_os_str().to_owned();
    path.push(ending);
    path.into()
}
