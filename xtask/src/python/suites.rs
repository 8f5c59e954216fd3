//! `cargo xtask python suites`: the public tests of python3-rados and python3-rbd on `loligo.rados` and
//! `loligo.rbd`.
//!
//! Debian's packages do not have the tests: they are taken from its source package, whose checksum is known.
//! `python/tests/package.rs` runs them; `python/tests/left-out.txt` lists what is left out, with the reasons.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::Result;
use crate::against::stock_cluster;
use crate::process::{cargo, output_of, succeed, workspace};

const ARCHIVE: &str = "http://deb.debian.org/debian/pool/main/c/ceph/ceph_18.2.7%2bds.orig.tar.xz";
const SHA256: &str = "SHA256:71c0795fa0d6312ec7b57dee4031559b7e62e086a78e6ae1ad8549e0b351e28f";
/// The folder in the archive.
const WITHIN: &str = "ceph-18.2.7+ds/src/test/pybind";
const FILES: [&str; 4] = ["assertions.py", "pytest.ini", "test_rados.py", "test_rbd.py"];

/// The test programs' parts that run them.
const TEST: &str = "public_tests_of_python3_rados_and_rbd";

pub(super) fn run(name: &str, only_ours: bool) -> Result<()> {
    let tests = fetch()?;
    let run = |conf: Option<PathBuf>| {
        let mut test = cargo();
        // Built as for the tests: by itself it would have other features, and much would be compiled twice.
        test.args(["test", "--workspace", "--test", "package", TEST, "--", "--ignored", "--nocapture"]);
        test.env("LOLIGO_PYBIND_TESTS", &tests).env("LOLIGO_PYBIND_NAME", name);
        match conf {
            Some(conf) => test.env("LOLIGO_STOCK_CONF", conf),
            None => test.env_remove("LOLIGO_STOCK_CONF"),
        };
        succeed(&mut test)
    };
    println!("== on Loligo's server");
    run(None)?;
    if only_ours {
        return Ok(());
    }
    println!("== on a stock cluster");
    let cluster = stock_cluster()?;
    succeed(cluster.program("ceph").args(["osd", "pool", "create", "rbd", "8", "8"]))?;
    run(Some(cluster.conf()))?;
    cluster.down()
}

/// Fetches the tests, unless they are there; returns their folder.
fn fetch() -> Result<PathBuf> {
    let folder = workspace().join("target/pybind-18.2.7");
    if FILES.iter().all(|name| folder.join(name).exists()) {
        return Ok(folder);
    }
    eprintln!("fetching the tests of Ceph's Python modules: {ARCHIVE}");
    let (unfinished, archive) = (folder.with_extension("unfinished"), folder.with_extension("tar.xz"));
    // apt's own client: it knows the machine's proxies, and compares the checksum.
    let mut fetch = Command::new("/usr/lib/apt/apt-helper");
    output_of(fetch.args(["download-file", ARCHIVE]).arg(&archive).arg(SHA256))?;
    fs::create_dir_all(&unfinished)?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xJf").arg(&archive).arg("-C").arg(&unfinished).arg("--strip-components=4");
    output_of(unpack.args(FILES.map(|name| format!("{WITHIN}/{name}"))))?;
    fs::remove_file(&archive)?;
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::rename(&unfinished, &folder)?;
    Ok(folder)
}
