//! A striped file, in the format of libradosstriper.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};
use loligo_rados::{Name, PoolId, Rados};
use loligo_stripe::{Buffers, Error, File, Segment, Striper};

use super::rbd::steps;
use super::renewal::{Clustered, Heritage, Losing, NotPassed, Passing, Retiring};
use super::{Backend, BackendError, Done, Started, Work, add_extent};
use crate::proto::{Can, EXTENTS_MAX, Fault, Io, Piece};

/// Locked to clone or take the reference.
static FILE: Class = Class::new("nbd.striped");

/// Bytes per write of zeros.
const ZEROS_STEP: u64 = 4 << 20;

/// An open striped file as a device. The size is read when the file is opened and again when a client
/// attaches; a resize here changes it as well.
///
/// Other clients that have the file open may extend it, but cannot shorten it meanwhile. Trimmed ranges
/// become holes.
pub struct Striped {
    /// `None` once it is closed.
    file: Mutex<Option<Arc<File>>>,
    size: Arc<AtomicU64>,
    origin: Origin,
}

/// The location of the file.
#[derive(Clone)]
struct Origin {
    pool: PoolId,
    name: Name,
    read_only: bool,
}

impl Heritage for Origin {
    fn pass_to<'a>(&'a self, rados: &'a Rados) -> Passing<'a> {
        Box::pin(async move {
            let striper = Striper::new(rados.ioctx_by_id(self.pool));
            let opened = Striped::open(&striper, self.pool, &self.name, self.read_only).await;
            Ok(Box::new(opened.map_err(not_passed)?) as Box<dyn Clustered>)
        })
    }
}

fn not_passed(e: Error) -> NotPassed {
    match e {
        Error::Rados(e) => NotPassed::of(&e),
        e => NotPassed::Lost(e.to_string()),
    }
}

impl Clustered for Striped {
    /// The file's lock is shared and protects only its length and its removal: several clients may write
    /// at the same time.
    fn retire(&self) -> Retiring {
        drop(self.file.lock().take());
        Box::pin(std::future::ready(Some(Box::new(self.origin.clone()) as Box<dyn Heritage>)))
    }

    fn lost(&self) -> Losing {
        Box::pin(std::future::pending())
    }
}

impl Striped {
    /// Opens a file of a pool as a device.
    ///
    /// # Errors
    /// It cannot be opened, or its size cannot be read.
    pub async fn open(striper: &Striper, pool: PoolId, name: &Name, read_only: bool) -> Result<Self, Error> {
        let file = striper.open(name).await?;
        let size = file.size().await?;
        Ok(Self {
            file: Mutex::new(&FILE, Some(Arc::new(file))),
            size: Arc::new(AtomicU64::new(size)),
            origin: Origin { pool, name: name.to_owned(), read_only },
        })
    }

    fn file(&self) -> Option<Arc<File>> {
        self.file.lock().clone()
    }
}

impl Backend for Striped {
    fn kind(&self) -> &'static str {
        "striped"
    }

    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn refresh(&self) -> Work {
        let (file, known) = (self.file(), Arc::clone(&self.size));
        Box::pin(async move {
            if let Some(file) = file {
                // The file only grows while it is open; a concurrent resize here may already have stored
                // a larger size.
                known.fetch_max(file.size().await.map_err(BackendError::of)?, Ordering::Relaxed);
            }
            Ok(())
        })
    }

    fn can(&self) -> Can {
        Can { write: !self.origin.read_only, trim: true, fast_zero: true, multi_conn: true }
    }

    fn start(&self, io: Io) -> Started {
        match (self.file(), io) {
            (None, _) => Started::Now(Err(Fault::Shutdown)),
            (_, Io::Flush | Io::Cache { .. }) => Started::Now(Ok(Done::Nothing)),
            (_, Io::WriteZeroes { fast: true, no_hole: true, .. }) => Started::Now(Err(Fault::NotSupported)),
            (Some(file), io) => {
                Started::later(
                    async move { carry_out(&file, io).await.map_err(|e| Fault::of_errno(e.errno())) },
                )
            }
        }
    }

    fn resize(&self, size: u64) -> Work {
        let (file, known) = (self.file(), Arc::clone(&self.size));
        Box::pin(async move {
            let file = file.ok_or_else(|| BackendError("the file is closed".to_owned()))?;
            if size < known.load(Ordering::Relaxed) {
                return Err(BackendError("a striped file that is open cannot be made shorter".to_owned()));
            }
            file.extend(size).await.map_err(BackendError::of)?;
            known.store(size, Ordering::Relaxed);
            Ok(())
        })
    }

    fn close(&self) -> Work {
        let file = self.file.lock().take();
        Box::pin(async move {
            match file.and_then(Arc::into_inner) {
                Some(file) => file.close().await.map_err(BackendError::of),
                None => Ok(()),
            }
        })
    }
}

/// A completed write is on the OSDs' disks, so FUA needs nothing more.
async fn carry_out(file: &File, io: Io) -> Result<Done, Error> {
    match io {
        Io::Read { offset, len, .. } => {
            let read = file.read(offset, len.into()).await.map_err(|e| e.source)?;
            let missing = u64::from(len).saturating_sub(read.len());
            let pieces = read.parts().iter().map(|part| match part {
                Segment::Data(data) => Piece::Data(data.clone()),
                Segment::Hole(len) => Piece::Hole(*len),
            });
            Ok(Done::Data(pieces.chain([Piece::Hole(missing)]).collect()))
        }
        Io::Write { offset, data, .. } => {
            file.write(offset, data).await.map_err(|e| e.source)?;
            Ok(Done::Nothing)
        }
        Io::WriteZeroes { offset, len, no_hole: true, .. } => {
            let zeros = Bytes::from(vec![0; ZEROS_STEP.min(len) as usize]);
            for (at, len) in steps(offset, len, ZEROS_STEP) {
                let zeros: Buffers = zeros.slice(..len as usize).into();
                file.write(at, zeros).await.map_err(|e| e.source)?;
            }
            Ok(Done::Nothing)
        }
        Io::WriteZeroes { offset, len, .. } | Io::Trim { offset, len, .. } => {
            file.punch(offset, len).await?;
            Ok(Done::Nothing)
        }
        Io::Status { offset, len, one } => {
            let mut extents = Vec::new();
            for part in file.parts(offset, len).await? {
                add_extent(&mut extents, part.len, part.is_hole);
            }
            extents.truncate(if one { 1 } else { EXTENTS_MAX });
            Ok(Done::Extents(extents))
        }
        // Handled in `start`.
        Io::Flush | Io::Cache { .. } => Ok(Done::Nothing),
    }
}
