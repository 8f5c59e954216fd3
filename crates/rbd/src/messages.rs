//! What clients of an image tell each other by notifications on its header (`librbd/WatchNotifyTypes.h`).

use bytes::Bytes;
use loligo_wire::{Decode, DecodeError, Encode, Reader, Writer};

/// A client: its number in the cluster, and its watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientId {
    pub(crate) client: u64,
    pub(crate) watch: u64,
}

/// A notification, as far as something is done about it here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Somebody has the exclusive lock now.
    AcquiredLock(ClientId),
    /// Somebody has it no more.
    ReleasedLock(ClientId),
    /// Somebody wants it.
    RequestLock(ClientId),
    /// The header has changed.
    HeaderUpdate,
    /// The lock's owner is asked to change the image. Who hears that he will not asks for the lock and does it himself.
    Request(u32),
    /// Progress of others' work, and of those who freeze file systems.
    Other(u32),
}

/// `NotifyMessage`'s version of release 16.
const VERSION: u8 = 7;
/// From this version on a request for the lock says whether it is to be forced.
const VERSION_FORCE: u8 = 3;

const ACQUIRED_LOCK: u32 = 0;
const RELEASED_LOCK: u32 = 1;
const REQUEST_LOCK: u32 = 2;
const HEADER_UPDATE: u32 = 3;
const FLATTEN: u32 = 6;
const SPARSIFY: u32 = 17;
const METADATA_UPDATE: u32 = 20;

impl Encode for ClientId {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.client);
        w.u64(self.watch);
    }
}

impl Decode for ClientId {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { client: r.u64()?, watch: r.u64()? })
    }
}

impl Encode for Message {
    fn encode(&self, w: &mut Writer) {
        w.versioned(VERSION, 1, |w| match self {
            Self::AcquiredLock(client) => {
                w.u32(ACQUIRED_LOCK);
                w.put(client);
            }
            Self::ReleasedLock(client) => {
                w.u32(RELEASED_LOCK);
                w.put(client);
            }
            Self::RequestLock(client) => {
                w.u32(REQUEST_LOCK);
                w.put(client);
                w.bool(false);
            }
            Self::HeaderUpdate => w.u32(HEADER_UPDATE),
            Self::Request(code) | Self::Other(code) => w.u32(*code),
        });
    }
}

impl Decode for Message {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("NotifyMessage", 1, VERSION, |r, version| {
            Ok(match r.u32()? {
                ACQUIRED_LOCK => Self::AcquiredLock(r.get()?),
                RELEASED_LOCK => Self::ReleasedLock(r.get()?),
                REQUEST_LOCK => {
                    let client = r.get()?;
                    if version >= VERSION_FORCE {
                        r.bool()?;
                    }
                    Self::RequestLock(client)
                }
                HEADER_UPDATE => Self::HeaderUpdate,
                code if (FLATTEN..=SPARSIFY).contains(&code) || code == METADATA_UPDATE => {
                    Self::Request(code)
                }
                code => Self::Other(code),
            })
        })
    }
}

/// An answer to a notification (`ResponseMessage`): 0, or a negative errno.
pub(crate) fn response(result: i32) -> Bytes {
    let mut w = Writer::new();
    w.versioned(1, 1, |w| w.i32(result));
    w.into_bytes()
}

/// The result in an answer; `None` if there is none: that client is not concerned.
pub(crate) fn result_of(answer: &[u8]) -> Option<i32> {
    Reader::new(answer).versioned("ResponseMessage", 1, 1, |r, _| r.i32()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back() {
        let client = ClientId { client: 4123, watch: 0x5555_0000 };
        for message in [
            Message::AcquiredLock(client),
            Message::ReleasedLock(client),
            Message::RequestLock(client),
            Message::HeaderUpdate,
            Message::Request(7),
            Message::Other(18),
        ] {
            assert_eq!(Message::from_bytes(&message.to_bytes()), Ok(message));
        }
        assert_eq!(result_of(&response(-95)), Some(-95));
        assert_eq!(result_of(b""), None);
    }

    /// Bytes as release 16 sends them (version 7, compatible with 1, 21 bytes).
    #[test]
    fn a_request_for_the_lock_is_librbd_s() {
        let message = Message::RequestLock(ClientId { client: 1, watch: 2 });
        let bytes = [7, 1, 21, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(message.to_bytes(), &bytes[..]);
    }
}
