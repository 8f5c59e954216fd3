//! `loligo run`.
//!
//! Goal: a program runs with the loader's path and the configuration that are set for it, and its exit status
//! is that of the command. Method: a shell prints what it was given.

use std::process::Command;
use std::{env, fs};

#[test]
fn a_program_gets_the_libraries_and_the_configuration() {
    let folder = env::temp_dir().join(format!("loligo-run-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("librados.so.2"), "").expect("a file");
    let conf = folder.join("ceph.conf");
    fs::write(&conf, "[global]\nmon host = 127.0.0.1\n").expect("a file");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
        command.args(["-c", &conf.display().to_string(), "run"]).args(args);
        command.env_remove("CEPH_ARGS").env_remove("LOLIGO_LIBS").env("LD_LIBRARY_PATH", "/elsewhere");
        command.output().expect("it runs")
    };
    let libs = folder.display().to_string();
    // The shell itself must not load the empty library: it does not need one of that name.
    let shell = ["--libs", &libs, "--", "sh", "-c", "echo $LD_LIBRARY_PATH; echo $CEPH_CONF; exit 7"];
    let output = run(&shell);
    let real = folder.canonicalize().expect("it is there").display().to_string();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("{real}:/elsewhere\n{}\n", conf.display()),
        "{output:?}"
    );
    assert_eq!(output.status.code(), Some(7));
    let none = run(&["--libs", &libs, "--", "/no/such/program"]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("/no/such/program"), "{none:?}");
    assert_eq!(none.status.code(), Some(1));
    fs::remove_dir_all(&folder).expect("the folder goes");
}
