//! Open images: `loligo._native.Image`.

use std::sync::Arc;

use futures_util::StreamExt as _;
use loligo_lockstat::{Class, Mutex};
use loligo_rados::{EntityNum, EntityType, IoCtx, LockMode, SnapId};
use loligo_rbd::diff::Grain;
use loligo_rbd::{Ancestry, Child, Evicted, Format, Mode, Name, Shrink, SnapKind, Snapshot};
use loligo_wire::{Errno, Reader};
use pyo3::prelude::*;
use tokio::sync::watch;

use crate::border::{Home, Kept, run};
use crate::cluster::name_of;
use crate::error::{Failure, What};
use crate::new_options::NewOptions;
use crate::pool::Pool;
use crate::progress::Progress;
use crate::value::{Data, Text, seconds, shown};

static IMAGE: Class = Class::new("python.image");

type Done = Option<Py<PyAny>>;
type Returned = PyResult<Py<PyAny>>;

/// An open image, or one of its snapshots. It closes when the last operation under way has ended.
#[pyclass(frozen, module = "loligo._native")]
pub(crate) struct Image {
    home: Arc<Home>,
    name: Name,
    /// None when it was closed.
    open: Mutex<Option<Arc<Open>>>,
}

struct Open {
    image: Kept<loligo_rbd::Image>,
    /// Where it was opened.
    io: Kept<IoCtx>,
    /// Dropped with the last reference, which is how closing learns of it.
    in_use: watch::Sender<()>,
}

/// A name as Python sees it.
fn text(name: &Name) -> String {
    shown(name.as_bytes()).into_owned()
}

/// Opens an image by its name or id, or a snapshot of it.
pub(crate) async fn open(
    io: IoCtx,
    name: Option<Vec<u8>>,
    id: Option<String>,
    snapshot: Option<Vec<u8>>,
    is_read_only: bool,
) -> Result<loligo_rbd::Image, Failure> {
    let mode = if is_read_only { Mode::ReadOnly } else { Mode::ReadWrite };
    let Some(snapshot) = snapshot.filter(|snapshot| !snapshot.is_empty()) else {
        return Ok(match (name, id) {
            (Some(name), _) => loligo_rbd::Image::open(&io, name, mode).await?,
            (None, Some(id)) => loligo_rbd::Image::open_by_id(&io, &id, mode).await?,
            (None, None) => return Err(Failure::new(Errno::EINVAL, "neither a name nor an id")),
        });
    };
    let name = match (name, id) {
        (Some(name), _) => Name::from(name),
        (None, Some(id)) => loligo_rbd::Image::open_by_id(&io, &id, Mode::ReadOnly).await?.name().clone(),
        (None, None) => return Err(Failure::new(Errno::EINVAL, "neither a name nor an id")),
    };
    Ok(loligo_rbd::Image::open_snapshot(&io, name, snapshot).await?)
}

impl Image {
    pub(crate) fn new(home: &Arc<Home>, io: IoCtx, image: loligo_rbd::Image) -> Self {
        let name = image.name().clone();
        let open =
            Open { image: Kept::new(home, image), io: Kept::new(home, io), in_use: watch::Sender::new(()) };
        Self { home: Arc::clone(home), name, open: Mutex::new(&IMAGE, Some(Arc::new(open))) }
    }

    fn what(&self, verb: &'static str) -> What {
        What::rbd(verb, self.name.as_bytes())
    }

    fn run<T, F>(
        &self,
        py: Python<'_>,
        verb: &'static str,
        done: Done,
        operation: impl FnOnce(Arc<Open>) -> F,
    ) -> Returned
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let open = self.open.lock().clone();
        let open = open.ok_or_else(|| Failure::new(Errno::EINVAL, "it was closed"));
        let open = open.map_err(|failure| self.what(verb).error(py, failure))?;
        run(py, &self.home, self.what(verb), done, operation(open))
    }
}

/// The part of a range that lies within the image.
fn clipped(image: &loligo_rbd::Image, offset: u64, len: u64) -> Result<u64, Failure> {
    let size = image.size();
    if len > 0 && offset >= size {
        return Err(Failure::new(Errno::EINVAL, format!("offset {offset} lies behind the end, {size}")));
    }
    Ok(len.min(size - offset.min(size)))
}

