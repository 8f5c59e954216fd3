//! The operations on watches: what they read, what they store, and their effects if the request
//! succeeds.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use bytes::Bytes;
use loligo_store::{ObjectName, ObjectRef, ObjectView};
use loligo_wire::message::osd::{ListWatchersResponse, OpCode, Ops, OsdOp, WatchArgs, WatchItem};
use loligo_wire::{Encode, EntityNum, Errno, GlobalId, Reader, Writer};

use super::Context;
use super::execution::{DONE, Execution, Output};
use crate::watch::{Answered, Connected, Effects, Load, Notified, Watch, Watches, notify_bytes, record};

/// `osd_client_watch_timeout`.
const WATCH_TIMEOUT_S: u32 = 30;
/// `osd_default_notify_timeout`.
const NOTIFY_TIMEOUT_S: u32 = 30;
/// An upper bound that keeps times in range.
const TIMEOUT_S_MAX: u32 = 1 << 24;

/// The cost of visiting or listing a watcher of an object, in bytes.
const WATCHER_LEN: u64 = 128;

/// Distinguishes the notifications of one epoch.
static NEXT_NOTIFY: AtomicU32 = AtomicU32::new(1);

/// Loads an object's watchers from the store if the request concerns watches and they are not loaded
/// yet.
pub(crate) fn load(
    context: &Context,
    ops: &Ops,
    watches: &mut Watches,
    oid: ObjectRef<'_>,
    view: &dyn ObjectView,
) -> Result<(), Errno> {
    let concerned = |op: &OsdOp| {
        matches!(
            op.code,
            OpCode::WATCH
                | OpCode::NOTIFY
                | OpCode::NOTIFY_ACK
                | OpCode::LIST_WATCHERS
                | OpCode::DELETE
                | OpCode::ROLLBACK
                | OpCode::CALL
        )
    };
    if !view.info().watched || !(ops.is_empty() || ops.iter().any(concerned)) || watches.of(oid).is_some() {
        return Ok(());
    }
    let attributes = context.fetches.now(|| view.xattrs())?;
    let found: Vec<_> = attributes.iter().filter_map(|(name, value)| record::read(name, value)).collect();
    if !found.is_empty() {
        watches.insert(oid, found, Instant::now());
    }
    Ok(())
}

