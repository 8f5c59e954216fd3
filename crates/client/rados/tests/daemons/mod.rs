//! A stock cluster's daemons, as started by `cargo xtask stock-ceph up`. `DIR/exec` runs programs of the
//! cluster's release in the daemons' environment.
#![allow(dead_code, reason = "no test uses all of it")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The cluster in a directory.
pub(crate) struct Daemons {
    dir: PathBuf,
}

impl Daemons {
    /// Returns the cluster whose directory an environment variable names.
    pub(crate) fn of(variable: &str) -> Self {
        let dir =
            std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} names the cluster's directory"));
        Self { dir: dir.into() }
    }

    pub(crate) fn conf(&self) -> String {
        self.dir.join("ceph.conf").into_os_string().into_string().expect("UTF-8")
    }

    /// Returns the script that runs a program of the cluster's release in the daemons' environment:
    /// `sh EXEC PROGRAM ARGUMENTS`.
    pub(crate) fn exec(&self) -> PathBuf {
        self.dir.join("exec")
    }

    /// Runs a program, which must succeed, and returns its output.
    pub(crate) fn run(&self, words: &str) -> String {
        let output = Command::new("sh").arg(self.exec()).args(words.split(' ')).output();
        let output = output.expect("it is installed");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a program; returns its output if it succeeds.
    pub(crate) fn try_run(&self, words: &str) -> Option<String> {
        let output = Command::new("sh").arg(self.exec()).args(words.split(' ')).output();
        let output = output.expect("it is installed");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns what a daemon has written into its log; nothing if it has none.
    pub(crate) fn log(&self, daemon: &str) -> String {
        let file = self.dir.join("log").join(format!("{daemon}.log"));
        std::fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Returns the names of the daemons of a kind: `osd.0`, `mon.a`.
    pub(crate) fn of_kind(&self, kind: &str) -> Vec<String> {
        let entries = std::fs::read_dir(&self.dir).expect("the cluster's directory");
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> =
            names.filter(|name| name.split_once('.').is_some_and(|n| n.0 == kind)).collect();
        names.sort();
        names
    }

    /// Stops a daemon cleanly and waits until it has exited.
    pub(crate) async fn stop(&self, daemon: &str) {
        self.signal(daemon, "-TERM").await;
    }

    /// Kills a daemon, as a failing machine would.
    pub(crate) async fn kill(&self, daemon: &str) {
        self.signal(daemon, "-KILL").await;
    }

    pub(crate) fn start(&self, daemon: &str) {
        let (kind, id) = daemon.split_once('.').expect("TYPE.ID");
        self.run(&format!("ceph-{kind} -i {id}"));
    }

    pub(crate) async fn restart(&self, daemon: &str) {
        self.stop(daemon).await;
        self.start(daemon);
    }

    /// Cuts or restores the network to a cluster that runs apart. Returns `false` if it does not run apart.
    pub(crate) fn cut(&self, is_cut: bool) -> bool {
        let Ok(link) = std::fs::read_to_string(self.dir.join("link")) else { return false };
        let state = if is_cut { "down" } else { "up" };
        let done = Command::new("ip").args(["link", "set", &link, state]).status().expect("it is installed");
        assert!(done.success(), "{link} {state}");
        true
    }

    async fn signal(&self, daemon: &str, signal: &str) {
        let file = self.dir.join("run").join(format!("{daemon}.pid"));
        let pid = std::fs::read_to_string(file).expect("the daemon's pid").trim().to_owned();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill runs").success(), "{daemon}");
        while Path::new("/proc").join(&pid).exists() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
