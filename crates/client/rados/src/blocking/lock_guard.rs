//! Advisory locks that are renewed as long as somebody holds on to them.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::IoCtx;
use crate::{Errno, Error, LockMode, LockOptions};

impl IoCtx {
    /// As [`crate::IoCtx::hold_lock`].
    pub fn hold_lock(
        &self,
        oid: impl Into<Vec<u8>>,
        name: &str,
        mode: LockMode,
        duration: Duration,
        options: &LockOptions,
    ) -> Result<LockGuard, Error> {
        let inner = self.wait(self.inner.hold_lock(oid, name, mode, duration, options))?;
        Ok(LockGuard { inner, runtime: Arc::clone(&self.runtime) })
    }
}

/// As [`crate::LockGuard`], for threads that may wait.
#[derive(Debug)]
#[must_use = "dropped, the lock is given up"]
pub struct LockGuard {
    inner: crate::LockGuard,
    runtime: Arc<Runtime>,
}

impl LockGuard {
    /// Waits until the lock is lost; says what the last try to renew it ended with.
    pub fn lost(&self) -> Errno {
        self.runtime.block_on(self.inner.lost())
    }

    /// Whether it is held, as far as is known.
    pub fn is_held(&self) -> bool {
        self.inner.is_held()
    }

    /// Gives the lock up, and waits until that is done.
    pub fn release(self) -> Result<(), Error> {
        self.runtime.block_on(self.inner.release())
    }
}
