//! Goal: a file has the whole state and brings it back; a damaged one is refused, never more. Method: a
//! random state is written and read again, as it is, cut at every length, with a byte changed anywhere, and
//! with records changed whose checksums fit.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use loligo_mon::state::{NewCluster, State};
use loligo_store::memory::{Frozen, MemoryStore};
use loligo_store::{
    Change, Commit, CommitListener, Info, KeyValues, ObjectChanges, ObjectName, ObjectRef, ObjectStore,
    OmapRange, StoreError, Transaction,
};
use loligo_wire::{Epoch, Eversion, PgId, PoolId, SnapId, UTime, Uuid};
use smallvec::{SmallVec, smallvec};

use super::codec::{Kind, read_record, write_record};
use super::file::{SnapshotFile, write_all};
use super::{Snapshot, SnapshotError};
use crate::{CryptoKey, KeyType};

struct Deaf;

impl CommitListener for Deaf {
    fn committed(&self, _: Eversion) {}

    fn stopped(&self, _: &StoreError) {}
}

fn state() -> State {
    let now = UTime { sec: 5, nsec: 0 };
    let admin_key = CryptoKey::generate_of(KeyType::Aes, now);
    let new = NewCluster { fsid: Uuid([3; 16]), now, host: "h".to_owned(), admin_key };
    let mut state = State::new(new).expect("a host's name");
    state.create_pool(now, "p", 4).expect("a pool");
    state.set_config_key("key", vec![0, 255]);
    state
}

fn bytes(random: &mut fastrand::Rng, len_max: usize) -> Bytes {
    let len = random.usize(..len_max);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

/// Changes of each kind, some of which make holes.
fn changes<'a>(random: &mut fastrand::Rng) -> SmallVec<[Change<'a>; 2]> {
    let name = bytes(random, 9);
    let mut changes: SmallVec<[Change<'_>; 2]> = smallvec![Change::Create];
    for _ in 0..random.usize(1..6) {
        let offset = random.u64(..200_000);
        changes.push(match random.u8(..7) {
            0 => Change::Write { offset, data: bytes(random, 70_000) },
            1 => Change::WriteFull { data: bytes(random, 20_000) },
            2 => Change::Zero { offset, len: random.u64(..50_000) },
            3 => Change::Truncate { size: offset },
            4 => Change::SetXattr { name: name.clone(), value: bytes(random, 30) },
            5 => Change::SetOmap { pairs: vec![(bytes(random, 9), bytes(random, 30))] },
            _ => Change::SetOmapHeader { header: bytes(random, 30) },
        });
    }
    if random.bool() {
        changes.push(Change::NoteCrc { crc: random.u32(..) });
    }
    changes
}

fn store(random: &mut fastrand::Rng, objects: u64) -> MemoryStore {
    let store = MemoryStore::new(1 << 30);
    for number in 1..=objects {
        let seed = random.u32(..4);
        let pg = store.open(PgId { pool: PoolId(1), seed }, Arc::new(Deaf)).expect("memory opens");
        let snap = if random.bool() { SnapId::HEAD } else { SnapId(number) };
        let name = format!("o{number}");
        let oid = ObjectRef { hash: random.u32(..), nspace: b"n", key: b"", name: name.as_bytes(), snap };
        let version = Eversion { epoch: Epoch(7), version: number };
        let info = Info { version, user_version: number, has_omap: random.bool(), ..Info::default() };
        let objects = smallvec![ObjectChanges { oid, info, changes: changes(random) }];
        let done = pg.submit(Transaction { version, objects, record: None });
        assert_eq!(done, Ok(Commit::Done));
    }
    store
}

fn encoded(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Vec::new();
    write_all(&mut out, snapshot).expect("memory takes it");
    out
}

fn read(file: &[u8]) -> Result<Snapshot, SnapshotError> {
    let (file, state) = SnapshotFile::begin(Path::new("file"), file)?;
    let store = MemoryStore::new(1 << 30);
    file.load(&store, &AtomicU64::new(0))?;
    Ok(Snapshot { state, objects: store.freeze() })
}

/// All that an object has.
type Known = (PgId, ObjectName, Info, u64, Option<u32>, Vec<(u64, u64)>, Vec<u8>, [KeyValues; 2], Bytes);

fn known(objects: &Frozen) -> Vec<Known> {
    let mut all = Vec::new();
    for (pg, (name, info, object)) in
        objects.collections().flat_map(|(pg, one)| one.objects().map(move |object| (pg, object)))
    {
        let range = OmapRange { after: None, prefix: b"", keys_max: usize::MAX, bytes_max: usize::MAX };
        let data = object.read(0, u64::MAX).now().expect("in memory");
        let data = data.iter().flat_map(|piece: &Bytes| piece.to_vec()).collect();
        let pairs = [object.xattrs().now(), object.omap_page(range).now().map(|page| page.pairs)];
        all.push((
            pg,
            ObjectName::new(name).expect("a short name"),
            info,
            object.size(),
            object.crc(),
            object.extents(0, u64::MAX).now().expect("in memory"),
            data,
            pairs.map(|pairs| pairs.expect("in memory")),
            object.omap_header().now().expect("in memory"),
        ));
    }
    all
}

#[test]
fn what_was_written_is_read_again() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let written = Snapshot { state: state(), objects: store(&mut random, 40).freeze() };
        let read = read(&encoded(&written)).expect("it is whole");
        assert_eq!(known(&read.objects), known(&written.objects), "seed {seed}");
        assert_eq!(*read.state.to_json(), *written.state.to_json());
        for ((_, before), (_, after)) in written.objects.collections().zip(read.objects.collections()) {
            assert!(after.version() >= before.version(), "versions do not go back");
        }
    }
}

