//! Random transactions against a naive model: objects as byte vectors and maps. After each transaction the
//! objects it touched, and at the end everything (listing, sums, old views), must be equal.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use loligo_wire::{Epoch, Eversion, PgId, PoolId, SnapId, UTime};
use proptest::prelude::*;
use smallvec::smallvec;

use super::MemoryStore;
use crate::store::OmapRange;
use crate::transaction::is_own;
use crate::{
    Change, Collection, Commit, CommitListener, Fetch, Info, OBJECT_BYTES_MAX, ObjectChanges, ObjectName,
    ObjectRef, ObjectStore, ObjectView, StoreError, Transaction,
};

struct Deaf;

impl CommitListener for Deaf {
    fn committed(&self, _: Eversion) {}
    fn stopped(&self, _: &StoreError) {}
}

fn open(store: &MemoryStore, seed: u32) -> Arc<dyn Collection> {
    store.open(PgId { pool: PoolId(1), seed }, Arc::new(Deaf)).expect("memory has no reason to refuse")
}

fn view(pg: &dyn Collection, oid: ObjectRef<'_>) -> Option<Arc<dyn ObjectView>> {
    pg.object(oid).now().expect("memory answers at once")
}

fn change<'a>(oid: ObjectRef<'a>, change: Change<'a>) -> Transaction<'a> {
    let info = Info::default();
    Transaction {
        objects: smallvec![ObjectChanges { oid, info, changes: smallvec![change] }],
        ..Transaction::default()
    }
}

fn write(pg: &dyn Collection, name: &[u8], len: usize) -> Result<Commit, StoreError> {
    let data = Bytes::from(vec![1; len]);
    pg.submit(change(ObjectRef::head(0, name), Change::WriteFull { data }))
}

/// An object as it should be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) data: Vec<u8>,
    pub(crate) info: Info,
    pub(crate) xattrs: BTreeMap<Bytes, Bytes>,
    pub(crate) omap: BTreeMap<Bytes, Bytes>,
    pub(crate) header: Bytes,
    pub(crate) crc: Option<u32>,
}

/// All objects of a collection.
pub(crate) type Models = BTreeMap<ObjectName, Model>;

/// Does what a transaction says of one object.
pub(crate) fn apply(models: &mut Models, changes: &ObjectChanges<'_>) {
    let name = ObjectName::new(changes.oid).expect("short");
    for change in &changes.changes {
        if let Change::Remove = change {
            models.remove(&name);
            continue;
        }
        let source = match change {
            Change::CloneFrom { source } => match models.get(&ObjectName::new(*source).expect("short")) {
                Some(model) => Some(model.clone()),
                None => continue,
            },
            _ => None,
        };
        let model = models.entry(name.clone()).or_default();
        model.info = changes.info;
        apply_one(model, change, source);
    }
}

fn apply_one(model: &mut Model, change: &Change<'_>, source: Option<Model>) {
    use Change::{Truncate, Write, WriteFull, Zero};
    if matches!(change, Write { .. } | WriteFull { .. } | Zero { .. } | Truncate { .. }) {
        model.crc = None;
    }
    match change.clone() {
        Change::Create | Change::Remove => {}
        Change::NoteCrc { crc } => model.crc = Some(crc),
        Change::CloneFrom { .. } => {
            let mut source = source.expect("looked up");
            source.xattrs.retain(|name, _| !is_own(name));
            source.xattrs.extend(model.xattrs.clone().into_iter().filter(|(name, _)| is_own(name)));
            *model = Model { info: model.info, ..source };
        }
        Change::Write { offset, data } => {
            let (from, to) = (offset as usize, offset as usize + data.len());
            model.data.resize(model.data.len().max(to), 0);
            model.data[from..to].copy_from_slice(&data);
        }
        Change::WriteFull { data } => model.data = data.to_vec(),
        Change::Zero { offset, len } => {
            let size = model.data.len() as u64;
            let end = offset.saturating_add(len).min(size);
            model.data[offset.min(end) as usize..end as usize].fill(0);
        }
        Change::Truncate { size } => model.data.resize(size as usize, 0),
        Change::SetXattr { name, value } => drop(model.xattrs.insert(name, value)),
        Change::RemoveXattr { name } => drop(model.xattrs.remove(&name)),
        Change::ClearXattrs => model.xattrs.retain(|name, _| is_own(name)),
        Change::SetOmap { pairs } => model.omap.extend(pairs),
        Change::RemoveOmap { keys } => model.omap.retain(|k, _| !keys.contains(k)),
        Change::RemoveOmapRange { from, until } => model.omap.retain(|k, _| *k < from || *k >= until),
        Change::ClearOmap => {
            model.omap.clear();
            model.header = Bytes::new();
        }
        Change::SetOmapHeader { header } => model.header = header,
    }
}

