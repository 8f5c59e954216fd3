//! Types, names and global ids of peers.

use std::fmt;
use std::str::FromStr;

use az::SaturatingAs as _;

use crate::{Decode, DecodeError, Encode, Reader, Writer};

/// The type of a peer's program (`CEPH_ENTITY_TYPE_*` in `src/include/msgr.h`). Each type is one bit, so
/// that types can be combined into sets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityType(pub u32);

impl EntityType {
    /// A monitor.
    pub const MON: Self = Self(0x01);
    /// A metadata server.
    pub const MDS: Self = Self(0x02);
    /// An object storage daemon.
    pub const OSD: Self = Self(0x04);
    /// A client.
    pub const CLIENT: Self = Self(0x08);
    /// A manager.
    pub const MGR: Self = Self(0x10);
    /// The authentication service itself. It owns the tickets that clients exchange for other tickets.
    pub const AUTH: Self = Self(0x20);

    /// The word before the dot in an entity's name; `???` for an unknown type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MON => "mon",
            Self::MDS => "mds",
            Self::OSD => "osd",
            Self::CLIENT => "client",
            Self::MGR => "mgr",
            Self::AUTH => "auth",
            _ => "???",
        }
    }

    /// The type with the name `word`.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::MON, Self::MDS, Self::OSD, Self::CLIENT, Self::MGR, Self::AUTH]
            .into_iter()
            .find(|t| t.as_str() == word)
    }
}

impl fmt::Debug for EntityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:#x})", self.as_str(), self.0)
    }
}

impl fmt::Display for EntityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name that an entity authenticates with (`EntityName`), such as `client.admin`. Its encoding is
/// the type in 32 bits and the id as a string. Message headers carry a different, numbered name
/// (`entity_name_t`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityName {
    /// The type of program.
    pub kind: EntityType,
    /// The part after the dot.
    pub id: String,
}

impl EntityName {
    /// A client's name.
    pub fn client(id: &str) -> Self {
        Self { kind: EntityType::CLIENT, id: id.to_owned() }
    }
}

impl fmt::Display for EntityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.id)
    }
}

/// The number that identifies an entity to messengers (`entity_name_t`), such as `client.4128`: an OSD's
/// id, a monitor's rank, a client's global id. −1 means "not known yet".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityNum {
    /// The type of program; 0 in the blank value.
    pub kind: EntityType,
    /// The entity's number.
    pub num: i64,
}

impl EntityNum {
    /// The client with the global id that the monitors assigned.
    pub fn client(id: crate::GlobalId) -> Self {
        Self { kind: EntityType::CLIENT, num: id.0.cast_signed() }
    }
}

/// The blank value: type 0, number 0.
impl Default for EntityNum {
    fn default() -> Self {
        Self { kind: EntityType(0), num: 0 }
    }
}

impl Encode for EntityNum {
    fn encode(&self, w: &mut Writer) {
        w.u8(self.kind.0.saturating_as::<u8>());
        w.i64(self.num);
    }
}

impl Decode for EntityNum {
    const MIN_LEN: usize = 9;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { kind: EntityType(u32::from(r.u8()?)), num: r.i64()? })
    }
}

impl fmt::Display for EntityNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.num)
    }
}

/// The error for a text that is not `TYPE.ID` with a known type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseEntityNameError(String);

impl fmt::Display for ParseEntityNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not an entity name: expected TYPE.ID with TYPE one of client, mon, osd, mgr, mds",
            self.0
        )
    }
}

impl std::error::Error for ParseEntityNameError {}

impl FromStr for EntityName {
    type Err = ParseEntityNameError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let parsed = s
            .split_once('.')
            .and_then(|(word, id)| EntityType::from_word(word).map(|kind| Self { kind, id: id.to_owned() }));
        parsed.ok_or_else(|| ParseEntityNameError(s.to_owned()))
    }
}

impl Encode for EntityName {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.kind.0);
        w.put(&self.id);
    }
}

impl Decode for EntityName {
    const MIN_LEN: usize = 8;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { kind: EntityType(r.u32()?), id: r.get()? })
    }
}
