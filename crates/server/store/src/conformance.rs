//! Conformance tests for every store: random transactions are compared with a naive model (objects as
//! byte vectors and maps), and fixed tests cover cases that random ones do not find. A store's tests
//! call these functions with an empty store. They panic if the store loses or corrupts data.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use loligo_wire::{Epoch, Eversion, PgId, PoolId, SnapId, UTime};
use proptest::prelude::*;
use smallvec::smallvec;

use crate::{
    Change, Collection, CommitListener, Fetch, Info, OBJECT_BYTES_MAX, ObjectChanges, ObjectName, ObjectRef,
    ObjectStore, ObjectView, OmapRange, StoreError, Transaction, is_own,
};

/// Bytes of space that a store needs for these tests.
pub const ROOM: u64 = 64 << 20;

/// All of an omap.
pub const ALL: OmapRange<'_> =
    OmapRange { after: None, prefix: b"", keys_max: usize::MAX, bytes_max: usize::MAX };

/// A listener that does nothing.
pub struct Deaf;

impl CommitListener for Deaf {
    fn committed(&self, _: Eversion) {}
    fn stopped(&self, _: &StoreError) {}
}

/// Opens a collection with a listener that does nothing.
pub fn open(store: &dyn ObjectStore, seed: u32) -> Arc<dyn Collection> {
    store.open(PgId { pool: PoolId(1), seed }, Arc::new(Deaf)).expect("a store that works")
}

/// Waits for a result.
pub fn wait<T: Send + 'static>(fetch: Fetch<T>) -> Result<T, StoreError> {
    match fetch {
        Fetch::Now(value) => Ok(value),
        Fetch::Later(later) => {
            let (sender, receiver) = mpsc::channel();
            later.then(move |value| drop(sender.send(value)));
            receiver.recv().expect("answered or dropped")
        }
    }
}

/// Returns the current state of an object.
pub fn view(pg: &dyn Collection, oid: ObjectRef<'_>) -> Option<Arc<dyn ObjectView>> {
    wait(pg.object(oid)).expect("readable")
}

/// A transaction of one change.
pub fn change<'a>(oid: ObjectRef<'a>, change: Change<'a>) -> Transaction<'a> {
    let info = Info::default();
    Transaction {
        objects: smallvec![ObjectChanges { oid, info, changes: smallvec![change] }],
        ..Transaction::default()
    }
}

/// The expected state of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// The data.
    pub data: Vec<u8>,
    /// The OSD's metadata.
    pub info: Info,
    /// The extended attributes.
    pub xattrs: BTreeMap<Bytes, Bytes>,
    /// The omap.
    pub omap: BTreeMap<Bytes, Bytes>,
    /// The omap's header.
    pub header: Bytes,
    /// The recorded checksum, while it is valid.
    pub crc: Option<u32>,
}

/// All objects of a collection.
pub type Models = BTreeMap<ObjectName, Model>;

