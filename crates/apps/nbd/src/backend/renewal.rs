//! A device on a cluster that outlives its client of the cluster.
//!
//! A client on the blocklist (put there by a client that breaks its lock, or by hand) is unusable for
//! good. The back end is then opened again by a client with another identity. Requests wait meanwhile,
//! and requests that failed with the old client are carried out again, since their failure was not
//! reported.
//!
//! | state | meaning | transitions |
//! |---|---|---|
//! | open | requests are carried out | client blocklisted: to *renewing*; lock lost: to *lost* |
//! | renewing | requests wait | opened: to *open*; another client locked it, or data are lost: to *lost* |
//! | lost | requests fail | final |
//!
//! The state is replaced as a whole, by the device's one task or by `close`. Reading it takes no lock.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::BytesMut;
use loligo_rados::Rados;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::{Backend, BackendError, BackendState, Done, Opener, Started, Work};
use crate::proto::{Can, Fault, Io};

/// Time between two attempts to open the back end again.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// A back end that another client of the cluster can take over.
pub(super) trait Clustered: Backend {
    /// Closes the back end without any operation on the cluster, and returns the state that a successor
    /// needs. To be called after its client has been blocklisted and shut down.
    fn retire(&self) -> Retiring;

    /// Resolves when the back end can no longer change data although its client works. The output is the
    /// reason.
    fn lost(&self) -> Losing;
}

/// The state left by a back end whose client is blocklisted.
pub(super) trait Heritage: Send + Sync {
    /// Opens the same data with another client.
    fn pass_to<'a>(&'a self, rados: &'a Rados) -> Passing<'a>;
}

/// The closing of a back end. The output is `None` if it was closed already.
pub(super) type Retiring = Pin<Box<dyn Future<Output = Option<Box<dyn Heritage>>> + Send>>;

/// A wait for the loss of a back end.
pub(super) type Losing = Pin<Box<dyn Future<Output = String> + Send>>;

/// An attempt to open a back end again.
pub(super) type Passing<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn Clustered>, NotPassed>> + Send + 'a>>;

/// Why a back end was not opened again.
pub(super) enum NotPassed {
    /// No later attempt can succeed.
    Lost(String),
    /// A later attempt may succeed.
    NotNow(String),
}

impl NotPassed {
    /// Classifies an error: if the cluster is out of reach, a later attempt may succeed.
    pub(super) fn of(e: &loligo_rados::Error) -> Self {
        use loligo_rados::Error as E;
        match e {
            E::Timeout(_) | E::NoMonitor { .. } | E::Shutdown => Self::NotNow(e.to_string()),
            e if e.errno() == loligo_rados::Errno::EBLOCKLISTED => Self::NotNow(e.to_string()),
            e => Self::Lost(e.to_string()),
        }
    }
}

/// The device. Dropping it ends its task.
pub(super) struct Renewable {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    now: ArcSwap<Now>,
    changed: Notify,
    /// Reported while it is not open.
    kind: &'static str,
    can: Can,
    size: AtomicU64,
}

enum Now {
    Open(Arc<Opened>),
    Renewing(String),
    Lost(String),
    Closed,
}

struct Opened {
    backend: Box<dyn Clustered>,
    rados: Rados,
}

impl Renewable {
    /// Creates a device on `backend`, which `rados` has opened.
    pub(super) fn new(backend: Box<dyn Clustered>, rados: Rados, opener: Arc<Opener>) -> Self {
        let (kind, can, size) = (backend.kind(), backend.can(), backend.size().into());
        let first = Arc::new(Opened { backend, rados });
        let now = ArcSwap::from_pointee(Now::Open(Arc::clone(&first)));
        let shared = Arc::new(Shared { now, changed: Notify::new(), kind, can, size });
        let task = tokio::spawn(renew(Arc::clone(&shared), first, opener)).abort_handle();
        Self { shared, task }
    }
}

impl Drop for Renewable {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The device's task: opens the back end again whenever its client is blocklisted.
async fn renew(shared: Arc<Shared>, mut opened: Arc<Opened>, opener: Arc<Opener>) {
    loop {
        let why_lost = tokio::select! {
            biased;
            () = opened.rados.blocklisted() => None,
            why = opened.backend.lost() => Some(why),
        };
        if let Some(why) = why_lost {
            shared.becomes(Now::Lost(why));
            return;
        }
        if !shared.becomes(Now::Renewing("its client was blocklisted".to_owned())) {
            return;
        }
        // Operations in flight of the old client fail now, so that `retire` does not wait for them.
        opener.retire(&opened.rados).await;
        let Some(heritage) = opened.backend.retire().await else { return };
        let next = match passed(&*heritage, &opener, &shared).await {
            Ok(next) => Arc::new(next),
            Err(why) => {
                shared.becomes(Now::Lost(why));
                return;
            }
        };
        if !shared.becomes(Now::Open(Arc::clone(&next))) {
            return;
        }
        opened = next;
    }
}

/// Tries until the back end is open, or lost: then returns the reason.
async fn passed(heritage: &dyn Heritage, opener: &Opener, shared: &Shared) -> Result<Opened, String> {
    loop {
        let why = match opener.client().await {
            Err(e) => e.to_string(),
            Ok(rados) => match heritage.pass_to(&rados).await {
                Ok(backend) => return Ok(Opened { backend, rados }),
                Err(NotPassed::Lost(why)) => return Err(why),
                Err(NotPassed::NotNow(why)) => why,
            },
        };
        shared.becomes(Now::Renewing(why));
        tokio::time::sleep(TRY_EVERY).await;
    }
}

impl Shared {
    /// Changes the state. Returns `false` if it is closed, which is final.
    fn becomes(&self, next: Now) -> bool {
        let next = Arc::new(next);
        let before = self.now.rcu(|now| match **now {
            Now::Closed => Arc::clone(now),
            _ => Arc::clone(&next),
        });
        self.changed.notify_waiters();
        !matches!(*before, Now::Closed)
    }