#[pymethods]
impl Image {
    // The image.

    /// Closes the image when the operations under way have ended.
    #[pyo3(signature = (done=None))]
    fn close(&self, py: Python<'_>, done: Done) -> Returned {
        let open = self.open.lock().take();
        run(py, &self.home, self.what("close image"), done, async move {
            let Some(open) = open else { return Ok(()) };
            let mut ended = open.in_use.subscribe();
            let image = match Arc::try_unwrap(open) {
                Ok(open) => open.image,
                Err(shared) => {
                    // The last operation closes it as it ends; then the sender is gone.
                    drop(shared);
                    while ended.changed().await.is_ok() {}
                    return Ok(());
                }
            };
            image.into_inner().close().await?;
            Ok(())
        })
    }

    #[getter]
    fn is_open(&self) -> bool {
        self.open.lock().is_some()
    }

    #[getter]
    fn name(&self) -> String {
        text(&self.name)
    }

    /// Returns what the image tells of itself.
    #[pyo3(signature = (done=None))]
    fn info(&self, py: Python<'_>, done: Done) -> Returned {
        self.run(py, "read the header of image", done, |open| async move {
            open.image.refresh().await?;
            Ok(Info::of(&open))
        })
    }

    #[pyo3(signature = (size, allow_shrink, progress=None, done=None))]
    fn resize(
        &self,
        py: Python<'_>,
        size: u64,
        allow_shrink: bool,
        progress: Option<Py<PyAny>>,
        done: Done,
    ) -> Returned {
        let progress = Progress::new(&self.home, progress, done.as_ref());
        let shrink = if allow_shrink { Shrink::Allowed } else { Shrink::Refused };
        self.run(py, "resize image", done, |open| async move {
            progress.run(|tell| async move { open.image.resize_telling(size, shrink, tell).await }).await
        })
    }

    #[pyo3(signature = (features, is_on, done=None))]
    fn update_features(&self, py: Python<'_>, features: u64, is_on: bool, done: Done) -> Returned {
        self.run(py, "change the features of image", done, |open| async move {
            if is_on {
                open.image.enable_features(features).await?;
            } else {
                open.image.disable_features(features).await?;
            }
            Ok(())
        })
    }

    // Data.

    #[pyo3(signature = (offset, len, done=None))]
    fn read(&self, py: Python<'_>, offset: u64, len: u64, done: Done) -> Returned {
        self.run(py, "read image", done, |open| async move {
            let len = clipped(&open.image, offset, len)?;
            Ok(Data(open.image.read(offset, len).await?))
        })
    }

    /// Returns how many bytes were written: those before the end.
    #[pyo3(signature = (offset, data, done=None))]
    fn write(&self, py: Python<'_>, offset: u64, data: Data, done: Done) -> Returned {
        self.run(py, "write image", done, |open| async move {
            let len = clipped(&open.image, offset, data.0.len() as u64)?;
            let data = data.0.slice(..usize::try_from(len).unwrap_or(usize::MAX));
            open.image.write(offset, data).await?;
            Ok(len)
        })
    }

    #[pyo3(signature = (offset, len, done=None))]
    fn discard(&self, py: Python<'_>, offset: u64, len: u64, done: Done) -> Returned {
        self.run(py, "discard a range of image", done, |open| async move {
            let len = clipped(&open.image, offset, len)?;
            open.image.discard(offset, len).await?;
            Ok(len)
        })
    }

    #[pyo3(signature = (offset, len, thick, done=None))]
    fn write_zeroes(&self, py: Python<'_>, offset: u64, len: u64, thick: bool, done: Done) -> Returned {
        self.run(py, "write zeros to image", done, |open| async move {
            let len = clipped(&open.image, offset, len)?;
            if thick {
                write_zeros(&open.image, offset, len).await?;
            } else {
                open.image.write_zeroes(offset, len).await?;
            }
            Ok(len)
        })
    }

    #[pyo3(signature = (done=None))]
    fn flush(&self, py: Python<'_>, done: Done) -> Returned {
        self.run(py, "flush image", done, |open| async move { Ok(open.image.flush().await?) })
    }