fn check(view: Option<&Arc<dyn ObjectView>>, model: Option<&Model>) {
    let (Some(view), Some(model)) = (view, model) else {
        assert_eq!((view.is_some(), model.is_some()), (false, false));
        return;
    };
    assert_eq!((view.size(), view.info()), (model.data.len() as u64, model.info));
    assert_eq!(view.crc(), model.crc);
    let data = view.read(0, u64::MAX).now().expect("at once").concat();
    assert!(data == model.data);
    let pairs = |m: &BTreeMap<Bytes, Bytes>| m.clone().into_iter().collect::<Vec<_>>();
    assert_eq!(view.xattrs().now(), Some(pairs(&model.xattrs)));
    let all = OmapRange { after: None, prefix: b"", keys_max: usize::MAX, bytes_max: usize::MAX };
    assert_eq!(view.omap_page(all).now().map(|p| p.pairs), Some(pairs(&model.omap)));
    assert_eq!(view.omap_header().now().as_ref(), Some(&model.header));
}

/// Few names, some with equal hashes, some with a key or a snapshot.
fn oids() -> impl Strategy<Value = ObjectRef<'static>> {
    let names = [&b"a"[..], b"b", b"c"];
    let hash = prop::sample::select(vec![0u32, 1, 0x8000_0000]);
    let snap = prop::sample::select(vec![SnapId::HEAD, SnapId::HEAD, SnapId(1)]);
    let key = prop::sample::select(vec![&b""[..], b"", b"k"]);
    (hash, prop::sample::select(names.to_vec()), key, snap).prop_map(|(hash, name, key, snap)| ObjectRef {
        hash,
        nspace: b"",
        key,
        name,
        snap,
    })
}

fn short() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(prop::sample::select(b"\0abc".to_vec()), 0..3).prop_map(Bytes::from)
}

fn changes() -> impl Strategy<Value = Change<'static>> {
    let data = || (any::<u8>(), 0..40_000usize).prop_map(|(b, len)| Bytes::from(vec![b; len]));
    let offset = || 0..150_000u64;
    prop_oneof![
        1 => Just(Change::Create),
        2 => Just(Change::Remove),
        4 => (offset(), data()).prop_map(|(offset, data)| Change::Write { offset, data }),
        2 => data().prop_map(|data| Change::WriteFull { data }),
        2 => any::<u32>().prop_map(|crc| Change::NoteCrc { crc }),
        1 => (offset(), prop_oneof![0..50_000u64, Just(u64::MAX)]).prop_map(|(offset, len)| Change::Zero { offset, len }),
        1 => offset().prop_map(|size| Change::Truncate { size }),
        2 => oids().prop_map(|source| Change::CloneFrom { source }),
        1 => (short(), short()).prop_map(|(name, value)| Change::SetXattr { name, value }),
        1 => short().prop_map(|name| Change::RemoveXattr { name }),
        1 => Just(Change::ClearXattrs),
        2 => prop::collection::vec((short(), short()), 0..9).prop_map(|pairs| Change::SetOmap { pairs }),
        1 => prop::collection::vec(short(), 0..9).prop_map(|keys| Change::RemoveOmap { keys }),
        1 => (short(), short()).prop_map(|(from, until)| Change::RemoveOmapRange { from, until }),
        1 => Just(Change::ClearOmap),
        1 => short().prop_map(|header| Change::SetOmapHeader { header }),
    ]
}

