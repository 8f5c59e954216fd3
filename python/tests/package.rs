//! The package on an interpreter.
//!
//! Goal: the Python package works as its users see it. Method: the package is laid out in a folder as a wheel
//! lays it out, with the extension module that cargo built beside this test, and Python runs the tests of
//! `tests/*.py` on it, each file in a process of its own. Left out where there is no `python3` of 3.9 or
//! later.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The interpreter: `PYTHON`, or `python3`.
fn python() -> Option<String> {
    let python = env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let is_new = "import sys; sys.exit(sys.version_info < (3, 9))";
    let status = Command::new(&python).args(["-c", is_new]).status();
    status.is_ok_and(|status| status.success()).then_some(python)
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("the package's folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// A folder with the package, which is removed at the end.
struct Installed(PathBuf);

impl Installed {
    fn new(name: &str) -> Self {
        let folder = env::temp_dir().join(format!("loligo-{name}-{}", std::process::id()));
        let package = folder.join("loligo");
        copy_tree(&Path::new(env!("CARGO_MANIFEST_DIR")).join("loligo"), &package);
        let test = env::current_exe().expect("this test's file");
        let built = test.parent().expect("its folder").join("libloligo_python.so");
        fs::copy(built, package.join("_native.abi3.so")).expect("the extension module is built");
        Self(folder)
    }

    /// Runs a file of tests; `conf` is a stock cluster's, if there is one.
    fn run(&self, python: &str, arguments: &[&str], folder: &Path, conf: Option<&str>) {
        let mut command = Command::new("timeout");
        command.args(["110", python]).args(arguments).current_dir(folder);
        command.env("PYTHONPATH", &self.0).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env_remove("CEPH_ARGS").env_remove("CEPH_CONF");
        if let Some(conf) = conf {
            command.env("LOLIGO_TEST_CONF", conf);
        }
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {}\n{said}{errors}", output.status);
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a file of this package's tests on servers within Python's process.
fn run_file(file: &str) {
    let Some(python) = python() else {
        println!("left out: {file} (no python3 of 3.9 or later)");
        return;
    };
    let installed = Installed::new(file);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    installed.run(&python, &["-m", "unittest", "-v", file], &tests, None);
}

#[test]
fn objects() {
    run_file("test_objects");
}

#[test]
fn images() {
    run_file("test_images");
}

#[test]
fn asyncio() {
    run_file("test_asyncio");
}

#[test]
fn ends_of_programs() {
    run_file("test_exit");
}

#[test]
fn servers_for_tests() {
    run_file("test_servers");
}

#[test]
#[ignore = "needs a stock cluster"]
fn objects_and_images_of_a_stock_cluster() {
    let conf = env::var("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a stock cluster's conf");
    let Some(python) = python() else {
        println!("left out: objects and images of a stock cluster (no python3 of 3.9 or later)");
        return;
    };
    let installed = Installed::new("stock");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for file in ["test_objects", "test_images", "test_asyncio"] {
        installed.run(&python, &["-m", "unittest", "-v", file], &tests, Some(&conf));
    }
}

/// The modules by which the public tests call the package.
const SHIMS: [(&str, &str); 2] =
    [("rados.py", "from loligo.rados import *\n"), ("rbd.py", "from loligo.rbd import *\n")];

/// What of the public tests is left out: lines `test_rbd.py::TestMirroring`, with the reason behind `#`.
const LEFT_OUT: &str = include_str!("left-out.txt");

/// Runs a file of the public tests; returns what pytest says.
fn run_public(python: &str, installed: &Installed, tests: &Path, file: &str, conf: &Path) -> (bool, String) {
    let mut command = Command::new("timeout");
    command.args(["1500", python, "-m", "pytest", "-q", "-rf", "--no-header", "--tb=short"]);
    command.args(["-p", "no:cacheprovider", file]).current_dir(tests);
    for line in LEFT_OUT.lines() {
        let test = line.split('#').next().unwrap_or_default().trim();
        if test.starts_with(file) {
            command.args(["--deselect", test]);
        }
    }
    if let Some(name) = env::var_os("LOLIGO_PYBIND_NAME").filter(|name| !name.is_empty()) {
        command.arg("-k").arg(name);
    }
    command.env("PYTHONPATH", &installed.0).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("CEPH_CONF", conf).env("RBD_FEATURES", "61").env_remove("CEPH_ARGS");
    let output = command.output().expect("it runs");
    // 5: no test was chosen.
    let passed = output.status.success() || output.status.code() == Some(5);
    (passed, String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
#[ignore = "needs the public tests of Ceph's Python modules: cargo xtask python suites"]
fn public_tests_of_python3_rados_and_rbd() {
    let Some(tests) = env::var_os("LOLIGO_PYBIND_TESTS").map(PathBuf::from) else {
        println!("left out: the public tests of python3-rados and python3-rbd (cargo xtask python suites)");
        return;
    };
    let python = python().expect("python3 of 3.9 or later");
    let installed = Installed::new("public");
    for (file, text) in SHIMS {
        fs::write(installed.0.join(file), text).expect("a shim");
    }
    let osds = loligo_server::OsdCount::new(3).expect("three OSDs");
    let server = loligo_server::Server::memory().osds(osds).pool("rbd").start().expect("the server starts");
    let conf = env::var_os("LOLIGO_STOCK_CONF").map_or_else(|| server.conf().to_owned(), PathBuf::from);
    let mut failed = false;
    for file in ["test_rados.py", "test_rbd.py"] {
        let (passed, said) = run_public(&python, &installed, &tests, file, &conf);
        println!("{file}:\n{said}");
        failed |= !passed;
    }
    assert!(!failed, "public tests fail: see above");
}
