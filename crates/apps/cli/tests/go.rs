//! The Go module that starts a server for a test.
//!
//! Goal: `go/loligotest` works as Go programs use it. Method: its own tests run with the program that was
//! built with this test. Left out where there is no Go.

use std::path::Path;
use std::process::Command;

#[test]
fn the_go_module_passes_its_tests() {
    if !Command::new("go").arg("version").output().is_ok_and(|output| output.status.success()) {
        println!("left out: the Go module (no go)");
        return;
    }
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../go");
    let mut test = Command::new("timeout");
    test.args(["110", "go", "test", "-count=1", "-v", "./..."]).current_dir(module);
    // The module needs nothing but the standard library: nothing is fetched.
    test.envs([("GOPROXY", "off"), ("GOTOOLCHAIN", "local"), ("GOFLAGS", ""), ("CGO_ENABLED", "0")]);
    let output = test.env("LOLIGO_BIN", env!("CARGO_BIN_EXE_loligo")).output().expect("go runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
