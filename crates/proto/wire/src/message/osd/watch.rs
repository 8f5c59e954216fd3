//! [`MWatchNotify`]: an OSD forwards a notification to a watcher, or tells the notifier that the
//! notification is complete.

use bytes::Bytes;

use crate::message::{Data, Header, Message, concat};
use crate::{DecodeError, Reader, Writer};

/// The kind of event (`CEPH_WATCH_EVENT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// To a watcher: a notification, which the watcher acknowledges with NOTIFY_ACK.
    Notify = 1,
    /// To the notifier: all watchers have acknowledged, or the timeout has expired.
    NotifyComplete = 2,
    /// To a watcher: the watch no longer exists.
    Disconnect = 3,
}

/// A notification (version 3 of the message).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MWatchNotify {
    /// The kind of event.
    pub event: WatchEvent,
    /// The cookie that the receiver chose for its watch or its notification.
    pub cookie: u64,
    /// The object's version.
    pub version: u64,
    /// The number that the OSD assigned to the notification.
    pub notify_id: u64,
    /// To a watcher: the notifier's payload.
    pub payload: Bytes,
    /// To a notifier: 0, or −ETIMEDOUT if watchers did not acknowledge.
    pub return_code: i32,
    /// To a watcher: the notifier's global id.
    pub notifier_gid: u64,
    /// To a notifier: the watchers' replies, and the watchers that did not reply.
    pub answers: Bytes,
}

impl Message for MWatchNotify {
    const NAME: &'static str = "watch-notify";
    const KIND: u16 = 44;
    const VERSION: u16 = 3;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.u8(1); // the version field from before message headers had versions
        w.u8(self.event as u8);
        w.u64(self.cookie);
        w.u64(self.version);
        w.u64(self.notify_id);
        w.put(&self.payload);
        w.i32(self.return_code);
        w.u64(self.notifier_gid);
    }

    fn data(&self) -> Data {
        [&self.answers].into_iter().filter(|bytes| !bytes.is_empty()).cloned().collect()
    }

    fn decode(_: &Header, r: &mut Reader<'_>, data: &Data) -> Result<Self, DecodeError> {
        r.skip(1)?;
        let event = match r.u8()? {
            1 => WatchEvent::Notify,
            2 => WatchEvent::NotifyComplete,
            3 => WatchEvent::Disconnect,
            other => return Err(DecodeError::Invalid { what: "watch event", value: u64::from(other) }),
        };
        Ok(Self {
            event,
            cookie: r.u64()?,
            version: r.u64()?,
            notify_id: r.u64()?,
            payload: r.get()?,
            return_code: r.i32()?,
            notifier_gid: r.u64()?,
            answers: concat(data),
        })
    }
}
