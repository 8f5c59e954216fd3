//! A server in its own process, with its directory.
#![allow(dead_code, reason = "no test uses all of it")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server that can be killed.
pub(crate) struct ServerProcess(pub(crate) Child);

impl ServerProcess {
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_telling(dir, Stdio::inherit(), &[])
    }

    /// Starts the server with another standard error, and with options.
    pub(crate) fn start_telling(dir: &Path, stderr: Stdio, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
        command.args([
            "--no-config-file",
            "-p",
            "p",
            "serve",
            "--store",
            "disk",
            "--mon-addr",
            "127.0.0.1:0",
        ]);
        command.arg("--data").arg(dir).args(options).stderr(stderr);
        Self::ready(command.env_remove("CEPH_CONF").env_remove("CEPH_ARGS"), dir)
    }

    /// Starts a server by a command of the caller's, and waits until it is ready.
    pub(crate) fn ready(command: &mut Command, dir: &Path) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut ready = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut ready).expect("a line");
        assert!(ready.starts_with("ready "), "{ready:?}; see {}", dir.join("loligo.log").display());
        Self(child)
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory that is removed when its test has passed.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("loligo-{name}.{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // After a failure the directory is kept for inspection.
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
