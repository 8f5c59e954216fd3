//! Advisory locks that are renewed while their guard exists.

use std::time::Duration;

use loligo_wire::Name;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::{IoCtx, LockMode, LockOptions};
use crate::Error;
use crate::error::Errno;

/// Minimum interval between renewals.
const PAUSE_MIN: Duration = Duration::from_millis(100);

impl IoCtx {
    /// Takes a lock for `duration`, and renews it until the guard is released or dropped. If the process
    /// dies, the lock expires after at most `duration`.
    ///
    /// # Errors
    /// As [`IoCtx::lock`]; EINVAL if `duration` is less than a second.
    pub async fn hold_lock(
        &self,
        oid: impl Into<Vec<u8>>,
        name: &str,
        mode: LockMode,
        duration: Duration,
        options: &LockOptions,
    ) -> Result<LockGuard, Error> {
        if duration < Duration::from_secs(1) {
            return Err(Errno::EINVAL.into());
        }
        let oid = oid.into();
        let options = LockOptions { duration: Some(duration), ..options.clone() };
        self.lock(oid.clone(), name, mode, &options).await?;
        Ok(self.keep_lock(oid, name, mode, duration, &options))
    }

    /// Renews a lock until the guard is released or dropped. The client must just have taken it for
    /// `duration` as part of a request ([`crate::WriteOp::lock`]), with the same `mode` and `options`.
    ///
    /// # Panics
    /// Panics outside of a runtime.
    pub fn keep_lock(
        &self,
        oid: impl Into<Vec<u8>>,
        name: &str,
        mode: LockMode,
        duration: Duration,
        options: &LockOptions,
    ) -> LockGuard {
        let options = LockOptions { duration: Some(duration), ..options.clone() };
        let held = Held { ioctx: self.clone(), oid: oid.into(), name: name.to_owned(), mode, options };
        let (stop, stopped) = oneshot::channel();
        let (lost, is_lost) = watch::channel(None);
        let cookie = held.options.cookie.clone();
        let task = Handle::current().spawn(held.keep(duration, stopped, lost));
        LockGuard { cookie, stop: Some(stop), is_lost, task }
    }
}

/// Whether an advisory lock is held. It may outlive the lock's guard, and then reports the final state.
#[derive(Clone, Debug)]
pub struct LockState {
    is_lost: watch::Receiver<Option<Errno>>,
}

impl LockState {
    /// Returns the error of the last renewal if the lock is lost; `None` while the lock is held as far
    /// as the client knows.
    pub fn lost(&self) -> Option<Errno> {
        *self.is_lost.borrow()
    }
}

/// A held advisory lock. Dropping the guard releases it without waiting.
#[derive(Debug)]
#[must_use = "dropped, the lock is given up"]
pub struct LockGuard {
    cookie: Name,
    stop: Option<oneshot::Sender<()>>,
    is_lost: watch::Receiver<Option<Errno>>,
    task: JoinHandle<Result<(), Error>>,
}

impl LockGuard {
    /// Waits until the lock is lost: it was not renewed before it expired, or another client broke it.
    /// Returns the error of the last renewal.
    pub async fn lost(&self) -> Errno {
        let mut is_lost = self.is_lost.clone();
        let lost = is_lost.wait_for(Option::is_some).await.ok().and_then(|errno| *errno);
        // The task ends without recording an error only if the client ends.
        lost.unwrap_or(Errno::ENOTCONN)
    }

    /// Returns `true` while the lock is held as far as the client knows.
    pub fn is_held(&self) -> bool {
        self.is_lost.borrow().is_none()
    }

    /// Returns the lock's state, for code that must not own the guard.
    pub fn state(&self) -> LockState {
        LockState { is_lost: self.is_lost.clone() }
    }

    /// Returns the cookie of the lock.
    pub fn cookie(&self) -> &Name {
        &self.cookie
    }

    /// Stops renewing the lock and leaves it as it is. For a caller that has removed the object and the
    /// lock with it.
    pub fn leave(self) {
        self.task.abort();
    }

    /// Releases the lock, and waits until that is done.
    ///
    /// # Errors
    /// ENOENT if the lock was already lost.
    pub async fn release(mut self) -> Result<(), Error> {
        drop(self.stop.take());
        (&mut self.task).await.unwrap_or(Err(Error::Shutdown))
    }
}

struct Held {
    ioctx: IoCtx,
    oid: Vec<u8>,
    name: String,
    mode: LockMode,
    options: LockOptions,
}

impl Held {
    async fn keep(
        self,
        duration: Duration,
        mut stopped: oneshot::Receiver<()>,
        lost: watch::Sender<Option<Errno>>,
    ) -> Result<(), Error> {
        let renewed_each = (duration / 3).max(PAUSE_MIN);
        let mut pause = renewed_each;
        let mut until = tokio::time::Instant::now() + duration;
        loop {
            tokio::select! {
                _ = &mut stopped => return self.give_up().await,
                () = tokio::time::sleep(pause) => {}
            }
            pause = renewed_each;
            let asked = tokio::time::Instant::now();
            let renewed = tokio::select! {
                _ = &mut stopped => return self.give_up().await,
                renewed = tokio::time::timeout_at(until, self.renew()) => renewed,
            };
            match renewed {
                // The OSD starts the lock's duration when it executes the renewal, which is after `asked`.
                Ok(Ok(())) => until = asked + duration,
                // An operation times out after `rados_osd_op_timeout`. This says nothing about the lock.
                Ok(Err(e)) if e.errno() == Errno::ETIMEDOUT => pause = PAUSE_MIN,
                Ok(Err(e)) => {
                    lost.send_replace(Some(e.errno()));
                    return Err(Errno::ENOENT.into());
                }
                Err(_) => {
                    lost.send_replace(Some(Errno::ETIMEDOUT));
                    return Err(Errno::ENOENT.into());
                }
            }
        }
    }

    async fn renew(&self) -> Result<(), Error> {
        self.ioctx.renew_lock(self.oid.clone(), &self.name, self.mode, &self.options).await
    }

    async fn give_up(&self) -> Result<(), Error> {
        self.ioctx.unlock(self.oid.clone(), &self.name, &self.options.cookie).await
    }
}
