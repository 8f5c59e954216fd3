//! Requests that are not commands.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_cephx::caps::{Access, OsdCaps, Perms, PoolFacts};
use loligo_maps::{Name, PgPool};
use loligo_wire::message::Msg;
use loligo_wire::message::mon::{
    ClusterStatfs, LogEntry, MAuth, MAuthReply, MGetPoolStats, MGetPoolStatsReply, MLog, MLogAck,
    MMonGetVersion, MMonGetVersionReply, MMonMap, MMonSubscribe, MMonSubscribeAck, MPoolOp, MPoolOpReply,
    MStatfs, MStatfsReply, PaxosHeader, PoolOpCode,
};
use loligo_wire::message::osd::{ObjectStatSum, PoolStat, StoreStatfs};
use loligo_wire::{Encode as _, PoolId, Tid, UTime, features};

use super::run::shortened;
use super::{Monitor, SessionId, send};
use crate::command::{Errno, Failure};
use crate::session::Session;
use crate::state::log;
use crate::state::pools::Created;
use crate::text;

/// The interval at which a client without `MON_STATEFUL_SUB` renews its subscriptions.
const SUBSCRIBE_INTERVAL_S: u32 = 86_400;
/// The longest host name that is kept.
const HOST_LEN_MAX: usize = 256;
/// Maximum number of log lines that one message may add.
const LOG_LINES_MAX: usize = 100;
/// Maximum bytes of a line's channel and of its writer's name, and maximum number of the writer's
/// addresses. Lines beyond that are dropped.
const LOG_NAME_MAX: usize = 256;
const LOG_ADDRS_MAX: usize = 8;

impl Monitor {
    pub(super) fn send_monmap(&mut self, id: SessionId) {
        send(&mut self.out, id, &MMonMap { monmap: self.state.monmap().to_bytes() });
    }

