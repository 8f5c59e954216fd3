//! A device on a cluster that outlives its client of the cluster.
//!
//! A client that was put on the blocklist (by a client that takes a lock from it, or by hand) is dead for
//! good. What the device stands on is then opened anew by a client of another identity; requests wait for
//! that meanwhile, and those that failed with the old client are carried out again, as nobody was told of
//! them.
//!
//! | state | means | leaves it |
//! |---|---|---|
//! | open | requests are carried out | the client is blocklisted: to *renewing*; its lock is lost: to *lost* |
//! | renewing | requests wait | opened: to *open*; another client has the lock, or data are lost: to *lost* |
//! | lost | requests fail | its end |
//!
//! The state is replaced as a whole, by the device's one task; to look at it takes no lock.

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

/// Between two attempts to open it anew.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// A back end that another client of the cluster can go on with.
pub(super) trait Clustered: Backend {
    /// Ends it, without a word to the cluster, and returns what a successor needs. To be called when its
    /// client is blocklisted and has been shut down.
    fn retire(&self) -> Retiring;

    /// Waits until nothing can be changed by it any more, though its client lives: then why.
    fn lost(&self) -> Losing;
}

/// What is left of a back end whose client is dead.
pub(super) trait Heritage: Send + Sync {
    /// Opens the same with another client.
    fn pass_to<'a>(&'a self, rados: &'a Rados) -> Passing<'a>;
}

/// The end of a back end: what is left of it, unless it was closed already.
pub(super) type Retiring = Pin<Box<dyn Future<Output = Option<Box<dyn Heritage>>> + Send>>;

/// A wait for what makes a back end useless.
pub(super) type Losing = Pin<Box<dyn Future<Output = String> + Send>>;

/// An attempt to open a back end anew.
pub(super) type Passing<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn Clustered>, NotPassed>> + Send + 'a>>;

/// Why a back end was not opened anew.
pub(super) enum NotPassed {
    /// It never will be.
    Lost(String),
    /// A later attempt may do better.
    NotNow(String),
}

impl NotPassed {
    /// What comes of the cluster being out of reach passes.
    pub(super) fn of(e: &loligo_rados::Error) -> Self {
        use loligo_rados::Error as E;
        match e {
            E::Timeout(_) | E::NoMonitor { .. } | E::Shutdown => Self::NotNow(e.to_string()),
            e if e.errno() == loligo_rados::Errno::EBLOCKLISTED => Self::NotNow(e.to_string()),
            e => Self::Lost(e.to_string()),
        }
    }
}

/// The device. Dropped, it ends its task.
pub(super) struct Renewable {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    now: ArcSwap<Now>,
    changed: Notify,
    /// What is told of it while it is not open.
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
    /// A device that stands on `backend`, which was opened by `rados`.
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

/// Opens it anew, as often as that is needed.
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
        // What is under way with the old client ends now, so that nothing below waits for it.
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

/// Tries until it is open, or lost: then why.
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
    /// Changes the state; false if it is closed, and stays so.
    fn becomes(&self, next: Now) -> bool {
        let next = Arc::new(next);
        let before = self.now.rcu(|now| match **now {
            Now::Closed => Arc::clone(now),
            _ => Arc::clone(&next),
        });
        self.changed.notify_waiters();
        !matches!(*before, Now::Closed)
    }

    /// Carries out what came while it was not open, or failed with a client that is dead.
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

    /// Waits until it is open, by another client than that of `before`.
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
            // One that is just being retired does not know its size any more.
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
                    // On the heap, so that futures are small for those that need it not.
                    Err(_) if opened.rados.is_blocklisted() => Box::pin(shared.again(io, Some(opened))).await,
                    done => done,
                }
            }),
        }
    }

    fn read_now(&self, offset: u64, len: u32, out: &mut BytesMut) -> bool {
        match &**self.shared.now.load() {
            // What a dead client has cached may be somebody else's by now.
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
        // The cluster takes nothing from this client any more: what ends with it is not waited for.
        Box::pin(async move {
            tokio::spawn(closing);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
