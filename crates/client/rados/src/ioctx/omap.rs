//! An object's omap: its ordered map of keys and values, and the header.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use loligo_wire::message::osd::{OmapKeys, OmapPairs, OpCode, OsdOp};

use super::{IoCtx, WriteOp, decode};
use crate::Error;

/// Keys requested at a time; an OSD may return fewer (`osd_max_omap_entries_per_request`, 1,024 by default).
const BATCH: u64 = 1024;

/// The object's omap.
impl IoCtx {
    /// Streams the pairs whose keys begin with `prefix`, in order. Keys set or removed during the
    /// iteration may or may not appear.
    pub fn omap(
        &self,
        oid: impl Into<Vec<u8>>,
        prefix: impl Into<Vec<u8>>,
    ) -> BoxStream<'static, Result<(Bytes, Bytes), Error>> {
        let (ioctx, oid, prefix) = (self.clone(), oid.into(), prefix.into());
        let state = Some((ioctx, oid, prefix, Bytes::new()));
        stream::try_unfold(state, |state| async {
            let Some((ioctx, oid, prefix, after)) = state else { return Ok(None) };
            let page = ioctx.omap_page(oid.clone(), &after, &prefix, BATCH).await?;
            let next = page.pairs.last().filter(|_| page.more).map(|(key, _)| key.clone());
            let pairs = stream::iter(page.pairs.into_iter().map(Ok::<_, Error>));
            Ok::<_, Error>(Some((pairs, next.map(|after| (ioctx, oid, prefix, after)))))
        })
        .try_flatten()
        .boxed()
    }

    /// Returns at most `max` pairs after the key `after` whose keys begin with `prefix`, and whether
    /// there are more.
    pub async fn omap_page(
        &self,
        oid: impl Into<Vec<u8>>,
        after: impl AsRef<[u8]>,
        prefix: impl AsRef<[u8]>,
        max: u64,
    ) -> Result<OmapPairs, Error> {
        let op = OsdOp::omap_values(after.as_ref(), max, prefix.as_ref());
        let out = self.read_one(oid.into(), op).await?;
        decode("a part of a map", &out, |r| OmapPairs::from_answer(r.rest()))
    }

    /// Returns at most `max` keys after the key `after`, and whether there are more.
    pub async fn omap_keys(
        &self,
        oid: impl Into<Vec<u8>>,
        after: impl AsRef<[u8]>,
        max: u64,
    ) -> Result<OmapKeys, Error> {
        let out = self.read_one(oid.into(), OsdOp::omap_keys(after.as_ref(), max)).await?;
        decode("a part of a map's keys", &out, |r| OmapKeys::from_answer(r.rest()))
    }

    /// Returns the values of the given keys; missing keys are left out.
    pub async fn omap_values<K: AsRef<[u8]>>(
        &self,
        oid: impl Into<Vec<u8>>,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<BTreeMap<Bytes, Bytes>, Error> {
        let out = self.read_one(oid.into(), OsdOp::omap_values_by_keys(keys)).await?;
        decode("values of a map", &out, |r| r.get())
    }

    /// Sets keys. Creates the object if it does not exist.
    pub async fn set_omap<K: AsRef<[u8]>>(
        &self,
        oid: impl Into<Vec<u8>>,
        pairs: impl IntoIterator<Item = (K, Bytes)>,
    ) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::omap_set(pairs)).await
    }

    /// Removes keys; missing keys are ignored.
    pub async fn remove_omap_keys<K: AsRef<[u8]>>(
        &self,
        oid: impl Into<Vec<u8>>,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::omap_remove(keys)).await
    }

    /// Removes the keys in `from..until`.
    pub async fn remove_omap_range(
        &self,
        oid: impl Into<Vec<u8>>,
        from: impl AsRef<[u8]>,
        until: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.operate(oid, WriteOp::new().remove_omap_range(from, until)).await
    }

    /// Removes all keys and the header.
    pub async fn clear_omap(&self, oid: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::new(OpCode::OMAPCLEAR)).await
    }

    /// Returns the header; empty if none was set.
    pub async fn omap_header(&self, oid: impl Into<Vec<u8>>) -> Result<Bytes, Error> {
        self.read_one(oid.into(), OsdOp::new(OpCode::OMAPGETHEADER)).await
    }

    /// Sets the header. Creates the object if it does not exist.
    pub async fn set_omap_header(&self, oid: impl Into<Vec<u8>>, header: Bytes) -> Result<(), Error> {
        self.operate(oid, WriteOp::new().set_omap_header(header)).await
    }
}