/// Applies a transaction's changes of one object to the model.
pub fn apply(models: &mut Models, changes: &ObjectChanges<'_>) {
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

/// Compares a whole collection with the model; `what` names the occasion in a failure message.
pub fn check_all(collection: &dyn Collection, models: &Models, what: &str) {
    let names: Vec<ObjectName> = models.keys().cloned().collect();
    let listed = wait(collection.list(ObjectRef::first_of_hash(0), usize::MAX)).expect("a list");
    assert_eq!(listed, names, "{what}");
    for (name, model) in models {
        let view = wait(collection.object(name.as_ref())).expect("readable").expect("it is listed");
        check_view(&*view, model, &format!("{what}: {name:?}"));
    }
    let stats = collection.stats();
    assert_eq!(stats.objects, models.len() as u64, "{what}");
    assert_eq!(stats.bytes, models.values().map(|m| m.data.len() as u64).sum::<u64>(), "{what}");
}

/// Compares an object with its model.
pub fn check_view(view: &dyn ObjectView, model: &Model, what: &str) {
    assert_eq!(
        (view.size(), view.info(), view.crc()),
        (model.data.len() as u64, model.info, model.crc),
        "{what}"
    );
    let data = wait(view.read(0, u64::MAX)).unwrap_or_else(|e| panic!("{what}: {e}")).concat();
    let differs = data.iter().zip(&model.data).position(|(a, b)| a != b);
    assert!(data.len() == model.data.len() && differs.is_none(), "{what}: data differs at {differs:?}");
    let (from, len) = (model.data.len() as u64 / 3, model.data.len() as u64 / 2);
    let part = wait(view.read(from, len)).expect("readable").concat();
    assert!(part == model.data[from as usize..(from + len) as usize], "{what}: a part");
    let pairs = |m: &BTreeMap<Bytes, Bytes>| m.clone().into_iter().collect::<Vec<_>>();
    assert_eq!(wait(view.xattrs()).expect("readable"), pairs(&model.xattrs), "{what}");
    assert_eq!(wait(view.omap_page(ALL)).expect("readable").pairs, pairs(&model.omap), "{what}");
    assert_eq!(wait(view.omap_header()).expect("readable"), model.header, "{what}");
    let keys: Vec<Bytes> = model.omap.keys().cloned().collect();
    assert_eq!(wait(view.omap_values(&keys)).expect("readable"), pairs(&model.omap), "{what}");
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

/// Transactions to try, each with a few changes of few objects; [`transactions_do_what_they_say`]
/// applies them.
pub fn transactions() -> impl Strategy<Value = Vec<Transaction<'static>>> {
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

/// Applies transactions. Compares the changed objects after each transaction; at the end compares all
/// objects, listings from every start, and views taken earlier. Returns the collection and its expected
/// contents.
pub fn transactions_do_what_they_say(
    store: &dyn ObjectStore,
    txns: Vec<Transaction<'static>>,
) -> (Arc<dyn Collection>, Models) {
    let pg = open(store, 0);
    let mut models = Models::new();
    let mut old_views = Vec::new();
    for (n, mut txn) in (1..).zip(txns) {
        stamp(&mut txn, n);
        let touched: Vec<_> = txn.objects.iter().map(|o| o.oid).collect();
        old_views.extend(
            touched
                .iter()
                .map(|oid| (view(&*pg, *oid), models.get(&ObjectName::new(*oid).expect("short")).cloned())),
        );
        txn.objects.iter().for_each(|object| apply(&mut models, object));
        pg.submit(txn).expect("there is room");
        for oid in touched {
            let model = models.get(&ObjectName::new(oid).expect("short"));
            compare(view(&*pg, oid).as_ref(), model, "after its transaction");
        }
        assert_eq!(pg.version().version, n);
    }
    old_views.iter().for_each(|(view, model)| compare(view.as_ref(), model.as_ref(), "an old view"));
    drop(old_views);
    check_all(&*pg, &models, "at the end");
    let names: Vec<ObjectName> = models.keys().cloned().collect();
    for (i, name) in names.iter().enumerate() {
        let page = wait(pg.list(name.as_ref(), 2)).expect("a list");
        assert_eq!(page, &names[i..names.len().min(i + 2)]);
    }
    (pg, models)
}

fn compare(view: Option<&Arc<dyn ObjectView>>, model: Option<&Model>, what: &str) {
    match (view, model) {
        (Some(view), Some(model)) => check_view(&**view, model, what),
        _ => assert_eq!((view.is_some(), model.is_some()), (false, false), "{what}"),
    }
}

/// Requests beyond any bound are refused without effect.
pub fn absurd_requests_are_refused(store: &dyn ObjectStore) {
    let pg = open(store, 0);
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

/// Holes read as zeros, are not extents, and occupy no space.
pub fn holes_read_as_zeros_and_are_no_extents(store: &dyn ObjectStore) {
    let pg = open(store, 0);
    let oid = ObjectRef::head(0, b"o");
    let data = Bytes::from_static(&[7; 4096]);
    for offset in [1 << 20, 4 << 20] {
        pg.submit(change(oid, Change::Write { offset, data: data.clone() })).expect("room");
    }
    let view = view(&*pg, oid).expect("written");
    assert_eq!(view.size(), (4 << 20) + 4096);
    assert_eq!(wait(view.extents(0, u64::MAX)), Ok(vec![(1 << 20, 4096), (4 << 20, 4096)]));
    let read = wait(view.read((1 << 20) - 10, 20)).expect("readable");
    assert_eq!(read.concat(), [[0; 10], [7; 10]].concat());
    assert!(pg.stats().bytes_allocated < 10_000);
}

/// An omap is read in pages, from any start, with any prefix and bound.
pub fn an_omap_is_read_in_pages(store: &dyn ObjectStore) {
    let pg = open(store, 0);
    let oid = ObjectRef::head(0, b"o");
    let key = |i: usize| Bytes::from(format!("{}{i:03}", if i < 50 { 'a' } else { 'b' }));
    let pairs: Vec<_> = (0..100).map(|i| (key(i), Bytes::from_static(b"value"))).collect();
    pg.submit(change(oid, Change::SetOmap { pairs: pairs.clone() })).expect("room");
    let view = view(&*pg, oid).expect("made");
    let page = |after: Option<Bytes>, prefix, keys_max, bytes_max| {
        let after = after.as_deref();
        let page = wait(view.omap_page(OmapRange { after, prefix, keys_max, bytes_max })).expect("readable");
        (page.pairs, page.more)
    };
    assert_eq!(page(None, b"", 100, usize::MAX), (pairs.clone(), false));
    assert_eq!(page(None, b"", 10, usize::MAX), (pairs[..10].to_vec(), true));
    assert_eq!(page(Some(key(9)), b"", 10, usize::MAX), (pairs[10..20].to_vec(), true));
    assert_eq!(page(None, b"b", 100, usize::MAX), (pairs[50..].to_vec(), false));
    assert_eq!(page(Some(key(59)), b"b", 100, usize::MAX), (pairs[60..].to_vec(), false));
    assert_eq!(page(Some(key(5)), b"", 100, 10), (pairs[6..8].to_vec(), true));
    let wanted = [key(7), Bytes::from_static(b"none"), key(3)];
    assert_eq!(wait(view.omap_values(&wanted)), Ok(vec![pairs[3].clone(), pairs[7].clone()]));
}
