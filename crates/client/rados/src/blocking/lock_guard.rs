//! Advisory locks that are renewed while their guard exists.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::IoCtx;
use crate::{Errno, Error, LockMode, LockOptions};

impl IoCtx {
    /// Blocking form of [`crate::IoCtx::hold_lock`].
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

/// Blocking form of [`crate::LockGuard`].
#[derive(Debug)]
#[must_use = "dropped, the lock is given up"]
pub struct LockGuard {
    inner: crate::LockGuard,
    runtime: Arc<Runtime>,
}

impl LockGuard {
    /// Waits until the lock is lost. Returns the error of the last renewal.
    pub fn lost(&self) -> Errno {
        self.runtime.block_on(self.inner.lost())
    }

    /// Returns `true` while the lock is held as far as the client knows.
    pub fn is_held(&self) -> bool {
        self.inner.is_held()
    }

    /// Releases the lock, and waits until that is done.
    pub fn release(self) -> Result<(), Error> {
        self.runtime.block_on(self.inner.release())
    }
}
