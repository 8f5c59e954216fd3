//! Messages between the clients of an image, sent as notifications on its header
//! (`librbd/WatchNotifyTypes.h`).

use std::time::Duration;

use bytes::Bytes;
use loligo_rados::SnapId;
use loligo_wire::rbd::SnapKind;
use loligo_wire::{Decode, DecodeError, Encode, Name, Reader, Writer};

/// How long an owner may take to acknowledge a request for the lock.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long other clients have to acknowledge news of the image.
pub(crate) const NEWS_TIMEOUT: Duration = Duration::from_secs(5);

/// A client: its number in the cluster, and its watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientId {
    pub(crate) client: u64,
    pub(crate) watch: u64,
}

/// The id of a request to the lock's owner: the sender and its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestId {
    pub(crate) client: ClientId,
    pub(crate) number: u64,
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A client has acquired the exclusive lock.
    AcquiredLock(ClientId),
    /// A client has released the exclusive lock.
    ReleasedLock(ClientId),
    /// A client requests the exclusive lock.
    RequestLock(ClientId),
    /// The header has changed.
    HeaderUpdate,
    /// The owner's progress with a request.
    Progress { of: RequestId, done: u64, all: u64 },
    /// The result of a request: 0, or a negative errno.
    Complete { of: RequestId, result: i32 },
    /// A request to the lock's owner to change the image. The owner answers a request without an id when
    /// it is done. It answers a request with an id at once, and sends the result later.
    Request { of: Option<RequestId>, wanted: Wanted },
    /// About freezing of file systems (quiesce), or of a newer release.
    Other(u32),
}

/// The operation requested from the lock's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Flatten,
    /// Copies data that is still in the migration's source.
    Migrate,
    Resize {
        size: u64,
        may_shrink: bool,
    },
    CreateSnapshot {
        name: Name,
        kind: SnapKind,
        flags: u64,
    },
    RemoveSnapshot {
        name: Name,
        kind: SnapKind,
    },
    RenameSnapshot {
        id: SnapId,
        name: Name,
    },
    ProtectSnapshot {
        name: Name,
        kind: SnapKind,
    },
    UnprotectSnapshot {
        name: Name,
        kind: SnapKind,
    },
    RebuildObjectMap,
    Rename(Name),
    Features {
        features: u64,
        enabled: bool,
    },
    Sparsify {
        block_bytes: u64,
    },
    /// `None`: removes the key.
    Metadata {
        key: Name,
        value: Option<Bytes>,
    },
}

/// The version of `NotifyMessage` in release 16.
const VERSION: u8 = 7;
/// The first versions in which: a request for the lock has a force flag; a resize request has a flag
/// that allows shrinking; a request about a snapshot has the snapshot's kind (in the version before, a
/// request to create a snapshot already has it, at its end); all requests have ids.
const VERSION_FORCE: u8 = 3;
const VERSION_SHRINK: u8 = 4;
const VERSION_KIND: u8 = 6;
const VERSION_IDS: u8 = 7;

const ACQUIRED_LOCK: u32 = 0;
const RELEASED_LOCK: u32 = 1;
const REQUEST_LOCK: u32 = 2;
const HEADER_UPDATE: u32 = 3;
const ASYNC_PROGRESS: u32 = 4;
const ASYNC_COMPLETE: u32 = 5;
const FLATTEN: u32 = 6;
const RESIZE: u32 = 7;
const SNAP_CREATE: u32 = 8;
const SNAP_REMOVE: u32 = 9;
const REBUILD_OBJECT_MAP: u32 = 10;
const SNAP_RENAME: u32 = 11;
const SNAP_PROTECT: u32 = 12;
const SNAP_UNPROTECT: u32 = 13;
const RENAME: u32 = 14;
const UPDATE_FEATURES: u32 = 15;
const MIGRATE: u32 = 16;
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

impl RequestId {
    /// Stands for no id.
    const NONE: Self = Self { client: ClientId { client: 0, watch: 0 }, number: 0 };
}

impl Encode for RequestId {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.client);
        w.u64(self.number);
    }
}

