//! A lock on a file, held while a command runs, as `flock(1)` does it.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use clap::Subcommand;
use loligo_fs::{Errno, LockKind, OpenOptions};

use super::{Mount, named};
use crate::failure::{Context, Failure};
use crate::name::Name;

/// Commands of `loligo fs lock`.
#[derive(Subcommand)]
pub(crate) enum LockCommand {
    /// Run a command while holding a lock on a file, which is made if there is none. The exit status is the
    /// command's. Programs that use flock(2) on a mount respect the lock.
    Hold {
        /// The file.
        file: Name,
        /// Keep out only exclusive locks.
        #[arg(long)]
        shared: bool,
        /// Fail if the file is locked, instead of waiting.
        #[arg(long, conflicts_with = "wait")]
        no_wait: bool,
        /// Wait no longer than this.
        #[arg(long, value_name = "SECONDS")]
        wait: Option<u32>,
        /// The command, after --.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

impl LockCommand {
    /// Returns the exit status of the command.
    pub(super) async fn run(&self, mount: &Mount) -> Result<u8, Failure> {
        let Self::Hold { file: path, shared, no_wait, wait, command } = self;
        let what = || named("lock", path);
        let options = OpenOptions::new().read().write().create();
        let file = match mount.fs.open(path, options).await {
            // A user that may only read the file may lock it, too.
            Err(e) if e.errno() == Errno::EACCES => mount.fs.open(path, OpenOptions::new().read()).await,
            opened => opened,
        };
        let file = file.context(what)?;
        let kind = if *shared { LockKind::Shared } else { LockKind::Exclusive };
        let owner = std::process::id().into();
        let locking = file.lock_whole(kind, owner, !*no_wait);
        let locked = match wait {
            Some(seconds) => {
                let patience = Duration::from_secs((*seconds).into());
                tokio::time::timeout(patience, locking).await.unwrap_or(Err(Errno::EAGAIN.into()))
            }
            None => locking.await,
        };
        match locked {
            Err(e) if e.errno() == Errno::EAGAIN => {
                return Err(Failure::of(Errno::EAGAIN, what(), "somebody else has locked the file"));
            }
            locked => locked.context(what)?,
        }
        let command = command.clone();
        let ended = tokio::task::spawn_blocking(move || run(&command)).await;
        let status = ended.map_err(|e| Failure::new(what(), e))??;
        file.check_locks().context(|| format!("{} while the command ran", what()))?;
        file.close().await.context(what)?;
        Ok(status)
    }
}

/// Runs a command to its end. Returns its exit status, as shells tell it.
fn run(command: &[OsString]) -> Result<u8, Failure> {
    use std::os::unix::process::ExitStatusExt as _;
    let (program, args) = command.split_first().ok_or_else(|| Failure::new("lock", "no command"))?;
    let what = || format!("run {}", program.display());
    let status = Command::new(program).args(args).status().context(what)?;
    let signal = || status.signal().map_or(1, |signal| 128 + signal);
    Ok(u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commands_end_is_told_as_shells_tell_it() {
        let shell = |script: &str| run(&["sh".into(), "-c".into(), script.into()]).expect("it runs");
        assert_eq!((shell("exit 0"), shell("exit 7"), shell("kill -9 $$")), (0, 7, 137));
        let missing = run(&["/no/such/program".into()]).expect_err("not there").to_string();
        assert!(missing.starts_with("run /no/such/program: "), "{missing}");
    }
}
