//! Going on in the background: a second process serves the mount, the first one waits until it is there.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::failure::{Context, Failure};

/// Set for the process that serves the mount.
const SERVES: &str = "LOLIGO_MOUNT_SERVES";
/// What that process says when the file system is mounted.
const READY: &[u8] = b"mounted\n";

/// Returns `true` in the process that serves the mount.
pub(super) fn serves() -> bool {
    std::env::var_os(SERVES).is_some_and(|value| value == OsStr::new("1"))
}

/// Starts this program once more with the same words and waits until the file system is mounted. What that
/// process says of an error is on standard error by then; its status becomes this one's.
pub(super) fn start() -> Result<(), Failure> {
    let what = || "mount".to_owned();
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_default();
    let program = std::env::current_exe().context(what)?;
    let mut command = Command::new(program);
    command.arg0(called).args(words).env(SERVES, "1").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = command.spawn().context(what)?;
    let mut said = Vec::new();
    if let Some(mut pipe) = server.stdout.take() {
        pipe.read_to_end(&mut said).context(what)?;
    }
    if said == READY {
        return Ok(());
    }
    let status = server.wait().context(what)?;
    match status.code() {
        Some(code) if code != 0 => std::process::exit(code),
        // It has said nothing of its end.
        _ => Err(Failure::new("mount", format!("the process that serves it ended too early: {status}"))),
    }
}

/// The file system is mounted: lets the first process end, and lets go of its terminal and directory.
pub(super) fn ready() -> Result<(), Failure> {
    let what = || "go to the background".to_owned();
    // Fails for the leader of a group, which this process is not.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").context(what)?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").context(what)?;
    let mut out = std::io::stdout();
    out.write_all(READY).and_then(|()| out.flush()).context(what)?;
    dup2_stdin(&null).context(what)?;
    dup2_stderr(&null).context(what)?;
    dup2_stdout(&null).context(what)
}