    /// Returns the differences of a range from a snapshot, or from nothing: `[(offset, length, exists)]`.
    #[pyo3(signature = (offset, len, from_snapshot, whole_objects, done=None))]
    fn diff(
        &self,
        py: Python<'_>,
        offset: u64,
        len: u64,
        from_snapshot: Option<Text>,
        whole_objects: bool,
        done: Done,
    ) -> Returned {
        let grain = if whole_objects { Grain::Objects } else { Grain::Bytes };
        self.run(py, "compare image", done, |open| async move {
            let from = from_snapshot.map(|name| Name::from(name.0));
            let (mut changes, end) =
                (open.image.diff(from.as_ref(), grain).await?, offset.saturating_add(len));
            let mut found = Vec::new();
            while let Some(change) = changes.next().await {
                let change = change?;
                let (start, stop) = (change.offset.max(offset), (change.offset + change.len).min(end));
                if start >= end {
                    break;
                }
                if start < stop {
                    found.push((start, stop - start, change.exists));
                }
            }
            Ok(found)
        })
    }

    #[pyo3(signature = (block_bytes, progress=None, done=None))]
    fn sparsify(
        &self,
        py: Python<'_>,
        block_bytes: u64,
        progress: Option<Py<PyAny>>,
        done: Done,
    ) -> Returned {
        let progress = Progress::new(&self.home, progress, done.as_ref());
        self.run(py, "sparsify image", done, |open| async move {
            progress.run(|tell| async move { open.image.sparsify(block_bytes, tell).await }).await
        })
    }

    #[pyo3(signature = (progress=None, done=None))]
    fn rebuild_object_map(&self, py: Python<'_>, progress: Option<Py<PyAny>>, done: Done) -> Returned {
        let progress = Progress::new(&self.home, progress, done.as_ref());
        self.run(py, "rebuild the object map of image", done, |open| async move {
            progress.run(|tell| async move { open.image.rebuild_object_map(tell).await }).await
        })
    }

    // Snapshots.

    /// Returns the snapshots.
    #[pyo3(signature = (done=None))]
    fn snaps(&self, py: Python<'_>, done: Done) -> Returned {
        self.run(py, "list the snapshots of image", done, |open| async move {
            open.image.refresh().await?;
            let view = open.image.view();
            let mut found = Vec::with_capacity(view.snapshots.len());
            for snapshot in &view.snapshots {
                let group = open.image.group_snapshot(&snapshot.info.kind).await?;
                let group = group.map(|group| (group.pool.0, text(&group.group), text(&group.snapshot)));
                found.push(Snap::of(snapshot, group));
            }
            Ok(found)
        })
    }

    #[pyo3(signature = (name, done=None))]
    fn create_snap(&self, py: Python<'_>, name: Text, done: Done) -> Returned {
        self.run(py, "take a snapshot of image", done, |open| async move {
            Ok(open.image.create_snapshot(name.0).await?)
        })
    }

    #[pyo3(signature = (name, done=None))]
    fn remove_snap(&self, py: Python<'_>, name: Text, done: Done) -> Returned {
        self.run(py, "remove a snapshot of image", done, |open| async move {
            Ok(open.image.remove_snapshot(name.0).await?)
        })
    }

    #[pyo3(signature = (from, to, done=None))]
    fn rename_snap(&self, py: Python<'_>, from: Text, to: Text, done: Done) -> Returned {
        self.run(py, "rename a snapshot of image", done, |open| async move {
            Ok(open.image.rename_snapshot(from.0, to.0).await?)
        })
    }

    #[pyo3(signature = (name, is_on, done=None))]
    fn protect_snap(&self, py: Python<'_>, name: Text, is_on: bool, done: Done) -> Returned {
        self.run(py, "protect a snapshot of image", done, |open| async move {
            if is_on {
                open.image.protect_snapshot(name.0).await?;
            } else {
                open.image.unprotect_snapshot(name.0).await?;
            }
            Ok(())
        })
    }

    #[pyo3(signature = (name, progress=None, done=None))]
    fn roll_back(&self, py: Python<'_>, name: Text, progress: Option<Py<PyAny>>, done: Done) -> Returned {
        let progress = Progress::new(&self.home, progress, done.as_ref());
        self.run(py, "roll back image", done, |open| async move {
            progress.run(|tell| async move { open.image.roll_back(name.0, tell).await }).await
        })
    }

