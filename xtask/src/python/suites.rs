//! `cargo xtask python suites`: the public tests of python3-rados and python3-rbd on `loligo.rados` and
//! `loligo.rbd`.
//!
//! `python/tests/package.rs` runs them; `python/tests/left-out.txt` lists what is left out, with the reasons.

use std::path::PathBuf;

use crate::Result;
use crate::against::stock_cluster;
use crate::process::{cargo, succeed, workspace};
use crate::pybind;

/// The test programs' parts that run them.
const TEST: &str = "public_tests_of_python3_rados_and_rbd";

pub(super) fn run(name: &str, only_ours: bool) -> Result<()> {
    let tests = workspace().join("target/pybind-18.2.7");
    pybind::fetch(&tests)?;
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
