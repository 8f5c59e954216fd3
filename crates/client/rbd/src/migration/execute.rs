//! The second step of a migration: copies the remaining data to the destination.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::IoCtx;
use loligo_wire::Name;
use loligo_wire::rbd::Migration;

use super::pair::{Pair, apart};
use super::prepare::relink_clones;
use crate::Error;
use crate::copy::AT_ONCE;
use crate::header::migration::State;
use crate::image::Image;
use crate::lock::messages::Wanted;
use crate::progress::report;

/// The most bytes of objects copied in parallel, unless one object has more.
const COPIED_AT_ONCE: u64 = 64 << 20;

/// Copies all remaining data from the source to the destination. `progress` gets the number of objects
/// done, and of all objects. `name` is that of either image. The destination may be in use; the owner of
/// its exclusive lock is then asked to copy.
///
/// # Errors
/// [`Error::NoImage`]; [`Error::NotMigrating`]; [`Error::MigrationState`] unless the migration is
/// prepared, or a previous execution was interrupted.
pub async fn execute(
    io: &IoCtx,
    name: impl Into<Name>,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let name = &name.into();
    let pair = Pair::find(io, name).await?;
    if ![State::Prepared, State::Executing].contains(&pair.state()) {
        return Err(Error::MigrationState { state: pair.state().name(), wanted: "prepared" });
    }
    let destination = pair.open_destination().await?;
    let executed = copy_all(&pair, &destination, &mut progress).await;
    let closed = destination.close().await;
    executed.and(closed)
}

async fn copy_all(
    pair: &Pair,
    destination: &Image,
    progress: &mut impl FnMut(u64, u64),
) -> Result<(), Error> {
    let from = &pair.source;
    if let Some(source) = apart(&from.io, &from.name, &from.id).await? {
        // An interrupted `prepare` may not have relinked all clones.
        let relinked = relink_clones(pair, &source, destination).await;
        let closed = source.close().await;
        relinked.and(closed)?;
    }
    pair.set_state(Migration::EXECUTING, "").await?;
    destination.inner.refresh().await?;
    {
        let percent = Arc::new(AtomicU64::new(0));
        let told = |done: u64, all: u64| {
            percent.store((done * 100).checked_div(all).unwrap_or(100), Ordering::Relaxed);
            progress(done, all);
        };
        let described = pair.describe(Arc::clone(&percent));
        tokio::select! {
            done = destination.migrate(told) => done?,
            () = described => {}
        }
    }
    pair.set_state(Migration::EXECUTED, "").await?;
    destination.inner.header_changed().await
}

impl Image {
    /// Copies the remaining objects, or asks the lock's owner to do it.
    pub(crate) async fn migrate(&self, mut progress: impl FnMut(u64, u64)) -> Result<(), Error> {
        if self.has_owner_do(Wanted::Migrate, &mut progress).await? {
            return Ok(());
        }
        let inner = &self.inner;
        drop(inner.enter().await?);
        inner.refresh().await?;
        let all = inner.source_objects().await?;
        let at_once = (COPIED_AT_ONCE / inner.fixed.layout.object_size()).clamp(1, AT_ONCE as u64);
        let taken = stream::iter(0..all).map(|number| async move {
            let _place = inner.enter().await?;
            inner.take_from_source(number).await
        });
        let mut taken = taken.buffer_unordered(at_once as usize);
        let mut done = 0;
        while taken.try_next().await?.is_some() {
            done += 1;
            report(&mut progress, done, all).await;
        }
        Ok(())
    }
}