#[test]
fn watches_are_left_out() {
    let store = MemoryStore::new(1 << 30);
    let pg = store.open(PgId { pool: PoolId(1), seed: 0 }, Arc::new(Deaf)).expect("memory opens");
    let set = |name: &'static [u8]| Change::SetXattr { name: name.into(), value: Bytes::from_static(b"v") };
    let info = Info { watched: true, ..Info::default() };
    let changes = smallvec![set(b"\0watch12345678"), set(b"\0snaps"), set(b"_user")];
    let objects = smallvec![ObjectChanges { oid: ObjectRef::head(0, b"o"), info, changes }];
    let version = Eversion { epoch: Epoch(1), version: 1 };
    pg.submit(Transaction { version, objects, record: None }).expect("room");
    let read = read(&encoded(&Snapshot { state: state(), objects: store.freeze() })).expect("it is whole");
    let [(_, _, info, .., [xattrs, _], _)] = &known(&read.objects)[..] else { panic!("one object") };
    let names: Vec<&[u8]> = xattrs.iter().map(|(name, _)| &name[..]).collect();
    assert_eq!((info.watched, names), (false, vec![&b"\0snaps"[..], b"_user"]));
}

#[test]
fn a_damaged_file_is_refused() {
    let mut random = fastrand::Rng::with_seed(1);
    let whole = encoded(&Snapshot { state: state(), objects: store(&mut random, 6).freeze() });
    let cuts = (0..whole.len().min(600)).chain((600..whole.len()).step_by(997)).chain([whole.len() - 1]);
    for len in cuts {
        let Err(refused) = read(&whole[..len]) else { panic!("{len} of {} bytes", whole.len()) };
        assert!(refused.to_string().starts_with("file, byte "), "{refused}");
    }
    for at in (0..whole.len().min(600)).chain((600..whole.len()).step_by(997)) {
        let mut changed = whole.clone();
        changed[at] ^= 1 << random.u8(..8);
        assert!(read(&changed).is_err(), "byte {at}");
    }
    assert!(read(&[&whole[..], b"x"].concat()).is_err(), "more behind the end");
    let mut newer = whole.clone();
    newer[8] = 2;
    assert!(matches!(read(&newer), Err(SnapshotError::Version { version: 2, .. })));
    // A record that claims 4 GiB and has nothing.
    let claims = [&whole[..12], &[Kind::State as u8, 255, 255, 255, 255]].concat();
    assert!(matches!(read(&claims), Err(SnapshotError::Content { .. })));
}

/// A program that makes checksums fit can write anything.
#[test]
fn records_that_mean_nothing_do_no_harm() {
    let mut random = fastrand::Rng::with_seed(2);
    let whole = encoded(&Snapshot { state: state(), objects: store(&mut random, 6).freeze() });
    let mut rest = &whole[12..];
    let mut records = Vec::new();
    while !rest.is_empty() {
        records.push(read_record(&mut rest).expect("a record"));
    }
    let mut refused = 0;
    for _ in 0..2_000 {
        let mut records = records.clone();
        let at = random.usize(..records.len());
        match random.u8(..4) {
            0 => drop(records.remove(at)),
            1 => {
                let another = records[random.usize(..records.len())].clone();
                records.insert(at, another);
            }
            2 => {
                let len = random.usize(..=records[at].1.len());
                records[at].1.truncate(len);
            }
            _ => {
                let body = &mut records[at].1;
                for _ in 0..random.usize(1..4) {
                    let within = random.usize(..body.len().clamp(1, 64));
                    if let Some(byte) = body.get_mut(within) {
                        *byte = random.u8(..);
                    }
                }
            }
        }
        let mut file = whole[..12].to_vec();
        records.iter().for_each(|(kind, body)| write_record(&mut file, *kind, &[body]).expect("memory"));
        refused += usize::from(read(&file).is_err());
    }
    assert!(refused > 500, "{refused}");
}