fn transactions() -> impl Strategy<Value = Vec<Transaction<'static>>> {
    let object = (oids(), prop::collection::vec(changes(), 1..4)).prop_map(|(oid, changes)| ObjectChanges {
        oid,
        info: Info::default(),
        changes: changes.into(),
    });
    let txn = prop::collection::vec(object, 1..3)
        .prop_map(|objects| Transaction { objects: objects.into(), ..Transaction::default() });
    prop::collection::vec(txn, 1..25)
}

fn stamp(txn: &mut Transaction<'_>, n: u64) {
    txn.version = Eversion { epoch: Epoch(3), version: n };
    for object in &mut txn.objects {
        object.info = Info {
            version: txn.version,
            user_version: n,
            mtime: UTime { sec: n as u32, nsec: 0 },
            has_omap: n & 1 != 0,
            whiteout: n & 2 != 0,
            has_snaps: n & 4 != 0,
            watched: n & 8 != 0,
            ..Info::default()
        };
    }
}

proptest! {
    #[test]
    fn transactions_do_what_they_say(txns in transactions()) {
        let store = MemoryStore::new(1 << 30);
        let pg = open(&store, 0);
        let mut models = Models::new();
        let mut old_views = Vec::new();
        for (n, mut txn) in (1..).zip(txns) {
            stamp(&mut txn, n);
            let touched: Vec<_> = txn.objects.iter().map(|o| o.oid).collect();
            old_views.extend(touched.iter().map(|oid| {
                (view(&*pg, *oid), models.get(&ObjectName::new(*oid).expect("short")).cloned())
            }));
            txn.objects.iter().for_each(|object| apply(&mut models, object));
            prop_assert_eq!(pg.submit(txn), Ok(Commit::Done));
            for oid in touched {
                check(view(&*pg, oid).as_ref(), models.get(&ObjectName::new(oid).expect("short")));
            }
            prop_assert_eq!(pg.version().version, n);
        }
        old_views.iter().for_each(|(view, model)| check(view.as_ref(), model.as_ref()));
        drop(old_views);
        check_sums(&store, &*pg, &models);
    }
}

fn check_sums(store: &MemoryStore, pg: &dyn Collection, models: &Models) {
    let names: Vec<ObjectName> = models.keys().cloned().collect();
    let start = ObjectRef::first_of_hash(0);
    assert_eq!(pg.list(start, usize::MAX).now(), Some(names.clone()));
    for (i, name) in names.iter().enumerate() {
        assert_eq!(pg.list(name.as_ref(), 2).now().as_deref(), Some(&names[i..names.len().min(i + 2)]));
    }
    let stats = pg.stats();
    assert_eq!(stats.objects, models.len() as u64);
    assert_eq!(stats.bytes, models.values().map(|m| m.data.len() as u64).sum::<u64>());
    assert_eq!(stats.omap_keys, models.values().map(|m| m.omap.len() as u64).sum::<u64>());
    let omap_bytes =
        |m: &Model| m.omap.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>() + m.header.len();
    assert_eq!(stats.omap_bytes, models.values().map(|m| omap_bytes(m) as u64).sum::<u64>());
    for name in &names {
        pg.submit(change(name.as_ref(), Change::Remove)).expect("removing needs no room");
    }
    assert_eq!(store.statfs().available, store.statfs().total, "nothing is left, nothing is counted");
}

