//! COPY_FROM: makes an object a copy of another one, which may be in another placement group or pool.
//!
//! A stock OSD reads the source from its OSD in pieces. Here the source is a view of an object in the
//! same process, so the copy shows the source at one point in time, and no request waits for the
//! source's placement group.

use std::sync::Arc;

use bytes::Bytes;
use loligo_store::{Change, Fetch, ObjectRef, ObjectView, OmapRange};
use loligo_wire::message::osd::{CopyFrom, ObjectLocator, OpCode, OsdOp};
use loligo_wire::{Errno, Reader, SnapId};

use super::clones::{Clones, Then};
use super::execution::{DONE, Execution, Output};

/// The cost of copying an omap pair, beside its bytes.
const PAIR_COST: u64 = 128;
/// Bytes of an omap copied at once.
const OMAP_PAGE: usize = 1 << 20;

/// An object that an operation reads beside the request's own object.
pub(crate) struct Source {
    pub(crate) locator: ObjectLocator,
    pub(crate) name: Bytes,
}

/// The source of a copy operation, if its arguments can be decoded. Only copy operations read an object
/// of another name.
pub(crate) fn source_of(op: &OsdOp) -> Option<Source> {
    if !matches!(op.code, OpCode::COPY_FROM | OpCode::COPY_FROM2) {
        return None;
    }
    let mut r = Reader::new(&op.data);
    Some(Source { name: r.get().ok()?, locator: r.get().ok()? })
}

