//! Disables core dumps, since the process has keys and users' data in its memory.
//!
//! The kernel then also prevents other processes of the same user from reading this process's memory
//! (`ptrace`, `/proc/PID/mem`). A debugger needs root, or the environment variable named by [`ALLOW`].

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::failure::{Context, Failure};

/// If this variable is `1`, the process's user may dump and debug it.
const ALLOW: &str = "LOLIGO_CORE_DUMPS";

/// Disables core dumps of this process, unless the environment allows them.
///
/// # Errors
/// Returns the kernel's error. The call exists since Linux 2.3.20.
pub(crate) fn forbid() -> Result<(), Failure> {
    if std::env::var_os(ALLOW).is_some_and(|value| value == "1") {
        return Ok(());
    }
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .context(|| "this process's memory cannot be kept out of core dumps".to_owned())
}