#[test]
fn a_full_store_refuses_and_recovers() {
    let store = MemoryStore::new(1 << 20);
    let (a, b) = (open(&store, 0), open(&store, 1));
    let mut written = 0u32;
    let full = loop {
        let pg = if written.is_multiple_of(2) { &a } else { &b };
        match write(&**pg, &written.to_le_bytes(), 10_000) {
            Ok(_) => written += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(full, StoreError::Full { .. }), "{full}");
    assert!((70..105).contains(&written), "{written} objects of 10 kB fit in 1 MiB");
    let pg = if written.is_multiple_of(2) { &a } else { &b };
    assert!(
        view(&**pg, ObjectRef::head(0, &written.to_le_bytes())).is_none(),
        "nothing of a refused write is done"
    );
    a.submit(change(ObjectRef::head(0, &0u32.to_le_bytes()), Change::Remove))
        .expect("removing needs no room");
    write(&*a, b"again", 1_000).expect("room again");
    store.remove(PgId { pool: PoolId(1), seed: 0 }).expect("memory has no reason to refuse");
    assert_eq!(a.stats().objects, 0);
    assert_eq!(store.collections(), [PgId { pool: PoolId(1), seed: 1 }]);
}

#[test]
fn absurd_requests_are_refused() {
    let store = MemoryStore::new(u64::MAX);
    let pg = open(&store, 0);
    let oid = ObjectRef::head(0, b"o");
    let far = Change::Write { offset: u64::MAX, data: Bytes::from_static(b"x") };
    assert_eq!(pg.submit(change(oid, far)), Err(StoreError::TooLarge { size: u64::MAX }));
    let size = OBJECT_BYTES_MAX + 1;
    assert_eq!(pg.submit(change(oid, Change::Truncate { size })), Err(StoreError::TooLarge { size }));
    let long = vec![b'n'; 1 << 15];
    let oid = ObjectRef { nspace: &long, ..oid };
    assert!(matches!(pg.submit(change(oid, Change::Create)), Err(StoreError::Name(_))));
    assert_eq!(pg.stats().objects, 0);
}

#[test]
fn holes_read_as_zeros_and_are_no_extents() {
    let store = MemoryStore::new(1 << 30);
    let pg = open(&store, 0);
    let oid = ObjectRef::head(0, b"o");
    let data = Bytes::from_static(&[7; 4096]);
    for offset in [1 << 20, 4 << 20] {
        pg.submit(change(oid, Change::Write { offset, data: data.clone() })).expect("room");
    }
    let view = view(&*pg, oid).expect("written");
    assert_eq!(view.size(), (4 << 20) + 4096);
    assert_eq!(view.extents(0, u64::MAX).now(), Some(vec![(1 << 20, 4096), (4 << 20, 4096)]));
    let Fetch::Now(read) = view.read((1 << 20) - 10, 20) else { panic!("memory answers at once") };
    assert_eq!(read.concat(), [[0; 10], [7; 10]].concat());
    assert!(pg.stats().bytes_allocated < 10_000);
}

#[test]
fn an_omap_is_read_in_pages() {
    let store = MemoryStore::new(1 << 30);
    let pg = open(&store, 0);
    let oid = ObjectRef::head(0, b"o");
    let key = |i: usize| Bytes::from(format!("{}{i:03}", if i < 50 { 'a' } else { 'b' }));
    let pairs: Vec<_> = (0..100).map(|i| (key(i), Bytes::from_static(b"value"))).collect();
    pg.submit(change(oid, Change::SetOmap { pairs: pairs.clone() })).expect("room");
    let view = view(&*pg, oid).expect("made");
    let page = |after: Option<Bytes>, prefix, keys_max, bytes_max| {
        let after = after.as_deref();
        let page = view.omap_page(OmapRange { after, prefix, keys_max, bytes_max }).now().expect("at once");
        (page.pairs, page.more)
    };
    assert_eq!(page(None, b"", 100, usize::MAX), (pairs.clone(), false));
    assert_eq!(page(None, b"", 10, usize::MAX), (pairs[..10].to_vec(), true));
    assert_eq!(page(Some(key(9)), b"", 10, usize::MAX), (pairs[10..20].to_vec(), true));
    assert_eq!(page(None, b"b", 100, usize::MAX), (pairs[50..].to_vec(), false));
    assert_eq!(page(Some(key(59)), b"b", 100, usize::MAX), (pairs[60..].to_vec(), false));
    assert_eq!(page(Some(key(5)), b"", 100, 10), (pairs[6..8].to_vec(), true));
    let wanted = [key(7), Bytes::from_static(b"none"), key(3)];
    assert_eq!(view.omap_values(&wanted).now(), Some(vec![pairs[3].clone(), pairs[7].clone()]));
}