impl Execution<'_> {
    pub(super) fn copy_from(&mut self, op: &OsdOp) -> Output {
        let args = op.copy_from_args();
        let mut r = Reader::new(&op.data);
        let name = r.blob()?;
        let locator: ObjectLocator = r.get()?;
        let truncation = match args.flags & CopyFrom::TRUNCATE_SEQ {
            0 => None,
            _ if op.code == OpCode::COPY_FROM2 => Some((r.u32()?, r.u64()?)),
            _ => return Err(Errno::EINVAL),
        };
        if self.is_itself(&locator, name, args.snapid) {
            return Err(Errno::EINVAL);
        }
        let source = self.source(&locator, name, args).inspect_err(|_| self.copy_failed = true)?;
        self.take_over(&*source)?;
        let info = source.info();
        (self.info.truncate_seq, self.info.truncate_size) =
            truncation.unwrap_or((info.truncate_seq, info.truncate_size));
        self.info.user_version = info.user_version;
        self.copied_mtime = Some(info.mtime);
        DONE
    }

    fn is_itself(&self, locator: &ObjectLocator, name: &[u8], snap: SnapId) -> bool {
        let key = if locator.key == name { &[][..] } else { &locator.key };
        let same_name = self.oid.nspace == locator.nspace && self.oid.key == key && self.oid.name == name;
        locator.pool == self.context.pool && snap == SnapId::HEAD && same_name
    }

    /// Returns the object to copy if it has the wanted version.
    fn source(
        &self,
        locator: &ObjectLocator,
        name: &[u8],
        wanted: CopyFrom,
    ) -> Result<Arc<dyn ObjectView>, Errno> {
        self.context.limits.check_name(locator, name)?;
        let source = self.object_then(locator, name, wanted.snapid)?;
        match wanted.src_version {
            0 => Ok(source),
            version if version < source.info().user_version => Err(Errno::ERANGE),
            version if version > source.info().user_version => Err(Errno::EOVERFLOW),
            _ => Ok(source),
        }
    }

    /// Returns another object, current or as of a snapshot.
    fn object_then(
        &self,
        locator: &ObjectLocator,
        name: &[u8],
        snap: SnapId,
    ) -> Result<Arc<dyn ObjectView>, Errno> {
        let places = self.context.places.as_ref().ok_or(Errno::EIO)?;
        let facts = places.facts(locator.pool).ok_or(Errno::ENOENT)?;
        let hash = facts.hash_object(&locator.nspace, &locator.key, name);
        let key = if locator.key == name { &[][..] } else { &locator.key };
        let head = ObjectRef { hash, nspace: &locator.nspace, key, name, snap: SnapId::HEAD };
        let fetches = &self.context.fetches;
        let look = |oid: ObjectRef<'_>| {
            let collection = places.collection(locator.pool, hash);
            collection.map_or(Fetch::Now(None), |collection| collection.object(oid))
        };
        // Remembered, since a repeated execution of this request must copy the same object.
        let found = fetches.once(|| look(head))?.ok_or(Errno::ENOENT)?;
        if snap == SnapId::HEAD {
            return if found.info().whiteout { Err(Errno::ENOENT) } else { Ok(found) };
        }
        if places.is_removed(locator.pool, snap) {
            return Err(Errno::ENOENT);
        }
        match Clones::of(self.context, &*found)?.then(snap) {
            Then::Head if !found.info().whiteout => Ok(found),
            Then::Clone(id) => {
                let clone = ObjectRef { snap: id, ..head };
                fetches.once(|| look(clone))?.ok_or(Errno::ENOENT)
            }
            Then::Head | Then::Nothing => Err(Errno::ENOENT),
        }
    }

    /// Replaces data, attributes and omap by those of another object.
    fn take_over(&mut self, source: &dyn ObjectView) -> Result<(), Errno> {
        let (fetches, size) = (&self.context.fetches, source.size());
        self.context.limits.check_range(0, size)?;
        let attributes = source.xattr_bytes();
        self.context.spend(size + attributes)?;
        self.makes(size + attributes)?;
        let extents = fetches.now(|| source.extents(0, size))?;
        let mut changes = vec![Change::Truncate { size: 0 }, Change::ClearXattrs, Change::ClearOmap];
        for (mut offset, len) in extents {
            for data in fetches.now(|| source.read(offset, len))? {
                let len = data.len() as u64;
                changes.push(Change::Write { offset, data });
                offset += len;
            }
        }
        changes.push(Change::Truncate { size });
        for (name, value) in
            fetches.now(|| source.xattrs())?.into_iter().filter(|(n, _)| !super::attrs::is_own(n))
        {
            changes.push(Change::SetXattr { name, value });
        }
        let mut has_omap = false;
        if source.info().has_omap {
            let header = fetches.now(|| source.omap_header())?;
            has_omap = self.take_over_omap(source, &mut changes)? || !header.is_empty();
            changes.push(Change::SetOmapHeader { header });
        }
        if has_omap && self.context.rules.is_erasure() {
            return Err(Errno::EOPNOTSUPP);
        }
        self.modified.insert(0, self.size);
        self.size = size;
        self.info.has_omap = has_omap;
        self.info.whiteout = false;
        changes.into_iter().for_each(|change| self.make(change));
        Ok(())
    }

    /// Copies the omap's pairs; returns whether there were any. As in a stock OSD, the copied pairs are
    /// those a listing shows, which excludes the empty key, and an omap without pairs and header is not
    /// created (`fill_in_copy_get` and `process_copy_chunk` in `PrimaryLogPG.cc`).
    fn take_over_omap(
        &mut self,
        source: &dyn ObjectView,
        changes: &mut Vec<Change<'_>>,
    ) -> Result<bool, Errno> {
        let mut after = Some(Bytes::new());
        let mut found = false;
        loop {
            let range = OmapRange {
                after: after.as_deref(),
                prefix: b"",
                keys_max: usize::MAX,
                bytes_max: OMAP_PAGE,
            };
            let page = self.context.fetches.now(|| source.omap_page(range))?;
            let bytes = page.pairs.iter().map(|(k, v)| (k.len() + v.len()) as u64).sum();
            self.context.spend(bytes)?;
            self.context.works(page.pairs.len() as u64 * PAIR_COST)?;
            self.makes(bytes)?;
            let last = page.pairs.last().map(|(key, _)| key.clone());
            found |= last.is_some();
            changes.push(Change::SetOmap { pairs: page.pairs });
            if !page.more || last.is_none() {
                return Ok(found);
            }
            after = last;
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a copy has all of its source's content and nothing of its own previous content. Method: two
    //! pools of a store in memory, used without a network.

    use std::collections::BTreeMap;

    use loligo_maps::{OsdMap, PgPool};
    use loligo_store::ObjectStore;
    use loligo_store::memory::MemoryStore;
    use loligo_wire::message::Msg;
    use loligo_wire::message::osd::{Extent, MOSDOp, Ops, OsdFlags, OsdReply};
    use loligo_wire::{Encode, Epoch, Eversion, PoolId, Tid, Writer};
    use smallvec::smallvec;

    use super::super::PgState;
    use super::super::{Context, Executed, Needs, SnapContext, execute};
    use crate::dups::Dups;
    use crate::helpers::Helpers;
    use crate::place::Places;
    use crate::stats::Counters;

    use super::*;

    const PG_NUM: u32 = 4;

    fn places() -> Arc<Places> {
        let pool = || PgPool::replicated(1, PG_NUM);
        let mut map = OsdMap::default();
        map.epoch = Epoch(1);
        map.pools = [(PoolId(1), pool()), (PoolId(2), pool())].into();
        let store: Arc<dyn ObjectStore> = Arc::new(MemoryStore::new(1 << 30));
        let places = Places::none(store);
        let places = places.next(Arc::new(map), Bytes::new(), &BTreeMap::new(), &Helpers::default());
        Arc::new(places.expect("a memory store opens"))
    }

    fn ask(places: &Arc<Places>, pool: i64, name: &str, ops: Ops, snaps: &[u64]) -> OsdReply {
        let facts = places.pool(PoolId(pool)).expect("one of the two");
        let mut op = MOSDOp::new(ObjectLocator::in_pool(PoolId(pool)), name.into(), ops, OsdFlags::empty());
        op.hash = facts.pool.hash_object(b"", b"", name.as_bytes());
        let collection = &facts.slot(op.hash).expect("it opens").collection;
        let mut state = PgState::new(collection.version(), Dups::default(), Arc::default());
        let snaps = snaps.iter().copied().map(SnapId).collect::<Vec<_>>();
        let context = Context {
            writes: Needs::of(&op).expect("no classes").writes(),
            snapc: SnapContext { seq: snaps.first().copied().unwrap_or_default(), snaps },
            places: Some(Arc::clone(places) as _),
            ..Context::plain(1, Tid(1), Epoch(1), PoolId(pool), PG_NUM)
        };
        let done = execute(&context, &mut op, &**collection, &mut state, &Counters::default());
        let Executed::Answer(msg, ..) = done else { panic!("no answer") };
        let data = Bytes::from(msg.data.concat());
        OsdReply::open(&Msg { data: smallvec![data], ..msg }).expect("a reply that decodes")
    }

    fn copy(name: &str, pool: i64, from: CopyFrom) -> Ops {
        smallvec![OsdOp::copy_from(name.as_bytes(), &ObjectLocator::in_pool(PoolId(pool)), from)]
    }

    fn head() -> CopyFrom {
        CopyFrom { snapid: SnapId::HEAD, ..CopyFrom::default() }
    }

    fn xattr(name: &str, value: &str) -> OsdOp {
        OsdOp::xattr(OpCode::SETXATTR, name.as_bytes(), value.as_bytes(), 0, 0)
    }

    fn omap(key: &str) -> OsdOp {
        OsdOp::new(OpCode::OMAPSETVALS).with_data(vec![(key.to_owned(), "v".to_owned())].to_bytes())
    }

    /// Data, attributes and omap.
    fn all(places: &Arc<Places>, pool: i64, name: &str) -> Vec<Bytes> {
        let mut w = Writer::new();
        w.blob(b"");
        w.u64(9);
        w.blob(b"");
        let omap = OsdOp::new(OpCode::OMAPGETVALS).with_data(w.into_bytes());
        let reply =
            ask(places, pool, name, smallvec![OsdOp::read(0, 0), OsdOp::new(OpCode::GETXATTRS), omap], &[]);
        assert_eq!(reply.result, 0);
        reply.outs.into_iter().map(|out| out.data).collect()
    }

    #[test]
    fn a_copy_is_what_its_source_is() {
        let places = places();
        let bytes = Bytes::from_static;
        let write = |data| OsdOp::write_full(bytes(data));
        assert_eq!(
            ask(&places, 1, "a", smallvec![write(b"source"), xattr("x", "1"), omap("k")], &[]).result,
            0
        );
        let changed = ask(&places, 1, "a", smallvec![OsdOp::write(9, bytes(b"!"))], &[4]);
        assert_eq!(changed.result, 0);
        for pool in [1, 2] {
            assert_eq!(
                ask(&places, pool, "b", smallvec![write(b"gone, and long"), xattr("y", "2")], &[]).result,
                0
            );
            let reply = ask(&places, pool, "b", copy("a", 1, head()), &[]);
            assert_eq!(
                (reply.result, reply.user_version),
                (0, changed.user_version),
                "the version comes along"
            );
            assert_eq!(all(&places, pool, "b"), all(&places, 1, "a"));
        }
        let then = CopyFrom { snapid: SnapId(4), ..head() };
        assert_eq!(ask(&places, 2, "c", copy("a", 1, then), &[]).result, 0);
        assert_eq!(all(&places, 2, "c")[0], &b"source"[..]);
        let version = |src_version| copy("a", 1, CopyFrom { src_version, ..head() });
        assert_eq!(ask(&places, 2, "d", version(changed.user_version), &[]).result, 0);
        assert_eq!(ask(&places, 2, "d", version(changed.user_version - 1), &[]).result, -34);
        assert_eq!(ask(&places, 2, "d", version(changed.user_version + 1), &[]).result, -75);
        assert_eq!(ask(&places, 2, "d", copy("nothing", 1, head()), &[]).result, -2);
        assert_eq!(ask(&places, 2, "d", copy("a", 7, head()), &[]).result, -2);
        assert_eq!(ask(&places, 1, "a", copy("a", 1, head()), &[]).result, -22);
        assert_eq!(places.pool(PoolId(1)).expect("it is there").slots.len(), PG_NUM);
        assert_ne!(changed.replay_version, Eversion::default());
    }

    #[test]
    fn a_copy_gets_the_truncation_that_the_request_names() {
        let places = places();
        let write = OsdOp::write_full(Bytes::from_static(b"source"));
        assert_eq!(ask(&places, 1, "a", smallvec![write], &[]).result, 0);
        let copy = OsdOp::copy_from2(b"a", &ObjectLocator::in_pool(PoolId(1)), head(), (5, 4096));
        assert_eq!(ask(&places, 2, "b", smallvec![copy], &[]).result, 0);
        // A truncation that is not newer than the object's changes nothing.
        for (truncate_seq, len) in [(5, 6), (6, 1)] {
            let extent = Extent { offset: 1, length: 0, truncate_size: 1, truncate_seq };
            let truncate = OsdOp::with_extent(OpCode::TRUNCATE, extent, Bytes::new());
            assert_eq!(ask(&places, 2, "b", smallvec![truncate], &[]).result, 0);
            let read = ask(&places, 2, "b", smallvec![OsdOp::read(0, 0)], &[]);
            assert_eq!(read.outs[0].data.len(), len, "after truncation {truncate_seq}");
        }
    }

    #[test]
    fn a_map_without_content_is_not_copied() {
        let places = places();
        let clear = || OsdOp::new(OpCode::OMAPCLEAR);
        for (keys, is_map) in [(&[][..], false), (&[""], false), (&["", "k"], true)] {
            let pairs: Vec<(String, String)> = keys.iter().map(|key| (key.to_string(), "v".into())).collect();
            let set = OsdOp::new(OpCode::OMAPSETVALS).with_data(pairs.to_bytes());
            assert_eq!(
                ask(&places, 1, "a", smallvec![OsdOp::new(OpCode::CREATE), clear(), set], &[]).result,
                0
            );
            let copied = ask(&places, 1, "b", copy("a", 1, head()), &[]).user_version;
            let cleared = ask(&places, 1, "b", smallvec![clear()], &[]).user_version;
            assert_eq!(cleared > copied, is_map, "{keys:?}: {copied}, {cleared}");
        }
    }

    #[test]
    fn a_copy_of_nothing_leaves_no_trace_in_the_history() {
        let places = places();
        let set = || ask(&places, 1, "a", smallvec![xattr("x", "1")], &[]).user_version;
        let before = set();
        let failed = ask(&places, 1, "a", copy("nothing", 1, head()), &[]);
        assert_eq!((failed.result, failed.user_version), (-2, 0));
        assert_eq!(set(), before + 1);
    }
}
