//! An image or a snapshot as a back end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use loligo_lockstat::{Class, Mutex};
use loligo_rados::Rados;
use loligo_rbd::{CacheOptions, Error, Image, ImageCache, Shrink};
use tokio::sync::Notify;

use super::renewal::{Clustered, Heritage, Losing, NotPassed, Passing, Retiring};
use super::{Backend, BackendError, Done, Started, Work, add_extent};
use crate::proto::{Can, EXTENTS_MAX, Extent, Fault, Io, Piece};

/// Locked to clone or take the reference.
static IMAGE: Class = Class::new("nbd.rbd");

/// Bytes of one discard request; images accept less than 2 GiB at once.
const DISCARD_STEP: u64 = 1 << 30;
/// Maximum bytes read from a cache on the thread of the request; longer reads would delay other clients.
const READ_NOW_MAX: u32 = 64 << 10;
/// Bytes per write of zeros that must stay allocated.
const ZEROS_STEP: u64 = 4 << 20;

/// An open image as a device.
pub struct Rbd {
    /// `None` once it is closed.
    image: Mutex<Option<Arc<Image>>>,
    /// Notified when a holder of the image has released it.
    left: Arc<Notify>,
    read_only: bool,
    /// A change of cached data has failed with a blocklisted client, perhaps without a report to any
    /// client.
    failed: Arc<AtomicBool>,
}

/// A reference to the image for the duration of an operation.
struct Held {
    /// The first field, so that it is dropped before `_left` notifies: the waiter finds the image
    /// unshared.
    image: Arc<Image>,
    failed: Arc<AtomicBool>,
    _left: Leaving,
}

/// Notifies on drop that a holder has released the image.
struct Leaving(Arc<Notify>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Rbd {
    /// Creates a device on an open image.
    pub fn new(image: Image, read_only: bool) -> Self {
        Self {
            image: Mutex::new(&IMAGE, Some(Arc::new(image))),
            left: Arc::default(),
            read_only,
            failed: Arc::default(),
        }
    }

    fn held(&self) -> Option<Held> {
        let image = self.image.lock().clone()?;
        Some(Held { image, failed: Arc::clone(&self.failed), _left: Leaving(Arc::clone(&self.left)) })
    }

    /// Takes the image out as soon as no other holder is left: new requests are refused, and those in
    /// flight are waited for.
    fn alone(&self) -> impl Future<Output = Option<Image>> + Send + use<> {
        let (image, left) = (self.image.lock().take(), Arc::clone(&self.left));
        async move {
            let mut shared = image?;
            loop {
                match Arc::try_unwrap(shared) {
                    Ok(image) => return Some(image),
                    Err(held) => shared = held,
                }
                left.notified().await;
            }
        }
    }
}

impl Held {
    /// Converts the result of a change. If a change fails with a blocklisted client, the next client
    /// repeats it, and the failure is not reported. But the failure may concern data that an earlier
    /// change has left in the cache.
    fn changed(&self, done: Result<Done, Error>) -> Result<Done, Fault> {
        if done.is_err() && self.image.has_cache() && self.image.is_blocklisted() {
            self.failed.store(true, Ordering::Release);
        }
        answer(done)
    }
}

/// The state of an image whose client is blocklisted.
struct Orphan {
    image: Image,
    read_only: bool,
    failed: bool,
}

impl Heritage for Orphan {
    fn pass_to<'a>(&'a self, rados: &'a Rados) -> Passing<'a> {
        Box::pin(async move {
            if self.failed {
                return Err(NotPassed::Lost(
                    "what its cache had was not written before its client was blocklisted".to_owned(),
                ));
            }
            let image = self.image.succeed(rados).await.map_err(not_passed)?;
            let image = match self.image.cache_options() {
                Some(options) => cached(image, options, self.read_only).await.map_err(not_passed)?,
                None => image,
            };
            Ok(Box::new(Rbd::new(image, self.read_only)) as Box<dyn Clustered>)
        })
    }
}

/// Adds a cache to the image.
pub(super) async fn cached(image: Image, options: CacheOptions, read_only: bool) -> Result<Image, Error> {
    let image = image.cached(&ImageCache::new(options))?;
    if !read_only {
        // Otherwise reads would be cached only from the first write on.
        image.acquire_free_lock().await?;
    }
    Ok(image)
}

fn not_passed(e: Error) -> NotPassed {
    match e {
        Error::Rados(e) => NotPassed::of(&e),
        e => NotPassed::Lost(e.to_string()),
    }
}

impl Clustered for Rbd {
    fn retire(&self) -> Retiring {
        let (alone, failed, read_only) = (self.alone(), Arc::clone(&self.failed), self.read_only);
        Box::pin(async move {
            let image = alone.await?;
            let failed = failed.load(Ordering::Acquire);
            Some(Box::new(Orphan { image, read_only, failed }) as Box<dyn Heritage>)
        })
    }

    fn lost(&self) -> Losing {
        let lost = self.held().map(|held| held.image.lock_lost());
        Box::pin(async move {
            match lost {
                Some(lost) => lost.await.to_string(),
                None => std::future::pending().await,
            }
        })
    }
}

impl Backend for Rbd {
    fn kind(&self) -> &'static str {
        "rbd"
    }

    fn size(&self) -> u64 {
        self.image.lock().as_ref().map_or(0, |image| image.size())
    }

    fn refresh(&self) -> Work {
        let held = self.held();
        Box::pin(async move {
            match held {
                Some(held) => held.image.refresh().await.map_err(BackendError::of),
                None => Ok(()),
            }
        })
    }

    fn can(&self) -> Can {
        Can { write: !self.read_only, trim: true, fast_zero: true, multi_conn: true }
    }

    fn start(&self, io: Io) -> Started {
        match self.held() {
            None => Started::Now(Err(Fault::Shutdown)),
            // Reads and writes have their own futures, which are small. Each future moves `held` as a
            // whole, not only its image.
            Some(held) => match io {
                Io::Read { offset, len, .. } => Started::later(async move {
                    let held = held;
                    answer(read(&held.image, offset, len).await)
                }),
                Io::Write { offset, data, fua } => Started::later(async move {
                    let held = held;
                    held.changed(write(&held.image, offset, data, fua).await)
                }),
                io @ (Io::Status { .. } | Io::Cache { .. }) => Started::later(async move {
                    let held = held;
                    answer(carry_out(&held.image, io).await)
                }),
                io => Started::later(async move {
                    let held = held;
                    held.changed(carry_out(&held.image, io).await)
                }),
            },
        }
    }

    fn read_now(&self, offset: u64, len: u32, out: &mut BytesMut) -> bool {
        let cached = |held: &Held| len <= READ_NOW_MAX && held.image.has_cache();
        let Some(held) = self.held().filter(cached) else { return false };
        let begin = out.len();
        out.resize(begin + len as usize, 0);
        let was_cached = held.image.read_cached(offset, &mut out[begin..]);
        if !was_cached {
            out.truncate(begin);
        }
        was_cached
    }

    fn resize(&self, size: u64) -> Work {
        let held = self.held();
        Box::pin(async move {
            let held = held.ok_or_else(|| BackendError("the image is closed".to_owned()))?;
            held.image.resize(size, Shrink::Allowed).await.map_err(BackendError::of)
        })
    }

    fn close(&self) -> Work {
        let alone = self.alone();
        Box::pin(async move {
            let Some(image) = alone.await else { return Ok(()) };
            image.close().await.map_err(BackendError::of)
        })
    }
}

