//! The header of an open image: read again, checked and marked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loligo_rados::{Errno, SnapId};
use loligo_wire::rbd::feature;

use super::Inner;
use crate::Error;
use crate::call::tell;
use crate::features::{FAST_DIFF_INVALID, OBJECT_MAP_INVALID};
use crate::header::{self, Format, Moving};

impl Inner {
    pub(crate) async fn refresh_if_stale(&self) -> Result<(), Error> {
        // Boxed, so that futures stay small if the header is current.
        if self.stale.load(Ordering::Acquire) { Box::pin(self.refresh()).await } else { Ok(()) }
    }

    pub(crate) async fn refresh(&self) -> Result<(), Error> {
        self.stale.store(false, Ordering::Release);
        let (_, view) = header::load(&self.io, &self.header, self.fixed.format).await.inspect_err(|_| {
            self.stale.store(true, Ordering::Release);
        })?;
        self.view.store(Arc::new(view));
        Ok(())
    }

    /// Checks again that the image may be changed: since it was opened it may have been demoted,
    /// journaled, or have got unknown features.
    pub(crate) fn check_view(&self) -> Result<(), Error> {
        self.view.load().check_writable(self.moving).map_err(|e| match e {
            Error::Features(features) if !self.is_read_only() => Error::Frozen(features),
            e => e,
        })
    }

    /// As `Inner::check_view`, for a change of the header that needs no lock. Reads a stale header
    /// again first.
    pub(crate) async fn check_header(&self) -> Result<(), Error> {
        self.refresh_if_stale().await?;
        self.check_view()
    }

    /// Marks the object map as invalid.
    pub(crate) async fn invalidate_map(&self) -> Result<(), Error> {
        let mut flags = OBJECT_MAP_INVALID;
        if self.view.load().has(feature::FAST_DIFF) {
            flags |= FAST_DIFF_INVALID;
        }
        self.set_flags(flags, flags, SnapId::HEAD).await?;
        self.refresh().await
    }

    pub(crate) async fn set_flags(&self, flags: u64, mask: u64, snap: SnapId) -> Result<(), Error> {
        tell(&self.io, &self.header, "set_flags", |w| {
            w.u64(flags);
            w.u64(mask);
            w.u64(snap.0);
        })
        .await
    }

    /// Returns an error for an image of format 1, with the errno of stock clients.
    pub(crate) fn must_be_new(&self, what: &'static str, errno: Errno) -> Result<(), Error> {
        match self.fixed.format {
            Format::First => Err(Error::OldFormat { what, errno }),
            Format::Second => Ok(()),
        }
    }

    /// Returns an error if the image is being migrated and must not be removed.
    pub(crate) fn check_parted(&self) -> Result<(), Error> {
        match self.moving == Moving::Followed && self.view.load().migration.is_some() {
            true => Err(Error::Migrating("remove it after rbd migration commit or abort")),
            false => Ok(()),
        }
    }
}
