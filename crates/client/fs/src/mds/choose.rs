//! Which server is asked, and opening the session with it.

use std::sync::Arc;
use std::time::Duration;

use loligo_cluster::Reason;
use loligo_fs_core::request::{RankState, Route, choose};
use loligo_maps::{MdsInfo, MdsMap, MdsState};
use loligo_msgr::Policy;
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{Frag, RequestOp};
use loligo_wire::message::mon::MMDSMap;
use loligo_wire::{EntityType, Rank};

use crate::core::Core;
use crate::error::Error;
use crate::inode::Known;
use crate::session::{Ended, Phase, Request, Session};

/// How long to wait before another session is opened after one that ended at once, the first time; each
/// further time it is twice as long.
const PAUSE: Duration = Duration::from_millis(25);
/// The longest such time.
const PAUSE_MAX: Duration = Duration::from_secs(2);

impl Core {
    /// Returns an open session with a server: the given one, or that which decides about an inode. Waits
    /// while no server serves the file system.
    ///
    /// # Errors
    /// The server refuses the session, or the mount has ended.
    pub(crate) async fn session_for(
        &self,
        rank: Option<Rank>,
        request: &Request,
    ) -> Result<Arc<Session>, Error> {
        let (mut maps, mut standing) = (self.map.subscribe(), self.standing.subscribe());
        let mut lost = 0_u32;
        loop {
            standing.mark_unchanged();
            self.welcome().await?;
            let map = maps.borrow_and_update().clone();
            if let Some(info) = map.as_deref().and_then(|map| self.server_for(map, rank, request)) {
                let session = self.session_with(info);
                if self.is_usable(&session).await? {
                    return Ok(session);
                }
                // Once a server may have gone meanwhile. More often it ends each session at once.
                if lost > 0 {
                    tokio::time::sleep(PAUSE_MAX.min(PAUSE * (1 << lost.min(16)))).await;
                }
                lost += 1;
                continue;
            }
            let fs = map.map(|map| map.fs_name.to_string()).unwrap_or_default();
            let _word = self.rados.waits_for(Reason::NoMds { fs });
            let goes_on = tokio::select! {
                changed = maps.changed() => changed.is_ok(),
                changed = standing.changed() => changed.is_ok(),
            };
            if !goes_on {
                return Err(Error::Unmounted);
            }
        }
    }

    /// Returns the server that decides about what a request changes or asks for: the given one, that of the
    /// part of the directory that the name is in, that of the inode, or any. `None` if that server, or every
    /// one, does not serve now.
    fn server_for<'m>(&self, map: &'m MdsMap, rank: Option<Rank>, request: &Request) -> Option<&'m MdsInfo> {
        let (fragment_auth, auth_cap) = {
            let known = request.about.known();
            (known.fragment_of(request).and_then(|frag| known.fragments.rank(frag)), known.caps.auth())
        };
        let route = Route {
            forwarded_to: rank,
            fragment_auth,
            replicas: &[],
            auth_cap,
            any_cap: None,
            changes: request.op.is_write(),
        };
        let active: Vec<Rank> = map.active_ranks().collect();
        choose(&route, &|rank| state_of(map, rank), &active, 0).and_then(|rank| map.server(rank))
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
                Phase::Opening | Phase::Reconnecting => {
                    let _word = self.waits_for_server(session.rank);
                    changed.await;
                }
            }
        }
    }

    /// Returns the session with a server, which is opened if there is none.
    pub(super) fn session_with(&self, info: &MdsInfo) -> Arc<Session> {
        if let Some(session) = self.session_of(info.rank) {
            if session.ended() != Some(Ended::Lost) {
                return session;
            }
            self.forget_session(&session);
        }
        let new = {
            let mut sessions = self.sessions.write();
            if let Some(session) = sessions.get(&info.rank) {
                return Arc::clone(session);
            }
            let addr = info.addrs.to_dial().copied().unwrap_or_default();
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

/// Returns whether a rank serves, will serve, or is no more.
fn state_of(map: &MdsMap, rank: Rank) -> RankState {
    match map.state(rank) {
        MdsState::ACTIVE | MdsState::STOPPING => RankState::Serves,
        _ if map.in_ranks.contains(&rank) || map.up.contains_key(&rank) => RankState::Waits,
        _ => RankState::Gone,
    }
}

impl Known {
    /// Returns the part of this directory that a request is about, if it is about a name in it or lists it.
    fn fragment_of(&self, request: &Request) -> Option<Frag> {
        match (&request.op, &request.entry) {
            (RequestOp::ReadDir(args), _) => Some(args.frag),
            (_, Some((dir, name))) if dir.id.is_head() => {
                Some(self.attrs.frag_tree.leaf(self.names.hash_of(name)))
            }
            _ => None,
        }
    }
}