    /// Sets the largest number of snapshots; `None` for no limit.
    #[pyo3(signature = (limit, done=None))]
    fn limit_snaps(&self, py: Python<'_>, limit: Option<u64>, done: Done) -> Returned {
        self.run(py, "limit the snapshots of image", done, |open| async move {
            Ok(open.image.limit_snapshots(limit).await?)
        })
    }

    /// Returns the largest number of snapshots; 2^64 − 1 without a limit.
    #[pyo3(signature = (done=None))]
    fn snap_limit(&self, py: Python<'_>, done: Done) -> Returned {
        self.run(py, "read the limit of image", done, |open| async move {
            let out = open.io.exec(header(&open.image), "rbd", "snapshot_get_limit", &[]).await?;
            Ok(Reader::new(&out).u64()?)
        })
    }

    // Clones and copies.

    /// Returns pool id, pool, namespace, name, id, snapshot, snapshot's id, overlap, whether it is in the
    /// trash; `None` without a parent.
    #[pyo3(signature = (done=None))]
    fn parent(&self, py: Python<'_>, done: Done) -> Returned {
        self.run(py, "find the parent of image", done, |open| async move {
            open.image.refresh().await?;
            let Some(parent) = open.image.parent().await? else { return Ok(None) };
            let snapshot = open.image.view().parent.as_ref().map_or(SnapId(0), |spec| spec.snap);
            let pool = name_of(open.io.rados(), parent.pool).unwrap_or_default();
            let names = (text(&parent.namespace), text(&parent.image), parent.id, text(&parent.snapshot));
            Ok(Some((parent.pool.0, pool, names, snapshot.0, parent.overlap, parent.in_trash)))
        })
    }

    /// Returns the clones of a snapshot, or of all, and with `descendants` theirs as well: pool id, pool,
    /// namespace, name, id, whether it is in the trash.
    #[pyo3(signature = (snapshot, descendants, done=None))]
    fn children(&self, py: Python<'_>, snapshot: Option<Text>, descendants: bool, done: Done) -> Returned {
        self.run(py, "find the clones of image", done, |open| async move {
            let snapshot = snapshot.map(|name| Name::from(name.0));
            let mut found = open.image.children(snapshot.as_ref()).await?;
            if descendants {
                add_descendants(&open.io, &mut found).await?;
            }
            let child = |child: Child| {
                let pool = name_of(open.io.rados(), child.pool).unwrap_or_default();
                let (space, name) = (text(&child.namespace), text(&child.name));
                (child.pool.0, pool, space, name, child.id, child.in_trash)
            };
            Ok(found.into_iter().map(child).collect::<Vec<_>>())
        })
    }

    #[pyo3(signature = (progress=None, done=None))]
    fn flatten(&self, py: Python<'_>, progress: Option<Py<PyAny>>, done: Done) -> Returned {
        let progress = Progress::new(&self.home, progress, done.as_ref());
        self.run(py, "flatten image", done, |open| async move {
            progress.run(|tell| async move { open.image.flatten(tell).await }).await
        })
    }

    /// Copies the image; with `snapshots` all its snapshots as well.
    #[pyo3(signature = (to, name, options, snapshots, flatten, progress=None, done=None))]
    #[allow(clippy::too_many_arguments, reason = "as in librbd; the package gives them names")]
    fn copy(
        &self,
        py: Python<'_>,
        to: &Bound<'_, Pool>,
        name: Text,
        options: NewOptions,
        snapshots: bool,
        flatten: bool,
        progress: Option<Py<PyAny>>,
        done: Done,
    ) -> Returned {
        let progress = Progress::new(&self.home, progress, done.as_ref());
        let io = IoCtx::clone(&to.get().io);
        let ancestry = if flatten { Ancestry::Flattened } else { Ancestry::Kept };
        self.run(py, "copy image", done, |open| async move {
            let new = options.copy(&io).await?;
            let copying = progress.run(|tell| async move {
                if snapshots {
                    open.image.deep_copy(&io, name.0, new, ancestry, tell).await
                } else {
                    open.image.copy(&io, name.0, new, tell).await
                }
            });
            copying.await
        })
    }

