//! The striped files of a pool.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use loligo_rados::{Errno, IoCtx, LockGuard, LockMode, Name, ObjectList};

use crate::FILE_BYTES_MAX;
use crate::direct::Direct;
use crate::error::Error;
use crate::file::File;
use crate::head::{FileStat, Head, LOCK_TIME, is_striper_attribute};
use loligo_layout::{Layout, ObjectNo};
use loligo_layout::{ObjectNames, striped_file};

/// The most objects that are removed or truncated at a time.
const OBJECTS_UNDER_WAY: usize = 64;

/// The striped files of a pool and namespace, and the layout of new ones. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Striper {
    io: IoCtx,
    layout: Layout,
    lock_time: Duration,
    mark: Option<(Vec<u8>, Vec<u8>)>,
}

impl Striper {
    /// The striped files of a pool; new files get the [default layout](Layout::default).
    pub fn new(io: IoCtx) -> Self {
        Self { io, layout: Layout::default(), lock_time: LOCK_TIME, mark: None }
    }

    /// Sets how long locks outlive a program that dies: at least a second, by default a minute. Locks
    /// are renewed three times within this time.
    pub fn with_lock_time(self, lock_time: Duration) -> Self {
        Self { lock_time: lock_time.max(Duration::from_secs(1)), ..self }
    }

    /// Sets the layout of new files.
    ///
    /// # Errors
    /// [`Error::NotForStock`]: stock programs read the numbers of a file's layout as signed 32-bit
    /// integers.
    pub fn with_layout(self, layout: Layout) -> Result<Self, Error> {
        let signed_max = i32::MAX as u64;
        if layout.object_size().max(layout.stripe_count()) > signed_max {
            return Err(Error::NotForStock);
        }
        Ok(Self { layout, ..self })
    }

    /// Sets an attribute as a mark on each file that this striper creates, truncates (also to its
    /// current size) or removes. A new file gets the mark together with its first object; an existing
    /// file gets it under its lock, before any of its data is lost. The caller removes the mark when the
    /// file is complete again. A file left incomplete by a program that died can thus be distinguished
    /// from a complete one.
    pub fn with_mark(self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { mark: Some((name.into(), value.into())), ..self }
    }

    /// The layout of new files.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The pool and namespace.
    pub fn ioctx(&self) -> &IoCtx {
        &self.io
    }

    /// Opens an existing file. Nobody can truncate or remove it while it is open. At a snapshot no lock
    /// is taken.
    ///
    /// # Errors
    /// ENOENT; [`Error::InUse`] while another client truncates or removes the file.
    pub async fn open(&self, file: impl AsRef<[u8]>) -> Result<File, Error> {
        let head = self.head(file.as_ref());
        let guard = match self.io.is_at_snapshot() {
            true => None,
            false => Some(head.lock(LockMode::Shared).await?),
        };
        self.opened(file.as_ref(), head, guard).await
    }

    /// Opens a file; creates an empty one if it does not exist.
    ///
    /// # Errors
    /// As [`Striper::open`].
    pub async fn open_or_create(&self, file: impl AsRef<[u8]>) -> Result<File, Error> {
        loop {
            match self.create(file.as_ref()).await {
                Err(Error::Rados(e)) if e.errno() == Errno::EEXIST => {}
                done => return done,
            }
            match self.open(file.as_ref()).await {
                // The file was removed in between.
                Err(e) if e.is_not_found() => {}
                done => return done,
            }
        }
    }

    /// Creates an empty file and opens it.
    ///
    /// # Errors
    /// EEXIST if the file exists, or any other object has the name of its first object.
    pub async fn create(&self, file: impl AsRef<[u8]>) -> Result<File, Error> {
        let head = self.head(file.as_ref());
        let guard = head.create(self.layout, self.mark.as_ref()).await?;
        Ok(File::new(self.direct(file.as_ref(), self.layout), head, Some(guard), 0))
    }

    /// Returns the file's size, modification time and layout.
    ///
    /// # Errors
    /// ENOENT; [`Error::NotStriped`].
    pub async fn stat(&self, file: impl AsRef<[u8]>) -> Result<FileStat, Error> {
        self.head(file.as_ref()).stat().await
    }

