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

/// Objects that are removed or truncated at a time.
const OBJECTS_UNDER_WAY: usize = 64;

/// The striped files of a pool and namespace, and how new ones are laid out. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Striper {
    io: IoCtx,
    layout: Layout,
    lock_time: Duration,
    mark: Option<(Vec<u8>, Vec<u8>)>,
}

impl Striper {
    /// Those of a pool; new files get the [default layout](Layout::default).
    pub fn new(io: IoCtx) -> Self {
        Self { io, layout: Layout::default(), lock_time: LOCK_TIME, mark: None }
    }

    /// The same, with locks that outlive a program that dies by this time, at least a second, instead of a
    /// minute. They are renewed three times as often.
    pub fn with_lock_time(self, lock_time: Duration) -> Self {
        Self { lock_time: lock_time.max(Duration::from_secs(1)), ..self }
    }

    /// The same, with this layout for new files.
    ///
    /// # Errors
    /// [`Error::NotForStock`]: stock programs read the numbers of a file's layout as signed ones of 32 bits.
    pub fn with_layout(self, layout: Layout) -> Result<Self, Error> {
        let signed_max = i32::MAX as u64;
        if layout.object_size().max(layout.stripe_count()) > signed_max {
            return Err(Error::NotForStock);
        }
        Ok(Self { layout, ..self })
    }

    /// The same; each file that it makes, cuts off (also to the size it has) or removes gets this attribute
    /// first: a new one together with its first object, others under their lock, before anything of them is
    /// lost. The caller removes it when the file is whole again, so that what a program leaves that dies in
    /// between can be told from a whole file.
    pub fn with_mark(self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { mark: Some((name.into(), value.into())), ..self }
    }

    /// The layout of new files.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The pool.
    pub fn ioctx(&self) -> &IoCtx {
        &self.io
    }

    /// Opens a file that exists. As long as it is open nobody can truncate or remove it. At a snapshot there
    /// is nothing to lock.
    ///
    /// # Errors
    /// ENOENT; [`Error::InUse`] while somebody truncates or removes it.
    pub async fn open(&self, file: impl AsRef<[u8]>) -> Result<File, Error> {
        let head = self.head(file.as_ref());
        let guard = match self.io.is_at_snapshot() {
            true => None,
            false => Some(head.lock(LockMode::Shared).await?),
        };
        self.opened(file.as_ref(), head, guard).await
    }

    /// Opens a file; makes an empty one if there is none.
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
                // Removed in between.
                Err(e) if e.is_not_found() => {}
                done => return done,
            }
        }
    }

    /// Makes an empty file and opens it.
    ///
    /// # Errors
    /// EEXIST if there is one, or anything else in the place of its first object.
    pub async fn create(&self, file: impl AsRef<[u8]>) -> Result<File, Error> {
        let head = self.head(file.as_ref());
        let guard = head.create(self.layout, self.mark.as_ref()).await?;
        Ok(File::new(self.direct(file.as_ref(), self.layout), head, Some(guard), 0))
    }

    /// Size, modification time and layout.
    ///
    /// # Errors
    /// ENOENT; [`Error::NotStriped`].
    pub async fn stat(&self, file: impl AsRef<[u8]>) -> Result<FileStat, Error> {
        self.head(file.as_ref()).stat().await
    }

    /// Size, modification time and layout, with the attributes that users gave the file, in one state of it.
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

    /// The cookies of those that have a file open, or truncate or remove it; also those of programs that were
    /// killed, until their locks are over.
    ///
    /// # Errors
    /// ENOENT.
    pub async fn lock_cookies(&self, file: impl AsRef<[u8]>) -> Result<Vec<Name>, Error> {
        self.head(file.as_ref()).lock_cookies().await
    }

    /// Sets a file's size: cuts it off, or extends it by a hole.
    ///
    /// Objects go first, backwards, and the size is changed last, so that nothing is left behind if that
    /// fails in between: the file is as long as it was then, with holes.
    ///
    /// # Errors
    /// ENOENT; [`Error::InUse`] while somebody has it open.
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
        // Also where nothing is left to be cut off: nobody else may take the file for whole from now on.
        if size <= old {
            self.mark(head).await?;
        }
        if size < old {
            let direct = self.direct(file, layout);
            // Objects of sets before the cut keep all they have.
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

    /// Removes a file: all objects backwards, the first one, with the lock, last.
    ///
    /// # Errors
    /// ENOENT; [`Error::InUse`] while somebody has it open. If it fails in between, what is left is the file,
    /// with holes.
    pub async fn remove(&self, file: impl AsRef<[u8]>) -> Result<(), Error> {
        let head = self.head(file.as_ref());
        let guard = head.lock(LockMode::Exclusive).await?;
        match self.remove_locked(file.as_ref(), &head).await {
            Ok(()) => {
                // The lock went with the object.
                guard.leave();
                Ok(())
            }
            Err(e) => {
                // Why it failed is of more interest than whether the lock could be given up.
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

    /// The names of the pool's striped files, in no order: of all objects that are called as a first one is.
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

/// Attributes that users give to files. They lie with the file's first object, so that `rados --striper` and
/// libradosstriper see and change the same ones; nobody needs the file's lock for them.
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
    /// The value of an attribute. As in libradosstriper, the file's [own](crate::is_striper_attribute) can be
    /// read, too.
    ///
    /// # Errors
    /// ENOENT: no such file; ENODATA: it has none of that name.
    pub async fn xattr(&self, file: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<Bytes, Error> {
        self.head(file.as_ref()).xattr(name.as_ref()).await
    }

    /// All attributes, by name, but for the file's [own](crate::is_striper_attribute).
    ///
    /// # Errors
    /// ENOENT.
    pub async fn xattrs(&self, file: impl AsRef<[u8]>) -> Result<BTreeMap<Vec<u8>, Bytes>, Error> {
        self.head(file.as_ref()).xattrs().await
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// ENOENT: no such file, where libradosstriper would make an object that is none.
    /// [`Error::OwnAttribute`]; what the OSDs refuse: E2BIG, ENAMETOOLONG.
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
    /// ENOENT: no such file; ENODATA: it has none of that name; [`Error::OwnAttribute`].
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

/// Makes an object shorter. The first one stays, empty, since it is the file's head; others go with their
/// last byte.
async fn cut_object(direct: &Direct, object: ObjectNo, len: u64) -> Result<(), Error> {
    if len == 0 && object != ObjectNo(0) {
        return remove_object(direct, object).await;
    }
    absent_is_fine(direct.ioctx().truncate(direct.name(object), len).await)
}

async fn remove_object(direct: &Direct, object: ObjectNo) -> Result<(), Error> {
    absent_is_fine(direct.ioctx().remove(direct.name(object)).await)
}

/// Of a file with holes not all objects are there.
fn absent_is_fine(done: Result<(), loligo_rados::Error>) -> Result<(), Error> {
    match done {
        Err(e) if e.is_not_found() => Ok(()),
        done => Ok(done?),
    }
}

/// Does many things, some at a time.
async fn all<F: Future<Output = Result<(), Error>>>(these: impl Iterator<Item = F>) -> Result<(), Error> {
    stream::iter(these).buffer_unordered(OBJECTS_UNDER_WAY).try_collect().await
}
