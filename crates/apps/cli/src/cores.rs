//! Core dumps: off, as a process of ours has keys and users' data in its memory.
//!
//! The kernel then also keeps other processes of the same user from reading this one's memory (`ptrace`,
//! `/proc/PID/mem`). A debugger needs root, or the environment variable of [`ALLOW`].

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::failure::{Context, Failure};

/// Set to `1`, the process may be dumped and debugged by its user.
const ALLOW: &str = "LOLIGO_CORE_DUMPS";

/// Forbids core dumps of this process, unless the environment asks for them.
///
/// # Errors
/// What the kernel says, which has the call since Linux 2.3.20.
pub(crate) fn forbid() -> Result<(), Failure> {
    if std::env::var_os(ALLOW).is_some_and(|value| value == "1") {
        return Ok(());
    }
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .context(|| "this process's memory cannot be kept out of core dumps".to_owned())
}
