//! A client that the cluster has shut out: evicted by a metadata server, and on the blocklist of the OSDs.
//!
//! Nothing of it counts any more, under this identity. Either every call says so, or, if the mount was
//! asked to recover, it goes on with a new identity: without the capabilities, the locks and the unwritten
//! data of the old one, which the files that had some report.

use std::sync::{Arc, Weak};
use std::time::Duration;

use loligo_rados::{Builder, Rados, Reason};
use loligo_wire::EntityType;
use loligo_wire::message::Message as _;
use loligo_wire::message::mon::{MFSMapUser, MMDSMap};

use super::standing::Standing;
use crate::core::Core;
use crate::error::Error;
use crate::session::Ended;

/// How long apart the attempts to get a new identity are.
const AGAIN: Duration = Duration::from_secs(1);

impl Core {
    /// Waits until the cluster serves this client.
    ///
    /// # Errors
    /// It does not, and never will.
    pub(crate) async fn welcome(&self) -> Result<(), Error> {
        let mut standing = self.standing.subscribe();
        loop {
            if self.has_ended() {
                return Err(Error::Unmounted);
            }
            match *standing.borrow_and_update() {
                Standing::Welcome => return Ok(()),
                Standing::Blocked => return Err(Error::Blocklisted),
                Standing::Returning => {}
            }
            if standing.changed().await.is_err() {
                return Err(Error::Unmounted);
            }
        }
    }

    /// Says whether the cluster serves this client, without waiting.
    ///
    /// # Errors
    /// It has shut it out for good.
    pub(crate) fn may_go_on(&self) -> Result<(), Error> {
        match *self.standing.borrow() {
            Standing::Blocked => Err(Error::Blocklisted),
            _ => Ok(()),
        }
    }

    /// The cluster has shut this client out.
    pub(crate) fn shut_out(&self) {
        let next = if self.options.recovers { Standing::Returning } else { Standing::Blocked };
        let is_first = self.standing.send_if_modified(|standing| {
            let is_first = *standing == Standing::Welcome;
            if is_first {
                *standing = next;
            }
            is_first
        });
        if is_first {
            for session in self.all_sessions() {
                self.session_ended(&session, Ended::Lost);
            }
            self.clear_sessions();
            self.wake_all();
        }
    }

    /// Follows the cluster's opinion of this client until the mount ends, or is shut out for good.
    pub(crate) async fn watch_standing(core: Weak<Self>) {
        loop {
            let Some(blocked) = core.upgrade().map(|core| core.found_out()) else { return };
            blocked.await;
            let Some(core) = core.upgrade() else { return };
            core.shut_out();
            if *core.standing.borrow() == Standing::Blocked || core.has_ended() {
                return;
            }
            core.come_back().await;
        }
    }

    /// Completes when the OSDs' map, or a metadata server, says that this client is shut out.
    fn found_out(&self) -> impl Future<Output = ()> + Send + use<> {
        let by_osds = self.rados.blocklisted();
        let mut standing = self.standing.subscribe();
        async move {
            tokio::select! {
                () = by_osds => {}
                _ = standing.wait_for(|standing| *standing != Standing::Welcome) => {}
            }
        }
    }

    /// Goes on with a new identity. What keeps this client from getting one is said as long as calls wait
    /// for it.
    async fn come_back(self: &Arc<Self>) {
        let word = self.rados.waits_for(Reason::NewIdentity { last_error: None });
        while !self.has_ended() {
            match self.new_identity().await {
                Ok(rados) => {
                    self.rados.push(rados);
                    if let Some((_, what)) = self.followed.get() {
                        self.cluster().monitors().follow(what, 0);
                    }
                    self.standing.send_replace(Standing::Welcome);
                    self.wake_all();
                    return;
                }
                Err(e) => word.becomes(Reason::NewIdentity { last_error: Some(e.to_string()) }),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn new_identity(self: &Arc<Self>) -> Result<Rados, Error> {
        let rados =
            Builder::new().conf(self.cluster().conf()).waits(self.cluster().waits()).connect().await?;
        rados.cluster().register(EntityType::MDS, &[MMDSMap::KIND, MFSMapUser::KIND], self)?;
        Ok(rados)
    }

    /// Ends the identities that the mount has taken itself.
    pub(crate) async fn leave_identities(&self) {
        for rados in self.rados.taken() {
            rados.shutdown().await;
        }
    }
}
