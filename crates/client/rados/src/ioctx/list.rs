//! Listing a pool's objects, placement group by placement group.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use loligo_wire::message::osd::{HObject, ListObject, MOSDOp, ObjectLocator, OsdFlags, OsdOp, PgNlsResponse};
use loligo_wire::{Decode as _, DecodeError, Encode as _, PoolId, SnapId, Writer};
use smallvec::smallvec;

use super::{ALWAYS, IoCtx};
use crate::Error;

/// The namespace that selects all namespaces (`LIBRADOS_ALL_NSPACES`).
pub(super) const ALL_NAMESPACES: &[u8] = b"\x01";
/// Entries requested at a time; an OSD may return fewer (`osd_max_pgls`, 1,024 by default).
const BATCH: u64 = 1024;

/// An object found by a listing.
pub type ListedObject = ListObject;

/// A position in a pool's order of objects. It stays valid across splits and moves of placement groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListCursor(HObject);

impl ListCursor {
    /// Returns the position before all objects.
    pub fn start() -> Self {
        Self(HObject::min())
    }

    /// Returns the position after all objects.
    pub fn end() -> Self {
        Self(HObject::max())
    }

    /// Returns `true` if no object follows.
    pub fn is_end(&self) -> bool {
        self.0.max
    }

    /// Encodes the position for storage.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes().to_vec()
    }

    /// Decodes a stored position.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        HObject::from_bytes(bytes).map(Self)
    }
}

/// Returns the beginning of the `part`th of `parts` equal parts of a pool's order; for `part` = `parts`,
/// its end.
///
/// The order is that of the names' bit-reversed hashes, so the parts contain about the same number of
/// objects.
fn part_begins(pool: PoolId, part: u32, parts: u32) -> ListCursor {
    if part == 0 {
        return ListCursor::start();
    }
    match u32::try_from((u64::from(part) << 32) / u64::from(parts)) {
        Ok(reversed) => ListCursor(HObject { hash: reversed.reverse_bits(), pool: pool.0, ..HObject::min() }),
        Err(_) => ListCursor::end(),
    }
}

/// A listing of a pool's objects from a position on. Objects created or removed during the listing may
/// or may not be found; every other object is found once.
pub struct ObjectList {
    ioctx: IoCtx,
    cursor: ListCursor,
    /// The listing ends before this position.
    end: ListCursor,
    /// The encoded filter sent to the OSDs; empty for none.
    filter: Bytes,
    found: VecDeque<ListedObject>,
    asking: Option<Asking>,
}

type Asking = Pin<Box<dyn Future<Output = Result<PgNlsResponse, Error>> + Send>>;

impl ObjectList {
    pub(super) fn new(ioctx: IoCtx, cursor: ListCursor, end: ListCursor) -> Self {
        Self { ioctx, cursor, end, filter: Bytes::new(), found: VecDeque::new(), asking: None }
    }

    /// Restricts the listing to objects with an extended attribute of this name and value. The OSDs
    /// evaluate the filter, at the cost of a read for each object.
    #[must_use]
    pub fn whose_xattr_is(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        let mut w = Writer::with_capacity(64);
        // The first two words are no longer used (`add_pgls_filter` in src/osdc/Objecter.h). In the
        // store, the names of users' attributes begin with "_".
        for text in [b"pg" as &[u8], b"filter", b"plain", &[b"_", name.as_ref()].concat(), value.as_ref()] {
            w.blob(text);
        }
        self.filter = w.into_bytes();
        self
    }

    /// Returns the next object; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<ListedObject>, Error> {
        std::future::poll_fn(|cx| self.poll_object(cx)).await.transpose()
    }

    /// Returns several objects at once: the rest of one reply of an OSD. Empty only at the end.
    pub async fn next_batch(&mut self) -> Result<Vec<ListedObject>, Error> {
        let Some(first) = self.next().await? else { return Ok(Vec::new()) };
        Ok(std::iter::once(first).chain(self.found.drain(..)).collect())
    }

    /// Returns the position after all objects received so far. After [`ObjectList::next_batch`] has
    /// returned, all of them have been handed out.
    pub fn cursor(&self) -> &ListCursor {
        &self.cursor
    }

    fn poll_object(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ListedObject, Error>>> {
        loop {
            if let Some(object) = self.found.pop_front() {
                return Poll::Ready(Some(Ok(object)));
            }
            if self.cursor >= self.end {
                return Poll::Ready(None);
            }
            let (ioctx, cursor, filter) = (&self.ioctx, &self.cursor, &self.filter);
            let asking = self
                .asking
                .get_or_insert_with(|| Box::pin(ask(ioctx.clone(), cursor.0.clone(), filter.clone())));
            let answer = match asking.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(answer) => answer,
            };
            self.asking = None;
            match answer {
                Ok(response) => self.take(response),
                Err(e) => return Poll::Ready(Some(Err(e))),
            }
        }
    }
}

