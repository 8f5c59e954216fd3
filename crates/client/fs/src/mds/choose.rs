//! Which server is asked, and opening the session with it.

use std::sync::Arc;

use loligo_maps::{MdsInfo, MdsMap, MdsState};
use loligo_msgr::Policy;
use loligo_wire::message::Msg;
use loligo_wire::message::mon::MMDSMap;
use loligo_wire::{EntityType, Rank};

use crate::core::Core;
use crate::error::Error;
use crate::inode::Inode;
use crate::session::{Ended, Phase, Session};

impl Core {
    /// Returns an open session with a server: the given one, or that which decides about an inode. Waits
    /// while no server serves the file system.
    ///
    /// # Errors
    /// The server refuses the session, or the mount has ended.
    pub(crate) async fn session_for(&self, rank: Option<Rank>, about: &Inode) -> Result<Arc<Session>, Error> {
        let mut maps = self.map.subscribe();
        loop {
            if self.has_ended() {
                return Err(Error::Unmounted);
            }
            let map = maps.borrow_and_update().clone();
            if let Some(map) = map
                && let Some(info) = chosen(&map, rank.or_else(|| about.known().caps.auth()))
            {
                let session = self.session_with(info);
                if self.is_usable(&session).await? {
                    return Ok(session);
                }
                continue;
            }
            if maps.changed().await.is_err() {
                return Err(Error::Unmounted);
            }
        }
    }

    /// Waits until a session is open. Returns `false` if another one must be looked for.
    async fn is_usable(&self, session: &Session) -> Result<bool, Error> {
        loop {
            let changed = session.changed.notified();
            tokio::pin!(changed);
            // Enlisted before the check, so that a change between the two is not missed.
            changed.as_mut().enable();
            match session.phase() {
                Phase::Open => return Ok(true),
                Phase::Ended(Ended::Rejected(why)) => {
                    return Err(Error::Rejected { rank: session.rank.0, why });
                }
                Phase::Ended(Ended::Broken(what, source)) => {
                    return Err(Error::Decode { what, rank: session.rank.0, source });
                }
                Phase::Ended(_) => {
                    self.forget_session(session);
                    return Ok(false);
                }
                Phase::Closing => return Err(Error::Unmounted),
                Phase::Opening | Phase::Reconnecting => changed.await,
            }
        }
    }

    /// Returns the session with a server, which is opened if there is none.
    pub(super) fn session_with(&self, info: &MdsInfo) -> Arc<Session> {
        if let Some(session) = self.session_of(info.rank) {
            return session;
        }
        let new = {
            let mut sessions = self.sessions.write();
            if let Some(session) = sessions.get(&info.rank) {
                return Arc::clone(session);
            }
            let addr = info.addrs.msgr2().copied().unwrap_or_default();
            let session = Session::new(info.rank, info.gid, addr, Phase::Opening);
            sessions.insert(info.rank, Arc::clone(&session));
            session
        };
        self.connect(&new);
        new.ask_to_open(self.metadata());
        new
    }

    /// Opens a session's connection. The server keeps the session when the connection is lost.
    pub(super) fn connect(&self, session: &Arc<Session>) {
        // A weak reference, since the session has the connection.
        let user_data: Arc<dyn std::any::Any + Send + Sync> = Arc::new(Arc::downgrade(session));
        let policy = Policy::lossless_client();
        let conn = self.dialer().connect(EntityType::MDS, session.addr, policy, |conn| {
            let _ = conn.user_data().set(user_data);
        });
        if let Some(conn) = conn {
            session.set_conn(&conn);
        }
    }

    /// Removes a session that has ended, so that the next request opens another one.
    fn forget_session(&self, session: &Session) {
        let mut sessions = self.sessions.write();
        let is_it = sessions.get(&session.rank).is_some_and(|known| std::ptr::eq(&**known, session));
        let gone = if is_it { sessions.remove(&session.rank) } else { None };
        drop(sessions);
        drop(gone);
    }

    /// Takes over a map.
    pub(super) fn take_mds_map(&self, msg: &Msg) {
        let Ok(body) = msg.open::<MMDSMap>() else { return };
        let Ok(map) = MdsMap::from_message(&body.map) else { return };
        let is_new = self.map_epoch() < map.epoch;
        if let Some((_, what)) = self.followed.get() {
            self.cluster().monitors().got(what, map.epoch.0.into());
        }
        if is_new {
            let map = Arc::new(map);
            self.map.send_replace(Some(Arc::clone(&map)));
            self.follow_servers(&map);
        }
    }
}

/// Returns the server of a rank, or the first one that serves; `None` while there is none.
fn chosen(map: &MdsMap, rank: Option<Rank>) -> Option<&MdsInfo> {
    let serves = |info: &&MdsInfo| [MdsState::ACTIVE, MdsState::STOPPING].contains(&info.state);
    match rank.and_then(|rank| map.server(rank)) {
        Some(info) => Some(info).filter(serves),
        None => map.active_ranks().next().and_then(|rank| map.server(rank)),
    }
}
