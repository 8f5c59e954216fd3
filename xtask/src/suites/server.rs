//! A server for one test program, which accesses it from inside its release's folder.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{By, Store};
use crate::Result;
use crate::process::workspace;
use crate::stock::Root;

/// The time that a server may take to start, and to end.
const READY_MAX: Duration = Duration::from_secs(20);

/// A running server. Dropping it ends the server and removes its folder.
pub(super) struct Server<'a> {
    root: &'a Root,
    dir: PathBuf,
    child: Child,
}

impl<'a> Server<'a> {
    /// Starts a new server with this number of OSDs and a pool `rbd`, in a folder with this name.
    pub(super) fn start(root: &'a Root, store: Store, osds: u8, by: By, name: &str) -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("loligo-suites.{}.{name}", std::process::id()));
        root.make_dir(&dir)?;
        let log = fs::File::create(dir.join("serve.log"))?;
        let child = Command::new(workspace().join("target/debug/loligo"))
            .args(["serve", "--mon-addr", "127.0.0.1:0", "--pool", "rbd", "--store", store.name(), "--data"])
            .arg(dir.join("data"))
            .args(["--osds", &osds.to_string(), &format!("--ms-bind-msgr2={}", !by.without_msgr2)])
            .args(["--auth", if by.without_cephx { "none" } else { "cephx" }])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let mut server = Self { root, dir, child };
        server.wait_until_ready()?;
        server.write_conf()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_MAX;
        while Instant::now() < deadline {
            if self.log().starts_with("ready ") {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server ended: {status}: {}", self.log()).into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err(format!("the server is not ready after {} s: {}", READY_MAX.as_secs(), self.log()).into())
    }

    /// The output of the server.
    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("serve.log")).unwrap_or_default()
    }

    /// Writes the server's configuration with paths as they are inside the release's folder.
    fn write_conf(&self) -> Result<()> {
        let text = fs::read_to_string(self.dir.join("data/ceph.conf"))?;
        let outside = fs::canonicalize(self.root.path())?.display().to_string();
        let inside = if outside == "/" { text } else { text.replace(&outside, "") };
        Ok(fs::write(self.conf(), inside)?)
    }

    fn conf(&self) -> PathBuf {
        self.dir.join("client.conf")
    }

    /// Returns a command for a program of the release, with the server's configuration.
    pub(super) fn program(&self, name: &str) -> Command {
        let mut command = self.root.program("env");
        command.arg(format!("CEPH_CONF={}", self.conf().display())).arg(name);
        command
    }

    /// Checks that the server has not ended.
    ///
    /// # Errors
    /// It has, with what it said.
    pub(super) fn still_runs(&mut self) -> Result<()> {
        match self.ended() {
            None => Ok(()),
            Some(status) => Err(format!("the server ended: {status}: {}", self.log()).into()),
        }
    }

    /// The exit status; none while the server runs.
    fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // A server that has ended was waited for by `ended`, and its number may be another process's by now.
        if self.ended().is_none() {
            // SAFETY: kill takes two numbers and accesses no memory of this process. The child has not been
            // waited for, so the number is still its own.
            unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGTERM) };
        }
        let deadline = Instant::now() + READY_MAX;
        while self.ended().is_none() {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
            thread::sleep(Duration::from_millis(10));
        }
        if let Err(e) = self.root.remove_dir(&self.dir) {
            eprintln!("{} is left behind: {e}", self.dir.display());
        }
    }
}
