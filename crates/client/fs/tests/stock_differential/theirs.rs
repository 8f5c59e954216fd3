//! libcephfs, through python3-cephfs: a process that carries out one call a line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::Client;
use crate::call::Call;

/// The time that the driver may take to unmount.
const PATIENCE: Duration = Duration::from_secs(10);

const DRIVER: &str = include_str!("../support/driver.py");

/// A mount of libcephfs.
pub(crate) struct Theirs {
    child: Child,
    calls: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Theirs {
    /// Mounts a directory with the client of the cluster's release.
    pub(crate) fn mount(cluster: &Path, dir: &str) -> Self {
        let mut command = Command::new("sh");
        command.arg(cluster.join("exec")).args(["/usr/bin/python3", "-c", DRIVER, &format!("/{dir}")]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 is installed");
        let calls = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut mounted = Self { child, calls, answers };
        assert_eq!(mounted.answer(), "mounted");
        mounted
    }

    /// Begins a call; `answer` waits for its end.
    pub(crate) fn send(&mut self, call: &Call) {
        let calls = self.calls.as_mut().expect("it is mounted");
        writeln!(calls, "{call}").expect("the driver reads");
    }

    /// Returns what the driver answers. If it has ended, that is the answer: the caller shows the calls
    /// before.
    pub(crate) fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("text");
        if !line.ends_with('\n') {
            self.calls.take();
            let status = self.child.wait().expect("it is a child");
            return format!("the driver has ended: {status}");
        }
        line.trim_end().to_owned()
    }

    /// Unmounts. libcephfs 16.2.15 may wait for ever here: a driver that does not end is killed, and the test
    /// says so.
    pub(crate) fn end(mut self) {
        match self.ended() {
            Some(status) => assert!(status.success(), "the driver: {status}"),
            None => {
                eprintln!("libcephfs does not unmount: its process is killed after {} s", PATIENCE.as_secs());
                let _ = self.child.kill();
            }
        }
    }

    /// Lets the driver unmount. Returns how it has ended, if it did in time.
    fn ended(&mut self) -> Option<ExitStatus> {
        self.calls.take();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("it is a child") {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Client for Theirs {
    fn call(&mut self, call: &Call) -> String {
        self.send(call);
        self.answer()
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        // After a failed comparison nobody has ended it. It unmounts when it reads no more: a session that is
        // left behind would hold others up.
        let _ = self.ended();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