    /// Returns the group of the image: pool id and name; `None` if it is in none.
    #[pyo3(signature = (done=None))]
    fn group(&self, py: Python<'_>, done: Done) -> Returned {
        self.run(py, "find the group of image", done, |open| async move {
            Ok(open.image.group().await?.map(|group| (group.pool.0, text(&group.name))))
        })
    }

    // Metadata, watchers, locks.

    #[pyo3(signature = (done=None))]
    fn metadata(&self, py: Python<'_>, done: Done) -> Returned {
        self.run(py, "read the metadata of image", done, |open| async move {
            let found = open.image.metadata().await?.into_iter();
            Ok(found.map(|(key, value)| (text(&key), Data(value))).collect::<Vec<_>>())
        })
    }

    #[pyo3(signature = (key, value, done=None))]
    fn set_metadata(&self, py: Python<'_>, key: Text, value: Data, done: Done) -> Returned {
        self.run(py, "set metadata of image", done, |open| async move {
            Ok(open.image.set_metadata(key.0, value.0).await?)
        })
    }

    #[pyo3(signature = (key, done=None))]
    fn remove_metadata(&self, py: Python<'_>, key: Text, done: Done) -> Returned {
        self.run(py, "remove metadata of image", done, |open| async move {
            Ok(open.image.remove_metadata(key.0).await?)
        })
    }

    /// Returns address, client's number and cookie of each client that has the image open.
    #[pyo3(signature = (done=None))]
    fn watchers(&self, py: Python<'_>, done: Done) -> Returned {
        self.run(py, "list the watchers of image", done, |open| async move {
            // This client's own watch is one of them.
            let found = open.io.watchers(header(&open.image)).await?.into_iter();
            Ok(found.map(|one| (one.addr.to_string(), one.name.num, one.cookie)).collect::<Vec<_>>())
        })
    }

    /// Takes the exclusive lock.
    #[pyo3(signature = (done=None))]
    fn acquire_lock(&self, py: Python<'_>, done: Done) -> Returned {
        self.run(py, "lock image", done, |open| async move { Ok(open.image.acquire_lock().await?) })
    }

    /// Returns whether the lock is exclusive, its tag, and its holders: client, cookie, address.
    #[pyo3(signature = (done=None))]
    fn lockers(&self, py: Python<'_>, done: Done) -> Returned {
        self.run(py, "list the holders of the lock of image", done, |open| async move {
            let info = open.image.lock_info().await?;
            let holder = |holder: loligo_rados::LockHolder| {
                (holder.client.to_string(), text(&holder.cookie), holder.addr.to_string())
            };
            let holders: Vec<_> = info.holders.into_iter().map(holder).collect();
            Ok((info.mode == Some(LockMode::Exclusive), text(&info.tag), holders))
        })
    }

    /// Locks the image as users do, with a tag together with others.
    #[pyo3(signature = (cookie, tag, done=None))]
    fn lock(&self, py: Python<'_>, cookie: Text, tag: Option<Text>, done: Done) -> Returned {
        self.run(py, "lock image", done, |open| async move {
            let tag = tag.map(|tag| Name::from(tag.0));
            Ok(open.image.lock_by_hand(cookie.0, tag.as_ref()).await?)
        })
    }

    #[pyo3(signature = (cookie, done=None))]
    fn unlock(&self, py: Python<'_>, cookie: Text, done: Done) -> Returned {
        self.run(
            py,
            "unlock image",
            done,
            |open| async move { Ok(open.image.unlock_by_hand(cookie.0).await?) },
        )
    }

    /// Takes a lock away from a client, such as `client.4123`, and blocks the client.
    #[pyo3(signature = (client, cookie, done=None))]
    fn break_lock(&self, py: Python<'_>, client: String, cookie: Text, done: Done) -> Returned {
        self.run(py, "break the lock of image", done, |open| async move {
            let num = client.strip_prefix("client.").and_then(|num| num.parse().ok());
            let num = num.ok_or_else(|| Failure::new(Errno::EINVAL, "a client is called client.NUMBER"))?;
            let client = EntityNum { kind: EntityType::CLIENT, num };
            Ok(open.image.break_lock(client, cookie.0, Evicted::Yes).await?)
        })
    }
}

