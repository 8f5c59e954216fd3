//! A newtype for each kind of id, so that an epoch cannot be mistaken for a pool.

use std::fmt;
use std::str::FromStr;

use az::SaturatingAs as _;

use crate::{Decode, DecodeError, Encode, Reader, Writer};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ident)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl Encode for $name {
            fn encode(&self, w: &mut Writer) {
                self.0.encode(w);
            }
        }

        impl Decode for $name {
            const MIN_LEN: usize = size_of::<$inner>();
            fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                $inner::decode(r).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id!(
    /// The version of a map (`epoch_t`); the first epoch is 1.
    Epoch(u32)
);
id!(
    /// The number of an OSD; −1 means "none".
    OsdId(i32)
);
id!(
    /// The number of a pool. Numbers are never reused; the first is 1.
    PoolId(i64)
);
id!(
    /// The number that a client assigns to an operation (`ceph_tid_t`). A resend keeps it.
    Tid(u64)
);
id!(
    /// The number of a snapshot (`snapid_t`).
    SnapId(u64)
);
id!(
    /// The number that the monitors assign to an authenticated client; unique in a cluster.
    GlobalId(u64)
);
id!(
    /// The number of times a client has restarted. Together with the tid it identifies an operation.
    Incarnation(i32)
);

impl SnapId {
    /// The current object, not a snapshot of it (`CEPH_NOSNAP`).
    pub const HEAD: Self = Self(u64::MAX - 1);
    /// The directory of an object's snapshots (`CEPH_SNAPDIR`).
    pub const DIR: Self = Self(u64::MAX);
}

/// A position in a placement group's history (`eversion_t`): the n-th change, made in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Eversion {
    /// The map epoch in which the change was made. Comparisons consider it before `version`.
    pub epoch: Epoch,
    /// The number of the change.
    pub version: u64,
}

impl Encode for Eversion {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.version);
        self.epoch.encode(w);
    }
}

impl Decode for Eversion {
    const MIN_LEN: usize = 12;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = r.u64()?;
        Ok(Self { epoch: r.get()?, version })
    }
}

/// Ceph prints it as `epoch'version`.
impl fmt::Display for Eversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'{}", self.epoch, self.version)
    }
}

/// A placement group (`pg_t`): a pool and a hash value, either the full 32-bit value or the value folded
/// to the pool's number of placement groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgId {
    /// The pool.
    pub pool: PoolId,
    /// The placement seed.
    pub seed: u32,
}

impl PgId {
    /// The length of the encoding, in bytes.
    pub const ENCODED_LEN: usize = 17;
}

impl Encode for PgId {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        self.pool.encode(w);
        w.u32(self.seed);
        w.i32(-1); // formerly the "preferred OSD"; Ceph still sends the field
    }
}

impl Decode for PgId {
    const MIN_LEN: usize = Self::ENCODED_LEN;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = r.u8()?;
        if version != 1 {
            return Err(DecodeError::Invalid { what: "pg_t version", value: u64::from(version) });
        }
        let pg = Self { pool: r.get()?, seed: r.u32()? };
        r.skip(4)?;
        Ok(pg)
    }
}

/// Parses `POOL.SEED`, with the seed in hexadecimal digits.
impl FromStr for PgId {
    type Err = DecodeError;
    fn from_str(text: &str) -> Result<Self, DecodeError> {
        let bad = DecodeError::Invalid { what: "pgid", value: text.len() as u64 };
        let (pool, seed) = text.split_once('.').ok_or(bad)?;
        let pool = PoolId(pool.parse().map_err(|_| bad)?);
        Ok(Self { pool, seed: u32::from_str_radix(seed, 16).map_err(|_| bad)? })
    }
}

impl fmt::Display for PgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.pool, self.seed)
    }
}

/// A placement group and, in an erasure-coded pool, one of its shards (`spg_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpgId {
    /// The placement group.
    pub pgid: PgId,
    /// The shard; [`SpgId::NO_SHARD`] in a replicated pool.
    pub shard: i8,
}

impl SpgId {
    /// The shard number of placement groups without shards.
    pub const NO_SHARD: i8 = -1;
    /// The length of the encoding, in bytes.
    pub const ENCODED_LEN: usize = 24;

    /// Creates the id of a placement group of a replicated pool.
    pub fn whole(pgid: PgId) -> Self {
        Self { pgid, shard: Self::NO_SHARD }
    }
}

impl Encode for SpgId {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.pgid);
            w.u8(self.shard.cast_unsigned());
        });
    }
}

impl Decode for SpgId {
    const MIN_LEN: usize = Self::ENCODED_LEN;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("spg_t", 1, 1, |r, _| Ok(Self { pgid: r.get()?, shard: r.u8()?.cast_signed() }))
    }
}

/// Ceph prints the shard as `s0`, and omits it if there is none.
impl fmt::Display for SpgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pgid.fmt(f)?;
        if self.shard == Self::NO_SHARD { Ok(()) } else { write!(f, "s{}", self.shard) }
    }
}

/// A 128-bit identifier (`uuid_d`): a cluster's fsid, an OSD's uuid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Encode for Uuid {
    fn encode(&self, w: &mut Writer) {
        w.raw(&self.0);
    }
}

impl Decode for Uuid {
    const MIN_LEN: usize = 16;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.array().map(Self)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl FromStr for Uuid {
    type Err = DecodeError;
    fn from_str(s: &str) -> Result<Self, DecodeError> {
        let bad = DecodeError::Invalid { what: "uuid", value: s.len() as u64 };
        let digits: Vec<u8> = s
            .bytes()
            .filter(|b| *b != b'-')
            .map(|b| char::from(b).to_digit(16).map(|d| d.saturating_as::<u8>()).ok_or(bad))
            .collect::<Result<_, _>>()?;
        let mut out = [0; 16];
        if digits.len() != 32 {
            return Err(bad);
        }
        for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Self(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_text_round_trip() {
        let text = "3936525d-8654-4c54-a675-c55ad626c3fc";
        assert_eq!(text.parse::<Uuid>().map(|u| u.to_string()), Ok(text.to_owned()));
        assert!("3936525d".parse::<Uuid>().is_err());
        assert!("x936525d-8654-4c54-a675-c55ad626c3fc".parse::<Uuid>().is_err());
    }
}