impl ObjectList {
    fn take(&mut self, response: PgNlsResponse) {
        self.cursor = ListCursor(response.handle);
        self.found = response.entries.into();
        if self.cursor > self.end {
            // The OSD does not know the end of the listing.
            let place = |object: &ListedObject| self.ioctx.position_of(object);
            self.found.retain(|object| place(object).is_none_or(|place| place < self.end));
            self.cursor = self.end.clone();
        }
    }
}

/// Parts of a pool, for several concurrent listings.
impl IoCtx {
    /// Splits the objects of this context's namespace into `parts` lists of about equal size; at least
    /// one list.
    pub fn object_parts(&self, parts: u32) -> Vec<ObjectList> {
        let parts = parts.max(1);
        let begins = |part| part_begins(self.pool(), part, parts);
        (0..parts).map(|part| self.objects_between(begins(part), begins(part + 1))).collect()
    }

    /// Lists the objects of this context's namespace from `start` to before `end`.
    pub fn objects_between(&self, start: ListCursor, end: ListCursor) -> ObjectList {
        ObjectList::new(self.clone(), start, end)
    }

    /// Returns an object's position in the pool's order; `None` if the pool does not exist.
    pub fn position_of(&self, object: &ListedObject) -> Option<ListCursor> {
        let ListObject { nspace, oid, locator } = object.clone();
        let hash = self.rados.core().objecter.view().hash_of(self.pool(), &nspace, &locator, &oid)?;
        let (pool, snap) = (self.pool().0, SnapId::HEAD);
        Some(ListCursor(HObject { key: locator, oid, snap, hash, max: false, nspace, pool }))
    }
}

impl Stream for ObjectList {
    type Item = Result<ListedObject, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_object(cx)
    }
}

impl fmt::Debug for ObjectList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectList").field("cursor", &self.cursor).field("found", &self.found.len()).finish()
    }
}

/// Requests the objects after the cursor from the cursor's placement group. The handle of the group's
/// last reply is a position in the next group.
async fn ask(ioctx: IoCtx, cursor: HObject, filter: Bytes) -> Result<PgNlsResponse, Error> {
    let locator = ObjectLocator { hash: i64::from(cursor.hash), key: Vec::new(), ..ioctx.locator.clone() };
    let epoch = ioctx.rados.map_epoch().0;
    let flags = ALWAYS | OsdFlags::READ | OsdFlags::PGOP | OsdFlags::IGNORE_OVERLAY;
    let op = if filter.is_empty() {
        OsdOp::pgnls(BATCH, epoch, &cursor)
    } else {
        OsdOp::pgnls_filter(BATCH, epoch, &cursor, &filter)
    };
    let request = MOSDOp::new(locator, Vec::new(), smallvec![op], flags);
    let reply = super::succeeded(ioctx.reply_to(request).await?)?;
    let out = reply.outs.into_iter().next().unwrap_or_default().data;
    PgNlsResponse::from_bytes(&out).map_err(|source| Error::Decode { what: "pg_nls_response_t", source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_pool_meet_and_are_of_one_size() {
        for parts in [1, 2, 3, 7, 1000] {
            let begins: Vec<_> = (0..=parts).map(|part| part_begins(PoolId(3), part, parts)).collect();
            assert!(begins.is_sorted() && begins.windows(2).all(|two| two[0] < two[1]), "{parts}");
            assert_eq!((&begins[0], &begins[parts as usize]), (&ListCursor::start(), &ListCursor::end()));
            let reversed: Vec<_> =
                begins[1..parts as usize].iter().map(|at| at.0.hash.reverse_bits()).collect();
            let sizes = reversed.windows(2).map(|two| two[1] - two[0]);
            assert!(sizes.clone().max().unwrap_or(0) - sizes.min().unwrap_or(0) <= 1, "{parts}");
        }
    }
}