/// The name of the header object.
fn header(image: &loligo_rbd::Image) -> String {
    match image.format() {
        Format::First => format!("{}.rbd", image.name()),
        Format::Second => format!("rbd_header.{}", image.id()),
    }
}

/// Writes zeros that take space.
async fn write_zeros(image: &loligo_rbd::Image, offset: u64, len: u64) -> Result<(), Failure> {
    /// The zeros that all pieces share.
    static ZEROS: [u8; 4 << 20] = [0; 4 << 20];
    let mut at = 0;
    while at < len {
        let piece = (len - at).min(ZEROS.len() as u64);
        let zeros = &ZEROS[..usize::try_from(piece).unwrap_or(ZEROS.len())];
        image.write(offset + at, bytes::Bytes::from_static(zeros)).await?;
        at += piece;
    }
    Ok(())
}

/// Adds the clones of clones, each once, whatever the cluster says.
async fn add_descendants(io: &IoCtx, found: &mut Vec<Child>) -> Result<(), Failure> {
    let mut seen: std::collections::BTreeSet<Child> = found.iter().cloned().collect();
    let mut next = 0;
    while let Some(child) = found.get(next).cloned() {
        next += 1;
        let io = io.rados().ioctx_by_id(child.pool).with_namespace(child.namespace.as_bytes());
        let image = loligo_rbd::Image::open_by_id(&io, &child.id, Mode::Header).await?;
        let more = image.children(None).await?;
        found.extend(more.into_iter().filter(|child| seen.insert(child.clone())));
    }
    Ok(())
}

/// What an image tells of itself.
#[derive(IntoPyObject)]
struct Info {
    id: String,
    old_format: bool,
    size: u64,
    order: u8,
    obj_size: u64,
    num_objs: u64,
    block_name_prefix: String,
    data_pool: i64,
    stripe_unit: u64,
    stripe_count: u64,
    features: u64,
    op_features: u64,
    flags: u64,
    overlap: u64,
    created: f64,
    accessed: f64,
    modified: f64,
    owns_lock: bool,
    migrates: bool,
}

impl Info {
    fn of(open: &Open) -> Self {
        let (image, view) = (&open.image, open.image.view());
        let layout = image.layout();
        let [created, accessed, modified] = view.times.map(|time| seconds(time.to_system()));
        Self {
            id: image.id().to_owned(),
            old_format: image.format() == Format::First,
            size: image.size(),
            order: image.order(),
            obj_size: 1 << image.order(),
            num_objs: image.size().div_ceil(layout.object_size()),
            block_name_prefix: image.block_name_prefix().to_owned(),
            data_pool: image.data_pool().unwrap_or(open.io.pool()).0,
            stripe_unit: layout.stripe_unit(),
            stripe_count: layout.stripe_count(),
            features: view.features,
            op_features: view.op_features,
            flags: view.flags,
            overlap: view.overlap.unwrap_or(0),
            created,
            accessed,
            modified,
            owns_lock: image.is_lock_owner(),
            migrates: view.migration.is_some(),
        }
    }
}

/// A snapshot of an image.
#[derive(IntoPyObject)]
struct Snap {
    id: u64,
    name: String,
    size: u64,
    protected: bool,
    taken: f64,
    /// 0: a user's; 1: a group's; 2: in the trash; 3: mirroring's.
    namespace: u32,
    /// Of a group's: pool, group's name, name of the group's snapshot.
    group: Option<(i64, String, String)>,
    /// Of one in the trash: its name before.
    original_name: Option<String>,
}

impl Snap {
    fn of(snapshot: &Snapshot, group: Option<(i64, String, String)>) -> Self {
        let info = &snapshot.info;
        let original_name = match &info.kind {
            SnapKind::Trash { name, .. } => Some(text(name)),
            _ => None,
        };
        Self {
            id: info.id.0,
            name: text(&info.name),
            size: info.size,
            protected: snapshot.protected,
            taken: seconds(info.taken.to_system()),
            namespace: info.kind.code(),
            group,
            original_name,
        }
    }
}