    pub(super) fn subscribe(&mut self, id: SessionId, message: MMonSubscribe) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        // The host name is the client's own claim, and unverified. Settings for a host depend on it.
        if message.hostname.len() <= HOST_LEN_MAX {
            session.host.clone_from(&message.hostname);
        }
        for (what, subscription) in &message.what {
            // A client follows the log at one level: a new level replaces the previous one.
            if log::is_level(what) {
                session.unsubscribe(log::is_level);
            }
            session.subscribe(what, *subscription);
        }
        if !features::has(session.peer.features, features::MON_STATEFUL_SUB) {
            let ack = MMonSubscribeAck { interval_s: SUBSCRIBE_INTERVAL_S, fsid: self.state.fsid() };
            send(&mut self.out, id, &ack);
        }
        self.tell(id);
    }

    pub(super) fn version(&mut self, id: SessionId, message: MMonGetVersion) {
        let (version, oldest) = match message.what.as_str() {
            "osdmap" => (self.state.osdmap().epoch.0, self.state.maps().oldest().0),
            "monmap" => (self.state.monmap().epoch.0, self.state.monmap().epoch.0),
            "mgrmap" => {
                let epoch = self.state.mgr_map().epoch.0;
                (epoch, epoch)
            }
            _ => (0, 0), // an unknown map: a client that waits for it must not wait for ever
        };
        let reply =
            MMonGetVersionReply { handle: message.handle, version: version.into(), oldest: oldest.into() };
        send(&mut self.out, id, &reply);
    }

    pub(super) fn renew(&mut self, id: SessionId, message: MAuth) {
        let Some(session) = self.sessions.get(&id) else { return };
        let identity = &session.peer.identity;
        let renewal = self.auth.renew(identity, &message.payload);
        let reply = MAuthReply {
            protocol: message.protocol,
            result: renewal.result,
            global_id: identity.global_id,
            payload: renewal.payload,
            message: String::new(),
        };
        send(&mut self.out, id, &reply);
    }

    pub(super) fn statfs(&mut self, id: SessionId, tid: Tid, message: MStatfs) {
        let allowed = self.sessions.get(&id).is_some_and(|session| session.may("pg", Perms::R));
        if !allowed || !self.state.is_meant_by(message.fsid) {
            return;
        }
        let usage = self.usage.usage();
        let kb = |bytes: u64| bytes >> 10;
        let statfs = match message.data_pool {
            None => ClusterStatfs {
                kb: kb(usage.space.total),
                kb_used: kb(usage.space.used),
                kb_avail: kb(usage.space.available()),
                num_objects: usage.pools.values().map(|sum| positive(sum.num_objects)).sum(),
            },
            Some(pool) => {
                let sum = usage.pool(pool);
                let (used, free) = (positive(sum.num_bytes), usage.space.available());
                ClusterStatfs {
                    kb: kb(used + free),
                    kb_used: kb(used),
                    kb_avail: kb(free),
                    num_objects: positive(sum.num_objects),
                }
            }
        };
        let reply = MStatfsReply { fsid: message.fsid, version: self.epoch().version, statfs };
        self.out.push((id, Msg::new(&reply).with_tid(tid)));
    }

    pub(super) fn pool_stats(&mut self, id: SessionId, tid: Tid, message: MGetPoolStats) {
        let allowed = self.sessions.get(&id).is_some_and(|session| session.may("pg", Perms::R));
        if !allowed || !self.state.is_meant_by(message.fsid) {
            return;
        }
        let usage = self.usage.usage();
        let map = self.state.osdmap();
        let of_pool = |name: &Bytes| {
            let pool = map.pool_by_name(name)?;
            Some((name.clone(), pool_stat(usage.pool(pool))))
        };
        let pool_stats: BTreeMap<Bytes, PoolStat> = message.pools.iter().filter_map(of_pool).collect();
        let reply =
            MGetPoolStatsReply { paxos: self.epoch(), fsid: message.fsid, pool_stats, per_pool: true };
        self.out.push((id, Msg::new(&reply).with_tid(tid)));
    }

    pub(super) fn log(&mut self, id: SessionId, message: MLog) {
        let allowed = self.sessions.get(&id).is_some_and(|session| session.may("log", Perms::W));
        let Some(last) = message.entries.last().filter(|_| allowed && self.state.is_meant_by(message.fsid))
        else {
            return;
        };
        let ack = MLogAck { fsid: message.fsid, last: last.seq, channel: last.channel.clone() };
        let names_are_short = |entry: &LogEntry| {
            entry.channel.len() <= LOG_NAME_MAX
                && entry.name.id.len() <= LOG_NAME_MAX
                && entry.addrs.0.len() <= LOG_ADDRS_MAX
        };
        for entry in message.entries.into_iter().take(LOG_LINES_MAX).filter(names_are_short) {
            self.state.log_mut().push(LogEntry { message: shortened(entry.message), ..entry });
        }
        send(&mut self.out, id, &ack);
        self.settle();
    }

    pub(super) fn pool_op(&mut self, id: SessionId, tid: Tid, message: MPoolOp, now: UTime) {
        let fsid = message.fsid;
        let (result, payload) = match self.do_pool_op(id, &message, now) {
            Ok(payload) => (0, payload),
            Err(failure) => (failure.errno.to_result(), None),
        };
        self.settle(); // the new map is sent before the reply
        let epoch = self.state.osdmap().epoch;
        let reply = MPoolOpReply { paxos: self.epoch(), fsid, result, epoch, payload };
        self.out.push((id, Msg::new(&reply).with_tid(tid)));
    }

    fn do_pool_op(&mut self, id: SessionId, message: &MPoolOp, now: UTime) -> Result<Option<Bytes>, Failure> {
        if !self.state.is_meant_by(message.fsid) {
            return Err(Failure::invalid("another cluster"));
        }
        let pool = PoolId(message.pool.into());
        if !self.may_pool_op(id, message, pool) {
            return Err(Failure::new(Errno::EPERM, "access denied"));
        }
        let exists = self.state.osdmap().pool(pool).is_some();
        let name = text::from_bytes(&message.name);
        match message.op {
            PoolOpCode::Create => {
                self.check_rule(message.crush_rule)?;
                match self.state.create_pool(now, &name, 0)? {
                    Created::New(_) | Created::Existed(_) => Ok(None),
                }
            }
            PoolOpCode::Delete => self.state.remove_pool(now, pool).map(|()| None),
            _ if !exists => Err(Failure::missing(format!("there is no pool {pool}"))),
            PoolOpCode::CreateUnmanagedSnap => {
                self.state.create_snap_id(now, pool).map(|snap| Some(snap.to_bytes()))
            }
            PoolOpCode::DeleteUnmanagedSnap => {
                self.state.remove_snap_id(now, pool, message.snapid).map(|()| None)
            }
            PoolOpCode::CreateSnap => self.state.create_pool_snap(now, pool, &name).map(|_| None),
            PoolOpCode::DeleteSnap => self.state.remove_pool_snap(now, pool, &name).map(|_| None),
            PoolOpCode::AuidChange => Err(Failure::new(Errno::EOPNOTSUPP, "not supported")),
        }
    }

    /// Checks that the rule exists. A negative number selects the default.
    fn check_rule(&self, rule: i16) -> Result<(), Failure> {
        let rules = &self.state.osdmap().crush.rules;
        let known = usize::try_from(rule).is_ok_and(|id| rules.get(id).is_some_and(Option::is_some));
        if rule < 0 || known { Ok(()) } else { Err(Failure::missing(format!("there is no rule {rule}"))) }
    }

    /// Write access to the osdmap allows every operation. Write access to the pool's objects allows
    /// those on snapshot ids.
    fn may_pool_op(&self, id: SessionId, message: &MPoolOp, pool: PoolId) -> bool {
        let Some(session) = self.sessions.get(&id) else { return false };
        let about_snap_ids =
            matches!(message.op, PoolOpCode::CreateUnmanagedSnap | PoolOpCode::DeleteUnmanagedSnap);
        session.may("osd", Perms::W) || (about_snap_ids && self.may_write_to_pool(session, pool))
    }

    fn may_write_to_pool(&self, session: &Session, id: PoolId) -> bool {
        let entry = self.state.keys().entry(&session.peer.identity.name);
        let caps = entry.and_then(|entry| OsdCaps::parse(entry.caps.get("osd")?).ok());
        let map = self.state.osdmap();
        let (Some(caps), Some(pool), Some(name)) = (caps, map.pool(id), map.pool_name(id)) else {
            return false;
        };
        let facts = PoolFacts { name: &text::of(name), applications: &applications(pool) };
        let write = Access { read: false, write: true };
        caps.for_pool(facts, session.ip()).allows(write, b"", b"")
    }

    /// The osdmap's epoch, as the version on which replies are based.
    pub(super) fn epoch(&self) -> PaxosHeader {
        PaxosHeader { version: self.state.osdmap().epoch.0.into() }
    }
}

fn applications(pool: &PgPool) -> BTreeMap<String, BTreeMap<String, String>> {
    let as_text = |settings: &BTreeMap<Name, Name>| {
        settings.iter().map(|(key, value)| (text::of(key), text::of(value))).collect()
    };
    pool.application_metadata.iter().map(|(app, settings)| (text::of(app), as_text(settings))).collect()
}

fn positive(n: i64) -> u64 {
    n.max(0).cast_unsigned()
}

fn pool_stat(sum: ObjectStatSum) -> PoolStat {
    let stored = sum.num_bytes;
    let store_stats = StoreStatfs {
        allocated: stored,
        data_stored: stored,
        omap_allocated: sum.num_omap_bytes,
        ..StoreStatfs::default()
    };
    PoolStat { sum, store_stats, num_store_stats: 1, up: 1, acting: 1, ..PoolStat::default() }
}