impl Execution<'_> {
    fn effects(&mut self) -> Result<&mut Effects, Errno> {
        match &mut self.effects {
            Some(effects) => Ok(effects),
            none => {
                let object = ObjectName::new(self.oid).map_err(|_| Errno::ENAMETOOLONG)?;
                Ok(none.insert(Box::new(Effects::on(object))))
            }
        }
    }

    /// Internal requests are not counted.
    fn load_admits(&self, admits: impl FnOnce(&Load) -> Result<(), Errno>) -> Result<(), Errno> {
        self.load.map_or(Ok(()), admits)
    }

    pub(crate) fn watch(&mut self, op: &OsdOp) -> Output {
        self.must_exist()?;
        let args = op.watch_args();
        let key = (args.cookie, self.context.client);
        let known = self.watchers.and_then(|watchers| watchers.get(&key));
        match args.op {
            WatchArgs::WATCH | WatchArgs::LEGACY_WATCH => {
                let new = self.connected(&args);
                if known.is_none() {
                    let pending = self.effects.as_ref().map_or(0, |effects| effects.connected.len());
                    self.load_admits(|load| load.admits_watch(key.1, pending))?;
                    self.info.watched = true;
                    self.make(record::keep(key, new.timeout_s, new.addr));
                }
                self.effects()?.connected.push(new);
            }
            WatchArgs::RECONNECT | WatchArgs::PING if known.is_none() => return Err(Errno::ENOTCONN),
            WatchArgs::RECONNECT => {
                let new = self.connected(&args);
                self.effects()?.connected.push(new);
            }
            WatchArgs::PING if known.is_some_and(|watch| !watch.is_connected()) => {
                return Err(Errno::ETIMEDOUT);
            }
            WatchArgs::PING => self.effects()?.pinged.push(key),
            WatchArgs::UNWATCH if known.is_some() => self.unwatch(key, false)?,
            _ => {}
        }
        DONE
    }

    /// Ends a watch; `tell`: its client is notified.
    pub(crate) fn unwatch(&mut self, key: (u64, u64), tell: bool) -> Result<(), Errno> {
        self.info.watched = self.watchers.is_some_and(|watchers| watchers.keys().any(|other| *other != key));
        self.make(record::forget(key));
        self.effects()?.ended.push((key, tell));
        Ok(())
    }

    fn connected(&self, args: &WatchArgs) -> Connected {
        let timeout_s = if args.timeout_s == 0 { WATCH_TIMEOUT_S } else { args.timeout_s.min(TIMEOUT_S_MAX) };
        Connected {
            key: (args.cookie, self.context.client),
            timeout_s,
            addr: self.context.peer,
            pings: args.op != WatchArgs::LEGACY_WATCH,
        }
    }

    /// Ends all watches of an object that is deleted; their clients are notified.
    pub(crate) fn forget_watchers(&mut self) -> Result<(), Errno> {
        self.info.watched = false;
        // Once for each request, which may delete and create its object thousands of times.
        let is_told = self.effects.as_ref().is_some_and(|effects| effects.all_end);
        if let Some(watchers) = self.watchers.filter(|watchers| !watchers.is_empty() && !is_told) {
            self.effects()?.all_end = true;
            self.effects()?.ended.extend(watchers.keys().map(|key| (*key, true)));
        }
        Ok(())
    }

    pub(crate) fn list_watchers(&mut self) -> Output {
        self.spend(self.watchers.map_or(0, |watchers| watchers.len()) as u64 * WATCHER_LEN)?;
        let item = |((cookie, client), watch): (&(u64, u64), &Watch)| WatchItem {
            name: EntityNum::client(GlobalId(*client)),
            cookie: *cookie,
            timeout_s: watch.timeout_s,
            addr: watch.addr,
        };
        let entries = self.watchers.into_iter().flatten().map(item).collect();
        let output = ListWatchersResponse { entries }.to_bytes();
        Ok((0, output))
    }

    pub(crate) fn notify(&mut self, op: &OsdOp) -> Output {
        let mut r = Reader::new(&op.data);
        // The data begins with a version, which is ignored. Fields that cannot be decoded count as
        // empty, as in a stock OSD.
        let timeout_s = r.u32().and_then(|_| r.u32()).unwrap_or(0);
        let payload = r.get::<Bytes>().unwrap_or_default();
        let watchers = self.watchers.map_or(0, |watchers| watchers.len());
        if watchers > 0 {
            let bytes = notify_bytes(watchers, payload.len());
            let pending = self.effects.as_ref().map(|effects| effects.pending).unwrap_or_default();
            self.load_admits(|load| load.admits_notify(pending, watchers, bytes))?;
            self.effects()?.pending.notify(watchers, bytes);
        }
        // Relaxed: the number only has to be unique.
        let number = NEXT_NOTIFY.fetch_add(1, Ordering::Relaxed);
        let id = u64::from(self.context.epoch.0) << 32 | u64::from(number);
        let notified = Notified {
            id,
            cookie: op.cookie(),
            client: self.context.client,
            timeout_s: if timeout_s == 0 { NOTIFY_TIMEOUT_S } else { timeout_s.min(TIMEOUT_S_MAX) },
            payload,
            version: self.info.user_version,
        };
        self.effects()?.notified.push(notified);
        let mut w = Writer::new();
        w.u64(id);
        self.same_result(w.into_bytes())
    }

    pub(crate) fn acknowledge(&mut self, op: &OsdOp) -> Output {
        let mut r = Reader::new(&op.data);
        let mut parts =
            || Ok::<_, Errno>((r.u64()?, r.u64()?, if r.is_empty() { Bytes::new() } else { r.get()? }));
        let client = self.context.client;
        let all = self.watchers.map_or(0, |watchers| watchers.len());
        let answered = match parts() {
            Ok((id, cookie, reply)) => Answered { id, client, cookie: Some(cookie), reply },
            // The oldest clients put the notification's id where the cookie should be.
            Err(_) => Answered { id: op.cookie(), client, cookie: None, reply: Bytes::new() },
        };
        if answered.cookie.is_none() {
            // All watches of the object are visited.
            self.spend(all as u64 * WATCHER_LEN)?;
        }
        if !answered.reply.is_empty() {
            let pending = self.effects.as_ref().map(|effects| effects.pending).unwrap_or_default();
            self.load_admits(|load| load.admits_answer(pending, answered.reply.len()))?;
            self.effects()?.pending.answer(answered.reply.len());
        }
        self.effects()?.answered.push(answered);
        self.same_result(Bytes::new())
    }
}