    /// Carries out a request that arrived while the back end was not open, or failed with a blocklisted
    /// client.
    async fn again(self: Arc<Self>, io: Io, failed: Option<Arc<Opened>>) -> Result<Done, Fault> {
        let mut failed = failed;
        loop {
            let opened = self.opened_after(failed.as_ref()).await?;
            let done = match opened.backend.start(io.clone()) {
                Started::Now(done) => done,
                Started::Later(later) => later.await,
            };
            if done.is_ok() || !opened.rados.is_blocklisted() {
                return done;
            }
            failed = Some(opened);
        }
    }

    /// Waits until the back end is open by another client than that of `before`.
    async fn opened_after(&self, before: Option<&Arc<Opened>>) -> Result<Arc<Opened>, Fault> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match &**self.now.load() {
                Now::Open(opened) if before.is_none_or(|before| !Arc::ptr_eq(before, opened)) => {
                    return Ok(Arc::clone(opened));
                }
                Now::Open(_) | Now::Renewing(_) => {}
                Now::Lost(_) => return Err(Fault::Io),
                Now::Closed => return Err(Fault::Shutdown),
            }
            changed.await;
        }
    }

    fn not_open(&self) -> BackendError {
        match &**self.now.load() {
            Now::Renewing(why) => BackendError(format!("it is being opened anew: {why}")),
            Now::Lost(why) => BackendError(format!("it is lost: {why}")),
            Now::Open(_) | Now::Closed => BackendError("it is closed".to_owned()),
        }
    }

    fn opened(&self) -> Option<Arc<Opened>> {
        match &**self.now.load() {
            Now::Open(opened) => Some(Arc::clone(opened)),
            _ => None,
        }
    }
}

impl Backend for Renewable {
    fn kind(&self) -> &'static str {
        self.shared.kind
    }

    fn size(&self) -> u64 {
        match &**self.shared.now.load() {
            // A back end that is being retired no longer knows its size.
            Now::Open(opened) if !opened.rados.is_blocklisted() => {
                let size = opened.backend.size();
                if self.shared.size.load(Ordering::Relaxed) != size {
                    self.shared.size.store(size, Ordering::Relaxed);
                }
                size
            }
            _ => self.shared.size.load(Ordering::Relaxed),
        }
    }

    fn refresh(&self) -> Work {
        match self.shared.opened() {
            Some(opened) => opened.backend.refresh(),
            None => Box::pin(std::future::ready(Ok(()))),
        }
    }

    fn can(&self) -> Can {
        self.shared.can
    }

    fn state(&self) -> BackendState {
        match &**self.shared.now.load() {
            Now::Open(_) | Now::Closed => BackendState::Open,
            Now::Renewing(why) => BackendState::Renewing(why.clone()),
            Now::Lost(why) => BackendState::Lost(why.clone()),
        }
    }

    fn start(&self, io: Io) -> Started {
        let shared = Arc::clone(&self.shared);
        let opened = match &**self.shared.now.load() {
            Now::Open(opened) => Arc::clone(opened),
            Now::Renewing(_) => return Started::later(shared.again(io, None)),
            Now::Lost(_) => return Started::Now(Err(Fault::Io)),
            Now::Closed => return Started::Now(Err(Fault::Shutdown)),
        };
        match opened.backend.start(io.clone()) {
            Started::Now(Err(_)) if opened.rados.is_blocklisted() => {
                Started::later(shared.again(io, Some(opened)))
            }
            Started::Now(done) => Started::Now(done),
            Started::Later(later) => Started::later(async move {
                match later.await {
                    // Boxed, so that the future stays small in the usual case.
                    Err(_) if opened.rados.is_blocklisted() => Box::pin(shared.again(io, Some(opened))).await,
                    done => done,
                }
            }),
        }
    }

    fn read_now(&self, offset: u64, len: u32, out: &mut BytesMut) -> bool {
        match &**self.shared.now.load() {
            // Data in the cache of a blocklisted client may be outdated, since another client may have
            // the lock.
            Now::Open(opened) if !opened.rados.is_blocklisted() => opened.backend.read_now(offset, len, out),
            _ => false,
        }
    }

    fn resize(&self, size: u64) -> Work {
        match self.shared.opened() {
            Some(opened) => opened.backend.resize(size),
            None => Box::pin(std::future::ready(Err(self.shared.not_open()))),
        }
    }

    fn close(&self) -> Work {
        let before = self.shared.now.swap(Arc::new(Now::Closed));
        self.shared.changed.notify_waiters();
        self.task.abort();
        let Now::Open(opened) = &*before else { return Box::pin(std::future::ready(Ok(()))) };
        let closing = opened.backend.close();
        if !opened.rados.is_blocklisted() {
            return closing;
        }
        // The cluster accepts nothing more from this client, so the close runs in the background.
        Box::pin(async move {
            tokio::spawn(closing);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
