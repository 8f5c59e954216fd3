//! The encoding of the scrub state kept across a restart.

use std::collections::BTreeMap;

use az::SaturatingAs as _;
use loligo_store::{ObjectName, ObjectRef};
use loligo_wire::{DecodeError, PgId, PoolId, Reader, SnapId, Writer, crc};

use super::{Damage, Fault, Scrubbed};

const VERSION: u8 = 1;

type Groups = BTreeMap<PgId, Scrubbed>;
type Found = BTreeMap<PoolId, BTreeMap<ObjectName, Damage>>;

/// Encodes version, placement groups, damaged objects and checksum.
pub(crate) fn encode(groups: &Groups, found: &Found) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(VERSION);
    w.count(groups.len());
    for (pg, last) in groups {
        w.put(pg);
        for (at, version) in [(&last.at, &last.version), (&last.deep_at, &last.deep_version)] {
            w.put(at);
            w.put(version);
        }
        w.put(&last.clean_at);
    }
    w.count(found.values().map(BTreeMap::len).sum());
    for (pool, name, damage) in found.iter().flat_map(|(pool, of)| of.iter().map(move |(n, d)| (pool, n, d)))
    {
        let oid = name.as_ref();
        w.i64(pool.0);
        w.u32(oid.hash);
        [oid.nspace, oid.key, oid.name].into_iter().for_each(|part| w.blob(part));
        w.u64(oid.snap.0);
        w.u8(code(damage.fault));
        w.blob(damage.what.as_bytes());
    }
    let mut bytes = w.into_bytes().to_vec();
    bytes.extend(crc::crc32c(u32::MAX, &bytes).to_le_bytes());
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Result<(Groups, Found), DecodeError> {
    let invalid = |what, value| DecodeError::Invalid { what, value };
    let Some((bytes, sum)) = bytes.split_last_chunk::<4>() else { return Err(invalid("length", 0)) };
    let (sum, expected) = (crc::crc32c(u32::MAX, bytes), u32::from_le_bytes(*sum));
    if sum != expected {
        return Err(invalid("checksum", sum.into()));
    }
    let mut r = Reader::new(bytes);
    let version = r.u8()?;
    if version != VERSION {
        return Err(invalid("version", version.into()));
    }
    let (mut groups, mut found) = (Groups::new(), Found::new());
    for _ in 0..r.u32()? {
        let pg = r.get()?;
        let (at, version, deep_at, deep_version) = (r.get()?, r.get()?, r.get()?, r.get()?);
        groups.insert(pg, Scrubbed { at, version, deep_at, deep_version, clean_at: r.get()? });
    }
    for _ in 0..r.u32()? {
        let (pool, hash) = (PoolId(r.i64()?), r.u32()?);
        let (nspace, key, name) = (r.blob()?, r.blob()?, r.blob()?);
        let oid = ObjectRef { hash, nspace, key, name, snap: SnapId(r.u64()?) };
        let name = ObjectName::new(oid).map_err(|e| invalid("name", e.len as u64))?;
        let fault = r.u8()?;
        let fault = FAULTS.get(usize::from(fault)).copied().ok_or(invalid("fault", fault.into()))?;
        let what = String::from_utf8_lossy(r.blob()?).into_owned();
        found.entry(pool).or_default().insert(name, Damage { fault, what });
    }
    Ok((groups, found))
}

/// Indexed by their number on disk.
const FAULTS: [Fault; 4] = [Fault::Record, Fault::Data, Fault::Digest, Fault::Omap];

fn code(fault: Fault) -> u8 {
    FAULTS.iter().position(|known| *known == fault).unwrap_or_default().saturating_as::<u8>()
}

#[cfg(test)]
mod tests {
    use loligo_wire::{Epoch, Eversion, UTime};

    use super::*;

    #[test]
    fn what_was_kept_is_there_again_and_nothing_of_it_if_it_is_damaged() {
        let pg = PgId { pool: PoolId(3), seed: 7 };
        let (at, version) = (UTime { sec: 5, nsec: 6 }, Eversion { epoch: Epoch(7), version: 8 });
        let last = Scrubbed { at, version, deep_version: version, ..Scrubbed::default() };
        let groups = Groups::from([(pg, last)]);
        let oid = ObjectRef { hash: 7, nspace: b"n", key: b"\xff", name: b"", snap: SnapId(4) };
        let damage = Damage { fault: Fault::Omap, what: "why".to_owned() };
        let objects = BTreeMap::from([(ObjectName::new(oid).expect("short"), damage)]);
        let found = Found::from([(PoolId(3), objects)]);
        let bytes = encode(&groups, &found);
        assert_eq!(decode(&bytes), Ok((groups, found)));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            decode(&damaged).expect_err("damaged");
            decode(&bytes[..at]).expect_err("cut off");
        }
    }
}
