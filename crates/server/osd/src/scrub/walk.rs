//! The walk of a scrub through one placement group, object by object.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loligo_store::{Collection, ObjectName, ObjectRef, ObjectView, OmapRange, StoreError};
use loligo_wire::PgId;
use loligo_wire::crc::crc32c;

use super::got;
use crate::filing::Cut;
use crate::place::Pool;
use crate::scrubs::{Damage, Fault, ScrubKind};

/// Names looked up in one step.
const PAGE: usize = 256;
/// Bytes of an object read in one step: some tenths of a millisecond of the thread that serves all
/// reads.
const STEP: u64 = 256 << 10;
/// Keys of an omap, and their bytes, read in one step.
const OMAP_STEP: (usize, usize) = (1024, 256 << 10);
/// A periodic scrub rests this many times as long as its last step took.
const REST: u32 = 9;

/// How long a scrub rests between two steps.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pause: Duration,
    rest: u32,
}

impl Pace {
    /// Full speed, except for the configured pause.
    pub(super) fn asked(pause: Duration) -> Self {
        Self { pause, rest: 0 }
    }

    /// At most a tenth of the full speed.
    pub(super) fn in_background(pause: Duration) -> Self {
        Self { pause, rest: REST }
    }

    async fn keep(self, step: Duration) {
        let rest = self.pause.max(step.saturating_mul(self.rest));
        match rest.is_zero() {
            true => tokio::task::yield_now().await,
            false => tokio::time::sleep(rest).await,
        }
    }
}

/// Reads a placement group's objects and returns the damaged ones, in order.
///
/// # Errors
/// The store has stopped.
pub(super) async fn walk(
    pool: &Pool,
    pg: PgId,
    kind: ScrubKind,
    pace: Pace,
) -> Result<Vec<(ObjectName, Damage)>, StoreError> {
    let mut walk = Walk { kind, pace, found: Vec::new() };
    let (filed, behind_pg) = (pool.filed(), Cut(pool.pool.pg_num()).behind(pg.seed));
    // A placement group is a part of a slot's objects, or has those of several slots.
    let mut from = ObjectName::new(ObjectRef::first_of_hash(pg.seed)).map_err(|_| StoreError::Stopped)?;
    loop {
        let hash = from.as_ref().hash;
        let end = filed.behind(filed.part_of(hash));
        if let Some(collection) = pool.collection(hash) {
            walk.part(collection, from, end.min(behind_pg)).await?;
        }
        match u32::try_from(end) {
            Ok(reversed) if end < behind_pg => {
                let first = ObjectRef::first_of_hash(reversed.reverse_bits());
                from = ObjectName::new(first).map_err(|_| StoreError::Stopped)?;
            }
            _ => return Ok(walk.found),
        }
    }
}

struct Walk {
    kind: ScrubKind,
    pace: Pace,
    found: Vec<(ObjectName, Damage)>,
}

impl Walk {
    /// Reads the objects of a collection from a name up to a reversed hash.
    async fn part(
        &mut self,
        collection: &Arc<dyn Collection>,
        from: ObjectName,
        end: u64,
    ) -> Result<(), StoreError> {
        let mut next = Some((from, false));
        while let Some((from, seen)) = next.take() {
            let began = Instant::now();
            let names = match got(collection.list(from.as_ref(), PAGE)).await {
                Ok(names) => names,
                // The objects after this name cannot be found.
                Err(e) => return self.damaged(&from, Fault::Record, e),
            };
            self.pace.keep(began.elapsed()).await;
            next = names.last().filter(|_| names.len() == PAGE).map(|last| (last.clone(), true));
            for name in names.iter().skip(usize::from(seen)) {
                if u64::from(name.as_ref().reversed_hash()) >= end {
                    return Ok(());
                }
                self.object(collection, name).await?;
            }
        }
        Ok(())
    }

    async fn object(
        &mut self,
        collection: &Arc<dyn Collection>,
        name: &ObjectName,
    ) -> Result<(), StoreError> {
        let began = Instant::now();
        if let Err(e) = got(collection.verify(name.as_ref())).await {
            return self.damaged(name, Fault::Record, e);
        }
        let view = match got(collection.object(name.as_ref())).await {
            Ok(Some(view)) => view,
            Ok(None) => return Ok(()), // removed meanwhile
            Err(e) => return self.damaged(name, Fault::Record, e),
        };
        self.pace.keep(began.elapsed()).await;
        match self.kind.is_deep() {
            true => self.contents(name, &*view).await,
            false => Ok(()),
        }
    }

    async fn contents(&mut self, name: &ObjectName, view: &dyn ObjectView) -> Result<(), StoreError> {
        match self.data(view).await {
            Err(e) => self.damaged(name, Fault::Data, e)?,
            Ok(crc) if view.crc().is_some_and(|noted| noted != crc) => {
                let noted = view.crc().unwrap_or_default();
                let what =
                    format!("data digest {crc:#010x} != data digest {noted:#010x} of what was written");
                self.found.push((name.clone(), Damage { fault: Fault::Digest, what }));
            }
            Ok(_) => {}
        }
        match self.omap(view).await {
            Err(e) => self.damaged(name, Fault::Omap, e),
            Ok(()) => Ok(()),
        }
    }

    /// Reads all data and returns their checksum.
    async fn data(&self, view: &dyn ObjectView) -> Result<u32, StoreError> {
        let (mut at, mut crc) = (0, u32::MAX);
        while at < view.size() {
            let began = Instant::now();
            let data = got(view.verify(at, STEP)).await?;
            crc = data.iter().fold(crc, |crc, piece| crc32c(crc, piece));
            drop(data);
            at += STEP;
            self.pace.keep(began.elapsed()).await;
        }
        Ok(crc)
    }

    async fn omap(&self, view: &dyn ObjectView) -> Result<(), StoreError> {
        got(view.omap_header()).await?;
        let mut after: Option<bytes::Bytes> = None;
        loop {
            let began = Instant::now();
            let (keys_max, bytes_max) = OMAP_STEP;
            let range = OmapRange { after: after.as_deref(), prefix: b"", keys_max, bytes_max };
            let page = got(view.omap_page(range)).await?;
            let Some((last, _)) = page.pairs.last().filter(|_| page.more) else { return Ok(()) };
            after = Some(last.clone());
            self.pace.keep(began.elapsed()).await;
        }
    }

    /// Records damage. An object is listed once, with the fault found first.
    fn damaged(&mut self, name: &ObjectName, fault: Fault, error: StoreError) -> Result<(), StoreError> {
        if error == StoreError::Stopped {
            return Err(error);
        }
        if self.found.last().is_none_or(|(last, _)| last.as_ref() != name.as_ref()) {
            self.found.push((name.clone(), Damage { fault, what: error.to_string() }));
        }
        Ok(())
    }
}
