//! An image, or a snapshot of one.

use std::sync::Arc;

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};
use loligo_rbd::{Error, Image, Shrink};

use super::{Backend, BackendError, Done, Started, Work, add_extent};
use crate::proto::{Can, EXTENTS_MAX, Extent, Fault, Io, Piece};

/// Held to take or leave a reference.
static IMAGE: Class = Class::new("nbd.rbd");

/// Bytes of a discard that leave together; images take less than 2 GiB at once.
const DISCARD_STEP: u64 = 1 << 30;
/// Zeros that are written together where they must take room.
const ZEROS_STEP: u64 = 4 << 20;

/// An open image as a device.
pub struct Rbd {
    /// `None` once it is closed.
    image: Mutex<Option<Arc<Image>>>,
    read_only: bool,
}

impl Rbd {
    /// The device that an open image is.
    pub fn new(image: Image, read_only: bool) -> Self {
        Self { image: Mutex::new(&IMAGE, Some(Arc::new(image))), read_only }
    }

    fn image(&self) -> Option<Arc<Image>> {
        self.image.lock().clone()
    }
}

impl Backend for Rbd {
    fn kind(&self) -> &'static str {
        "rbd"
    }

    fn size(&self) -> u64 {
        self.image().map_or(0, |image| image.size())
    }

    fn can(&self) -> Can {
        Can { write: !self.read_only, trim: true, fast_zero: true, multi_conn: true }
    }

    fn start(&self, io: Io) -> Started {
        match self.image() {
            None => Started::Now(Err(Fault::Shutdown)),
            Some(image) => Started::later(async move {
                carry_out(&image, io).await.map_err(|e| Fault::of_errno(e.errno().0))
            }),
        }
    }

    fn resize(&self, size: u64) -> Work {
        let image = self.image();
        Box::pin(async move {
            let image = image.ok_or_else(|| BackendError("the image is closed".to_owned()))?;
            image.resize(size, Shrink::Allowed).await.map_err(BackendError::of)
        })
    }

    fn close(&self) -> Work {
        let image = self.image.lock().take();
        Box::pin(async move {
            // Whoever still has an I/O under way closes it when that ends.
            match image.and_then(Arc::into_inner) {
                Some(image) => image.close().await.map_err(BackendError::of),
                None => Ok(()),
            }
        })
    }
}

/// A change that is done is safe, so FUA and flushes ask for nothing more.
async fn carry_out(image: &Image, io: Io) -> Result<Done, Error> {
    match io {
        Io::Read { offset, len, .. } => {
            let data = image.read(offset, len.into()).await?;
            let missing = u64::from(len) - data.len() as u64;
            return Ok(Done::Data(vec![Piece::Data(data), Piece::Hole(missing)]));
        }
        Io::Write { offset, data, .. } => image.write(offset, data).await?,
        Io::Flush => image.flush().await?,
        Io::WriteZeroes { no_hole: true, fast: true, .. } => {
            return Err(loligo_rados::Errno::EOPNOTSUPP.into());
        }
        Io::WriteZeroes { offset, len, no_hole: true, .. } => {
            let zeros = Bytes::from(vec![0; ZEROS_STEP.min(len) as usize]);
            for (at, len) in steps(offset, len, ZEROS_STEP) {
                image.write(at, zeros.slice(..len as usize)).await?;
            }
        }
        Io::WriteZeroes { offset, len, .. } | Io::Trim { offset, len, .. } => {
            for (at, len) in steps(offset, len, DISCARD_STEP) {
                image.discard(at, len).await?;
            }
        }
        Io::Cache { .. } => {}
        Io::Status { offset, len, one } => return Ok(Done::Extents(extents(image, offset, len, one).await?)),
    }
    Ok(Done::Nothing)
}

async fn extents(image: &Image, offset: u64, len: u64, one: bool) -> Result<Vec<Extent>, Error> {
    let mut extents = Vec::new();
    for part in image.allocation(offset, len).await? {
        add_extent(&mut extents, part.len, !part.exists);
    }
    extents.truncate(if one { 1 } else { EXTENTS_MAX });
    Ok(extents)
}

/// A range cut into steps.
pub(super) fn steps(offset: u64, len: u64, step: u64) -> impl Iterator<Item = (u64, u64)> {
    let count = len.div_ceil(step);
    (0..count).map(move |n| (offset + n * step, step.min(len - n * step)))
}
