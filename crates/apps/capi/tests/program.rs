//! C programs on the library.
//!
//! Goal: programs that are linked with librados, librbd and libradosstriper run on the library that this
//! crate makes, and compile with its headers. Method: each program is compiled with all warnings, linked
//! with the library, and run against a server in this process. It checks results, the order of callbacks,
//! the ownership of memory, and what a child after `fork` gets.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use loligo_server::Server;

/// The shared library, which cargo builds beside the tests, under the name that programs know.
fn library(folder: &Path) -> PathBuf {
    let test = env::current_exe().expect("this test's file");
    let built = test.parent().expect("its folder").join("libloligo_capi.so");
    let named = folder.join("librados.so.2");
    fs::copy(built, &named).expect("the library is built");
    named
}

/// Whether a program is linked with the library, or loads it itself.
#[derive(Clone, Copy, PartialEq)]
enum Loaded {
    ByTheLoader,
    ByItself,
}

/// Compiles a program and runs it.
fn runs(name: &str, loaded: Loaded) {
    let folder = env::temp_dir().join(format!("loligo-capi-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let library = library(&folder);
    let (sources, program) = (Path::new(env!("CARGO_MANIFEST_DIR")), folder.join("program"));
    let mut cc = Command::new("cc");
    cc.args(["-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wl,-z,now", "-o"]).arg(&program);
    cc.arg("-I").arg(sources.join("include"));
    cc.arg(sources.join("tests").join(name).with_extension("c"));
    if loaded == Loaded::ByTheLoader {
        cc.arg(&library);
    }
    assert!(cc.status().expect("a C compiler").success());
    let server = Server::memory().pool("p").start().expect("a server");
    let mut run = Command::new(&program);
    run.arg(server.conf()).args((loaded == Loaded::ByItself).then_some(&library));
    run.env("LD_LIBRARY_PATH", &folder).env_remove("CEPH_ARGS");
    let output = run.output().expect("the program runs");
    fs::remove_dir_all(&folder).expect("the folder goes");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.ends_with("done\n") && output.status.success(), "{said}{output:?}");
}

#[test]
fn a_c_program_runs_on_the_library() {
    runs("program", Loaded::ByTheLoader);
}

#[test]
fn images_in_a_c_program() {
    runs("images", Loaded::ByTheLoader);
}

#[test]
fn striped_files_in_a_c_program() {
    runs("striped", Loaded::ByTheLoader);
}

#[test]
fn a_c_program_loads_and_closes_the_library_a_thousand_times() {
    runs("reopened", Loaded::ByItself);
}

/// The headers are C++ as well.
#[test]
fn a_cxx_compiler_takes_the_headers() {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    for header in ["rados/librados.h", "rbd/librbd.h", "radosstriper/libradosstriper.h"] {
        let mut compiler = Command::new("c++");
        compiler.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++-header"]);
        match compiler.arg(include.join(header)).status() {
            Ok(status) => assert!(status.success(), "{header}"),
            Err(_) => return eprintln!("skipped: no C++ compiler"),
        }
    }
}