impl Decode for RequestId {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { client: r.get()?, number: r.u64()? })
    }
}

impl Wanted {
    /// Requests that did not always have an id have it after the older fields, and before fields that
    /// were added later.
    fn encode(&self, of: RequestId, w: &mut Writer) {
        w.u32(self.code());
        match self {
            Self::Resize { size, .. } => w.u64(*size),
            Self::CreateSnapshot { name, kind, .. }
            | Self::RemoveSnapshot { name, kind }
            | Self::ProtectSnapshot { name, kind }
            | Self::UnprotectSnapshot { name, kind } => {
                w.put(name);
                w.put(kind);
            }
            Self::RenameSnapshot { id, name } => {
                w.u64(id.0);
                w.put(name);
                w.put(&SnapKind::User);
            }
            Self::Rename(name) => w.put(name),
            Self::Features { features, enabled } => {
                w.u64(*features);
                w.bool(*enabled);
            }
            Self::Metadata { key, value } => {
                w.put(key);
                w.put(value);
            }
            Self::Flatten | Self::Migrate | Self::RebuildObjectMap | Self::Sparsify { .. } => {}
        }
        w.put(&of);
        match self {
            Self::Resize { may_shrink, .. } => w.bool(*may_shrink),
            Self::CreateSnapshot { flags, .. } => w.u64(*flags),
            Self::Sparsify { block_bytes } => w.u64(*block_bytes),
            _ => {}
        }
    }

    fn decode(code: u32, version: u8, r: &mut Reader<'_>) -> Result<(Option<RequestId>, Self), DecodeError> {
        let named = |r: &mut Reader<'_>| -> Result<(Name, SnapKind), DecodeError> {
            let name = r.get()?;
            Ok((name, if version >= VERSION_KIND { r.get()? } else { SnapKind::User }))
        };
        let wanted = match code {
            FLATTEN => return Ok((Some(r.get()?), Self::Flatten)),
            MIGRATE => return Ok((Some(r.get()?), Self::Migrate)),
            REBUILD_OBJECT_MAP => return Ok((Some(r.get()?), Self::RebuildObjectMap)),
            SPARSIFY => {
                let (of, block_bytes) = (r.get()?, r.u64()?);
                return Ok((Some(of), Self::Sparsify { block_bytes }));
            }
            RESIZE => {
                let (size, of) = (r.u64()?, r.get()?);
                let may_shrink = if version >= VERSION_SHRINK { r.bool()? } else { true };
                return Ok((Some(of), Self::Resize { size, may_shrink }));
            }
            SNAP_CREATE => {
                let (name, mut kind) = named(r)?;
                if version == VERSION_KIND - 1 {
                    kind = r.get()?;
                }
                let of = if version >= VERSION_IDS { Some(r.get()?) } else { None };
                let flags = if version >= VERSION_IDS { r.u64()? } else { 0 };
                return Ok((of, Self::CreateSnapshot { name, kind, flags }));
            }
            SNAP_REMOVE => named(r).map(|(name, kind)| Self::RemoveSnapshot { name, kind })?,
            SNAP_PROTECT => named(r).map(|(name, kind)| Self::ProtectSnapshot { name, kind })?,
            SNAP_UNPROTECT => named(r).map(|(name, kind)| Self::UnprotectSnapshot { name, kind })?,
            SNAP_RENAME => Self::RenameSnapshot { id: SnapId(r.u64()?), name: named(r)?.0 },
            RENAME => Self::Rename(r.get()?),
            UPDATE_FEATURES => Self::Features { features: r.u64()?, enabled: r.bool()? },
            // METADATA_UPDATE; no other code is a request.
            _ => Self::Metadata { key: r.get()?, value: r.get()? },
        };
        // Some programs of the same version do not send an id yet.
        let of = if r.is_empty() { None } else { Some(r.get()?) };
        Ok((of, wanted))
    }

    fn code(&self) -> u32 {
        match self {
            Self::Flatten => FLATTEN,
            Self::Migrate => MIGRATE,
            Self::Resize { .. } => RESIZE,
            Self::CreateSnapshot { .. } => SNAP_CREATE,
            Self::RemoveSnapshot { .. } => SNAP_REMOVE,
            Self::RenameSnapshot { .. } => SNAP_RENAME,
            Self::ProtectSnapshot { .. } => SNAP_PROTECT,
            Self::UnprotectSnapshot { .. } => SNAP_UNPROTECT,
            Self::RebuildObjectMap => REBUILD_OBJECT_MAP,
            Self::Rename(_) => RENAME,
            Self::Features { .. } => UPDATE_FEATURES,
            Self::Sparsify { .. } => SPARSIFY,
            Self::Metadata { .. } => METADATA_UPDATE,
        }
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
            Self::Progress { of, done, all } => {
                w.u32(ASYNC_PROGRESS);
                w.put(of);
                w.u64(*done);
                w.u64(*all);
            }
            Self::Complete { of, result } => {
                w.u32(ASYNC_COMPLETE);
                w.put(of);
                w.i32(*result);
            }
            Self::Request { of, wanted } => wanted.encode(of.unwrap_or(RequestId::NONE), w),
            Self::Other(code) => w.u32(*code),
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
                ASYNC_PROGRESS => Self::Progress { of: r.get()?, done: r.u64()?, all: r.u64()? },
                ASYNC_COMPLETE => Self::Complete { of: r.get()?, result: r.i32()? },
                code if (FLATTEN..=SPARSIFY).contains(&code) || code == METADATA_UPDATE => {
                    let (of, wanted) = Wanted::decode(code, version, r)?;
                    Self::Request { of: of.filter(|of| *of != RequestId::NONE), wanted }
                }
                code => Self::Other(code),
            })
        })
    }
}

