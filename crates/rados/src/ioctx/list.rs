//! Listing a pool's objects, placement group by placement group.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use loligo_wire::message::osd::{HObject, ListObject, MOSDOp, ObjectLocator, OsdFlags, OsdOp, PgNlsResponse};
use loligo_wire::{Decode as _, DecodeError, Encode as _};
use smallvec::smallvec;

use super::{ALWAYS, IoCtx};
use crate::Error;

/// The namespace that stands for all (`LIBRADOS_ALL_NSPACES`).
pub(super) const ALL_NAMESPACES: &[u8] = b"\x01";
/// Entries asked for at a time; an OSD may give fewer (`osd_max_pgls`, 1,024 by default).
const BATCH: u64 = 1024;

/// An object that a listing has found.
pub type ListedObject = ListObject;

/// A place in a pool's order of objects, which outlives splits and moves of placement groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListCursor(HObject);

impl ListCursor {
    /// Before all objects.
    pub fn start() -> Self {
        Self(HObject::min())
    }

    /// Whether nothing follows.
    pub fn is_end(&self) -> bool {
        self.0.max
    }

    /// The place as bytes, to be kept.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes().to_vec()
    }

    /// A place that was kept.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        HObject::from_bytes(bytes).map(Self)
    }
}

/// The objects of a pool, from a place on. Objects that come or go meanwhile may be found or not; all others are found
/// once.
pub struct ObjectList {
    ioctx: IoCtx,
    cursor: ListCursor,
    found: VecDeque<ListedObject>,
    asking: Option<Asking>,
}

type Asking = Pin<Box<dyn Future<Output = Result<PgNlsResponse, Error>> + Send>>;

impl ObjectList {
    pub(super) fn new(ioctx: IoCtx, cursor: ListCursor) -> Self {
        Self { ioctx, cursor, found: VecDeque::new(), asking: None }
    }

    /// The next object; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<ListedObject>, Error> {
        std::future::poll_fn(|cx| self.poll_object(cx)).await.transpose()
    }

    /// Some objects at once: what is left of what an OSD gave. Empty only at the end.
    pub async fn next_batch(&mut self) -> Result<Vec<ListedObject>, Error> {
        let Some(first) = self.next().await? else { return Ok(Vec::new()) };
        Ok(std::iter::once(first).chain(self.found.drain(..)).collect())
    }

    /// The place behind everything that was asked for; all of it has been given out when [`ObjectList::next_batch`] has
    /// returned.
    pub fn cursor(&self) -> &ListCursor {
        &self.cursor
    }

    fn poll_object(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ListedObject, Error>>> {
        loop {
            if let Some(object) = self.found.pop_front() {
                return Poll::Ready(Some(Ok(object)));
            }
            if self.cursor.is_end() {
                return Poll::Ready(None);
            }
            let (ioctx, cursor) = (&self.ioctx, &self.cursor);
            let asking = self.asking.get_or_insert_with(|| Box::pin(ask(ioctx.clone(), cursor.0.clone())));
            let answer = match asking.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(answer) => answer,
            };
            self.asking = None;
            match answer {
                Ok(response) => {
                    self.cursor = ListCursor(response.handle);
                    self.found = response.entries.into();
                }
                Err(e) => return Poll::Ready(Some(Err(e))),
            }
        }
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

/// Asks the placement group in which the cursor stands for what follows there. Its last answer's handle stands in the next
/// group.
async fn ask(ioctx: IoCtx, cursor: HObject) -> Result<PgNlsResponse, Error> {
    let locator = ObjectLocator { hash: i64::from(cursor.hash), key: Vec::new(), ..ioctx.locator.clone() };
    let epoch = ioctx.rados.map_epoch().0;
    let flags = ALWAYS | OsdFlags::READ | OsdFlags::PGOP | OsdFlags::IGNORE_OVERLAY;
    let request = MOSDOp::new(locator, Vec::new(), smallvec![OsdOp::pgnls(BATCH, epoch, &cursor)], flags);
    let reply = super::succeeded(ioctx.submit(request).await?)?;
    let out = reply.outs.into_iter().next().unwrap_or_default().data;
    PgNlsResponse::from_bytes(&out).map_err(|source| Error::Decode { what: "pg_nls_response_t", source })
}