    /// Returns the file's size, modification time and layout, and the attributes set by users, all read
    /// atomically.
    ///
    /// # Errors
    /// As [`Striper::stat`].
    pub async fn stat_with_xattrs(
        &self,
        file: impl AsRef<[u8]>,
    ) -> Result<(FileStat, BTreeMap<Vec<u8>, Bytes>), Error> {
        let (stat, all) = self.head(file.as_ref()).stat_with_xattrs().await?;
        let users = all.into_iter().filter(|(name, _)| !is_striper_attribute(name));
        Ok((stat, users.map(|(name, value)| (name.to_vec(), value)).collect()))
    }

    /// The lock cookies of the clients that have a file open, or truncate or remove it. Includes those
    /// of killed programs until their locks expire.
    ///
    /// # Errors
    /// ENOENT.
    pub async fn lock_cookies(&self, file: impl AsRef<[u8]>) -> Result<Vec<Name>, Error> {
        self.head(file.as_ref()).lock_cookies().await
    }

    /// Sets a file's size: truncates it, or extends it by a hole.
    ///
    /// Objects are truncated first, in descending order, and the size is changed last. If the operation
    /// fails in between, no orphaned object remains: the file has its old size, with holes.
    ///
    /// # Errors
    /// ENOENT; [`Error::InUse`] while another client has the file open.
    pub async fn truncate(&self, file: impl AsRef<[u8]>, size: u64) -> Result<(), Error> {
        if size > FILE_BYTES_MAX {
            return Err(Error::TooLong);
        }
        let head = self.head(file.as_ref());
        let guard = head.lock(LockMode::Exclusive).await?;
        let done = self.truncate_locked(file.as_ref(), &head, size).await;
        let released = guard.release().await;
        done?;
        Ok(released?)
    }

    async fn truncate_locked(&self, file: &[u8], head: &Head, size: u64) -> Result<(), Error> {
        let FileStat { size: old, layout, .. } = head.stat().await?;
        // Marked also if nothing is left to be cut off: from now on no client may take the file for
        // complete.
        if size <= old {
            self.mark(head).await?;
        }
        if size < old {
            let direct = self.direct(file, layout);
            // Objects of sets before the cut keep all their data.
            let first = size / layout.set_size() * layout.stripe_count();
            let cut = (first..layout.object_count(old)).rev().map(|object| {
                let (direct, object) = (&direct, ObjectNo(object));
                let (is, was) = (layout.object_len(object, size), layout.object_len(object, old));
                async move { if is < was { cut_object(direct, object, is).await } else { Ok(()) } }
            });
            all(cut).await?;
        }
        if size == old { Ok(()) } else { head.set_size(size).await }
    }

    /// Removes a file: all objects in descending order. The first object, which holds the lock, is the
    /// last.
    ///
    /// # Errors
    /// ENOENT; [`Error::InUse`] while another client has the file open. If the operation fails in
    /// between, the file remains, with holes.
    pub async fn remove(&self, file: impl AsRef<[u8]>) -> Result<(), Error> {
        let head = self.head(file.as_ref());
        let guard = head.lock(LockMode::Exclusive).await?;
        match self.remove_locked(file.as_ref(), &head).await {
            Ok(()) => {
                // The lock was removed with the object.
                guard.leave();
                Ok(())
            }
            Err(e) => {
                // The error of the removal is more useful than that of the release.
                let _ = guard.release().await;
                Err(e)
            }
        }
    }

    async fn remove_locked(&self, file: &[u8], head: &Head) -> Result<(), Error> {
        let FileStat { size, layout, .. } = head.stat().await?;
        self.mark(head).await?;
        let direct = self.direct(file, layout);
        all((1..layout.object_count(size)).rev().map(|object| remove_object(&direct, ObjectNo(object))))
            .await?;
        Ok(self.io.remove(head.name().to_vec()).await?)
    }

    async fn mark(&self, head: &Head) -> Result<(), Error> {
        match &self.mark {
            Some((name, value)) => head.change_xattr(name, |op| op.set_xattr(name, value)).await,
            None => Ok(()),
        }
    }

    /// Lists the pool's striped files, in no order: every object that is named as a first object counts
    /// as a file.
    pub fn files(&self) -> FileList {
        FileList { objects: self.io.objects() }
    }