/// Encodes an answer to a notification (`ResponseMessage`): 0, or a negative errno.
pub(crate) fn response(result: i32) -> Bytes {
    let mut w = Writer::new();
    w.versioned(1, 1, |w| w.i32(result));
    w.into_bytes()
}

/// Decodes the result in an answer; `None` if it has none, because it is of a client that is not
/// concerned.
pub(crate) fn result_of(answer: &[u8]) -> Option<i32> {
    Reader::new(answer).versioned("ResponseMessage", 1, 1, |r, _| r.i32()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back() {
        let client = ClientId { client: 4123, watch: 0x5555_0000 };
        let of = RequestId { client, number: 7 };
        let (name, kind) = (Name::from("snap"), SnapKind::User);
        let wanted = [
            Wanted::Flatten,
            Wanted::Migrate,
            Wanted::Resize { size: 5 << 30, may_shrink: true },
            Wanted::CreateSnapshot { name: name.clone(), kind: kind.clone(), flags: 1 },
            Wanted::RemoveSnapshot { name: name.clone(), kind: kind.clone() },
            Wanted::RenameSnapshot { id: SnapId(4), name: name.clone() },
            Wanted::ProtectSnapshot { name: name.clone(), kind: kind.clone() },
            Wanted::UnprotectSnapshot { name: name.clone(), kind },
            Wanted::RebuildObjectMap,
            Wanted::Rename(name),
            Wanted::Features { features: 8, enabled: true },
            Wanted::Sparsify { block_bytes: 4096 },
            Wanted::Metadata { key: "key".into(), value: Some(Bytes::from_static(b"value")) },
            Wanted::Metadata { key: "key".into(), value: None },
        ];
        let requests =
            wanted.into_iter().map(|wanted| Message::Request { of: Some(of), wanted }).collect::<Vec<_>>();
        let others = [
            Message::AcquiredLock(client),
            Message::ReleasedLock(client),
            Message::RequestLock(client),
            Message::HeaderUpdate,
            Message::Progress { of, done: 3, all: 4 },
            Message::Complete { of, result: -17 },
            Message::Other(18),
        ];
        for message in requests.into_iter().chain(others) {
            let bytes = message.to_bytes();
            assert_eq!(Message::from_bytes(&bytes), Ok(message));
            for len in 0..bytes.len() {
                assert!(Message::from_bytes(&bytes[..len]).is_err());
            }
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