fn answer(done: Result<Done, Error>) -> Result<Done, Fault> {
    done.map_err(|e| Fault::of_errno(e.errno()))
}

async fn read(image: &Image, offset: u64, len: u32) -> Result<Done, Error> {
    let data = image.read(offset, len.into()).await?;
    let missing = u64::from(len) - data.len() as u64;
    Ok(Done::Data(vec![Piece::Data(data), Piece::Hole(missing)]))
}

async fn write(image: &Image, offset: u64, data: Bytes, fua: bool) -> Result<Done, Error> {
    let len = data.len() as u64;
    image.write(offset, data).await?;
    if fua {
        Box::pin(image.flush_range(offset, len)).await?;
    }
    Ok(Done::Nothing)
}

/// Without a cache a completed change is durable, so that FUA and flushes do nothing more; with a cache
/// they write it back. Discards bypass the cache.
async fn carry_out(image: &Image, io: Io) -> Result<Done, Error> {
    match io {
        Io::Read { offset, len, .. } => return read(image, offset, len).await,
        Io::Write { offset, data, fua } => return write(image, offset, data, fua).await,
        Io::Flush => image.flush().await?,
        Io::WriteZeroes { no_hole: true, fast: true, .. } => {
            return Err(loligo_rados::Errno::EOPNOTSUPP.into());
        }
        Io::WriteZeroes { offset, len, no_hole: true, fua, .. } => {
            let zeros = Bytes::from(vec![0; ZEROS_STEP.min(len) as usize]);
            for (at, len) in steps(offset, len, ZEROS_STEP) {
                image.write(at, zeros.slice(..len as usize)).await?;
            }
            if fua {
                image.flush_range(offset, len).await?;
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

/// Cuts a range into steps.
pub(super) fn steps(offset: u64, len: u64, step: u64) -> impl Iterator<Item = (u64, u64)> {
    let count = len.div_ceil(step);
    (0..count).map(move |n| (offset + n * step, step.min(len - n * step)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loligo_rados::Builder;
    use loligo_rbd::{Mode, NewImage};
    use loligo_server::Server;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn closing_waits_for_an_io_and_gives_the_lock_up() {
        let server = Server::memory().pool("p").start().expect("the server starts");
        let conf = server.conf().to_str().expect("UTF-8");
        let rados = Builder::new().conf_file(conf).connect().await.expect("connects");
        let io = rados.ioctx("p").await.expect("the pool");
        loligo_rbd::create(&io, "disk", NewImage::of_size(1 << 20)).await.expect("made");
        let image = Image::open(&io, "disk", Mode::ReadWrite).await.expect("opens");
        image.write(0, vec![1; 512].into()).await.expect("written");
        let header = format!("rbd_header.{}", image.id());
        let device = Rbd::new(image, false);
        let read = || device.start(Io::Read { offset: 0, len: 512, whole: false });
        let Started::Later(under_way) = read() else { panic!("it does not wait") };
        let closing = tokio::spawn(device.close());
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!closing.is_finished());
        assert!(matches!(read(), Started::Now(Err(Fault::Shutdown))));
        let Ok(Done::Data(pieces)) = under_way.await else { panic!("not read") };
        assert!(matches!(&pieces[0], Piece::Data(data) if data[..] == [1; 512]));
        closing.await.expect("it ends").expect("closed");
        assert!(io.lock_info(&*header, "rbd_lock").await.expect("a lock").holders.is_empty());
        assert!(io.watchers(&*header).await.expect("watchers").is_empty());
    }
    async fn run(device: &Rbd, io: Io) -> Done {
        let Started::Later(later) = device.start(io) else { panic!("it does not wait") };
        later.await.expect("done")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn flushes_and_fua_write_a_cache_back() {
        let server = Server::memory().pool("p").start().expect("the server starts");
        let builder = Builder::new().conf_file(server.conf().to_str().expect("UTF-8"));
        let io = builder.clone().connect().await.expect("connects").ioctx("p").await.expect("the pool");
        loligo_rbd::create(&io, "disk", NewImage::of_size(64 << 20)).await.expect("made");
        let image = Image::open(&io, "disk", Mode::ReadWrite).await.expect("opens");
        let lazy = loligo_rbd::CacheOptions { dirty_time: Duration::from_secs(3600), ..Default::default() };
        let image = image.cached(&loligo_rbd::ImageCache::new(lazy)).expect("it has the lock's feature");
        let stored = async |at: u64| {
            let stored = Image::open(&io, "disk", Mode::ReadOnly).await.expect("opens");
            stored.read(at, 1).await.expect("read")[0]
        };
        let device = Rbd::new(image, false);
        let write = |offset: u64, fua| Io::Write { offset, data: vec![7; 4096].into(), fua };
        run(&device, write(0, false)).await;
        run(&device, write(8 << 20, true)).await;
        run(&device, Io::WriteZeroes { offset: 4096, len: 4096, no_hole: true, fast: false, fua: false })
            .await;
        assert_eq!((stored(0).await, stored(8 << 20).await), (0, 7));
        let Done::Extents(extents) = run(&device, Io::Status { offset: 0, len: 64 << 20, one: false }).await
        else {
            panic!("no extents")
        };
        assert_eq!((extents[0].len, extents[0].hole), (4 << 20, false));
        run(&device, write(0, false)).await;
        run(&device, Io::Trim { offset: 0, len: 4096, fua: true }).await;
        run(&device, write(100, false)).await;
        assert_eq!(stored(100).await, 0);
        run(&device, Io::Flush).await;
        assert_eq!((stored(0).await, stored(100).await), (0, 7));
        run(&device, write(16 << 20, false)).await;
        // A cached read needs no waiting; an uncached one leaves the buffer unchanged.
        let mut out = BytesMut::from(&[1][..]);
        assert!(device.read_now((16 << 20) + 4095, 1, &mut out) && out[..] == [1, 7]);
        assert!(!device.read_now(24 << 20, 4096, &mut out) && out[..] == [1, 7]);
        assert!(!device.read_now((64 << 20) - 1, 2, &mut out) && out[..] == [1, 7]);
        device.close().await.expect("closed");
        assert_eq!(stored(16 << 20).await, 7);
    }
}