    async fn opened(&self, file: &[u8], head: Head, guard: Option<LockGuard>) -> Result<File, Error> {
        match head.stat().await {
            Ok(FileStat { size, layout, .. }) => Ok(File::new(self.direct(file, layout), head, guard, size)),
            Err(e) => {
                if let Some(guard) = guard {
                    let _ = guard.release().await;
                }
                Err(e)
            }
        }
    }

    fn direct(&self, file: &[u8], layout: Layout) -> Direct {
        Direct::new(self.io.clone(), layout, ObjectNames::Striper(file.to_vec()))
    }

    fn head(&self, file: &[u8]) -> Head {
        let name = ObjectNames::Striper(file.to_vec()).name(ObjectNo(0));
        Head::new(self.io.clone(), name, self.lock_time)
    }
}

/// Attributes that users set on files. They are stored at the file's first object, where libradosstriper
/// and `rados --striper` see and change the same ones. Accessing them does not require the file's lock.
///
/// ```no_run
/// # async fn example(striper: loligo_stripe::Striper) -> Result<(), loligo_stripe::Error> {
/// striper.set_xattr("a film", "year", "1927").await?;
/// assert_eq!(striper.xattr("a film", "year").await?, "1927");
/// for (name, value) in striper.xattrs("a film").await? {
///     println!("{}: {} bytes", name.escape_ascii(), value.len());
/// }
/// striper.remove_xattr("a film", "year").await?;
/// # Ok(())
/// # }
/// ```
impl Striper {
    /// The value of an attribute. As in libradosstriper, the file's [own](crate::is_striper_attribute)
    /// attributes can be read, too.
    ///
    /// # Errors
    /// ENOENT: the file does not exist; ENODATA: it has no such attribute.
    pub async fn xattr(&self, file: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<Bytes, Error> {
        self.head(file.as_ref()).xattr(name.as_ref()).await
    }

    /// All attributes, by name, except for the file's [own](crate::is_striper_attribute).
    ///
    /// # Errors
    /// ENOENT.
    pub async fn xattrs(&self, file: impl AsRef<[u8]>) -> Result<BTreeMap<Vec<u8>, Bytes>, Error> {
        self.head(file.as_ref()).xattrs().await
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// ENOENT: the file does not exist. (libradosstriper would create an object that is not a striped
    /// file.) [`Error::OwnAttribute`]; errors of the OSDs: E2BIG, ENAMETOOLONG.
    pub async fn set_xattr(
        &self,
        file: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        let (name, value) = (name.as_ref(), value.as_ref());
        self.head(file.as_ref()).change_xattr(name, |op| op.set_xattr(name, value)).await
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// ENOENT: the file does not exist; ENODATA: it has no such attribute; [`Error::OwnAttribute`].
    pub async fn remove_xattr(&self, file: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<(), Error> {
        let name = name.as_ref();
        self.head(file.as_ref()).change_xattr(name, |op| op.remove_xattr(name)).await
    }
}

/// A listing of striped files.
#[derive(Debug)]
pub struct FileList {
    objects: ObjectList,
}

impl FileList {
    /// The next file's name; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        while let Some(object) = self.objects.next().await? {
            if let Some((file, ObjectNo(0))) = striped_file(&object.oid) {
                return Ok(Some(file.to_vec()));
            }
        }
        Ok(None)
    }
}

/// Truncates an object. An object left empty is removed, except for the first one, which is the file's
/// head.
async fn cut_object(direct: &Direct, object: ObjectNo, len: u64) -> Result<(), Error> {
    if len == 0 && object != ObjectNo(0) {
        return remove_object(direct, object).await;
    }
    absent_is_fine(direct.ioctx().truncate(direct.name(object), len).await)
}

async fn remove_object(direct: &Direct, object: ObjectNo) -> Result<(), Error> {
    absent_is_fine(direct.ioctx().remove(direct.name(object)).await)
}

/// Treats a missing object as success: a file with holes does not have all objects.
fn absent_is_fine(done: Result<(), loligo_rados::Error>) -> Result<(), Error> {
    match done {
        Err(e) if e.is_not_found() => Ok(()),
        done => Ok(done?),
    }
}

/// Runs many operations, `OBJECTS_UNDER_WAY` at a time.
async fn all<F: Future<Output = Result<(), Error>>>(these: impl Iterator<Item = F>) -> Result<(), Error> {
    stream::iter(these).buffer_unordered(OBJECTS_UNDER_WAY).try_collect().await
}
