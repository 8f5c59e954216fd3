//! `cargo xtask python wheel DIR`: the Python package as a wheel, which is one file for all interpreters from
//! 3.9 on.
//!
//! pip builds it as users do who install the folder `python`: it fetches maturin, which builds the extension
//! module and packs the wheel. `--first-use` then does what a new user does, and tells how long it takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::Result;
use crate::process::{output_of, succeed, workspace};

/// The test that a new user runs.
const FIRST_TEST: &str = "\
def test_first(ceph_pool):
    ceph_pool.write_full('greeting', b'hello')
    assert ceph_pool.read('greeting') == b'hello'
";

/// Tells how long import and start take.
const START: &str = "\
import time
begun = time.perf_counter()
from loligo import testing
imported = time.perf_counter()
with testing.Server() as server:
    started = time.perf_counter()
    print('import %.1f ms, server ready after %.1f ms'
          % ((imported - begun) * 1e3, (started - imported) * 1e3))
";

/// Builds the wheel into a folder.
pub(super) fn build(folder: &Path, debug: bool) -> Result<PathBuf> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]).arg(folder);
    pip.arg(workspace().join("python"));
    if debug {
        pip.env("MATURIN_PEP517_ARGS", "--profile dev");
    }
    succeed(&mut pip)?;
    let mut wheels = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            wheels.push((fs::metadata(&path)?.modified()?, path));
        }
    }
    let (_, newest) = wheels.into_iter().max().ok_or("pip made no wheel")?;
    println!("{} ({} KiB)", newest.display(), fs::metadata(&newest)?.len() >> 10);
    Ok(newest)
}

/// Installs the wheel into a new virtual environment, runs a first test there, and tells how long each step
/// takes.
pub(super) fn first_use(wheel: &Path) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("loligo-first-use-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let done = first_use_in(&folder, wheel);
    fs::remove_dir_all(&folder)?;
    done
}

fn first_use_in(folder: &Path, wheel: &Path) -> Result<()> {
    let environment = folder.join("venv");
    succeed(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let python = environment.join("bin/python");
    succeed(Command::new(&python).args(["-m", "pip", "install", "--quiet", "pytest"]))?;
    let begun = Instant::now();
    succeed(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--no-deps"]).arg(wheel))?;
    println!("pip install: {:.2} s", begun.elapsed().as_secs_f64());
    fs::write(folder.join("test_first.py"), FIRST_TEST)?;
    for run in ["first", "second", "third"] {
        let begun = Instant::now();
        let mut test = Command::new(&python);
        test.args(["-m", "pytest", "-q", "test_first.py"]).current_dir(folder);
        let said = output_of(&mut test)?;
        if !said.contains("1 passed") {
            return Err(format!("the first test says: {said}").into());
        }
        println!("{run} run of a first test with a fixture: {:.2} s", begun.elapsed().as_secs_f64());
    }
    for _ in 0..3 {
        print!("{}", output_of(Command::new(&python).args(["-c", START]).current_dir(folder))?);
    }
    Ok(())
}
