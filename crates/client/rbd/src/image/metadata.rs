//! Metadata: keys and values that users store with an image.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_rados::IoCtx;
use loligo_wire::Encode as _;
use loligo_wire::Name;

use crate::Error;
use crate::call::{ask, tell};
use crate::image::Image;

/// The prefix of librbd's own keys, which a copy of an image does not get (`librbd/internal.cc`, release
/// 16).
const OWN_KEYS: &str = ".rbd";

/// Pairs in one reply.
const PAIRS_AT_A_TIME: u64 = 64;

impl Image {
    /// Returns all pairs.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn metadata(&self) -> Result<BTreeMap<Name, Bytes>, Error> {
        load(&self.inner.io, &self.inner.header).await
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn set_metadata(&self, key: impl Into<Name>, value: Bytes) -> Result<(), Error> {
        let key = &key.into();
        self.inner.check_header().await?;
        let pair = BTreeMap::from([(key.to_owned(), value)]);
        tell(&self.inner.io, &self.inner.header, "metadata_set", |w| w.raw(&pair.to_bytes())).await?;
        self.inner.header_changed().await
    }

    /// Removes a key.
    ///
    /// # Errors
    /// ENOENT if there is no such key.
    pub async fn remove_metadata(&self, key: impl Into<Name>) -> Result<(), Error> {
        let key = &key.into();
        let inner = &self.inner;
        inner.check_header().await?;
        ask::<Bytes>(&inner.io, &inner.header, "metadata_get", |w| w.put(key)).await?;
        tell(&inner.io, &inner.header, "metadata_remove", |w| w.put(key)).await?;
        inner.header_changed().await
    }
}

/// Reads the pairs of an image that its copies and clones get.
pub(crate) async fn load_for_copy(io: &IoCtx, header: &Name) -> Result<BTreeMap<Name, Bytes>, Error> {
    let mut pairs = load(io, header).await?;
    pairs.retain(|key, _| !key.starts_with(OWN_KEYS.as_bytes()));
    Ok(pairs)
}

/// Reads all pairs of an image.
pub(crate) async fn load(io: &IoCtx, header: &Name) -> Result<BTreeMap<Name, Bytes>, Error> {
    let mut all = BTreeMap::new();
    let mut after = Name::new();
    loop {
        let page: BTreeMap<Name, Bytes> = ask(io, header, "metadata_list", |w| {
            w.put(&after);
            w.u64(PAIRS_AT_A_TIME);
        })
        .await?;
        let Some((last, _)) = page.last_key_value().filter(|(last, _)| *last > &after) else {
            return Ok(all);
        };
        after = last.clone();
        all.extend(page);
    }
}
