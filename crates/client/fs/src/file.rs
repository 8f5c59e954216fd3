//! Open files: their data, read and written without a lock, all objects of one I/O at once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use loligo_rados::Errno;
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{ClientSession, OpenArgs, RequestOp, SessionOp};
use loligo_wire::{Caps, UTime};

use crate::data::Objects;
use crate::error::Error;
use crate::inode::Inode;
use crate::mds::missing;
use crate::metadata::Metadata;
use crate::mount::FileSystem;
use crate::names::{regular_file, writable};
use crate::session::Request;
use crate::walk::Last;

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    create: bool,
    exclusive: bool,
    truncate: bool,
    mode: Option<u32>,
}

impl OpenOptions {
    /// Neither to read nor to write: at least one of both must be asked for.
    pub fn new() -> Self {
        Self::default()
    }

    /// To read.
    pub fn read(self) -> Self {
        Self { read: true, ..self }
    }

    /// To write.
    pub fn write(self) -> Self {
        Self { write: true, ..self }
    }

    /// Makes the file if there is none.
    pub fn create(self) -> Self {
        Self { create: true, ..self }
    }

    /// Makes the file, and fails with EEXIST if there is one.
    pub fn create_new(self) -> Self {
        Self { create: true, exclusive: true, ..self }
    }

    /// Makes the file empty.
    pub fn truncate(self) -> Self {
        Self { truncate: true, ..self }
    }

    /// The permissions of a new file; 0644 otherwise.
    pub fn mode(self, permissions: u32) -> Self {
        Self { mode: Some(permissions), ..self }
    }

    fn args(self) -> OpenArgs {
        let access = match (self.read, self.write) {
            (true, true) => OpenArgs::RDWR,
            (false, true) => OpenArgs::WRONLY,
            _ => 0,
        };
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let flags = access
            | flag(self.create, OpenArgs::CREAT)
            | flag(self.exclusive, OpenArgs::EXCL)
            | flag(self.truncate, OpenArgs::TRUNC);
        OpenArgs {
            flags,
            mode: crate::inode::mode::regular(self.mode.unwrap_or(0o644)),
            pool: -1,
            mask: Caps::STAT,
            ..OpenArgs::default()
        }
    }
}

/// An open file. Reads and writes of several tasks go on at the same time: no lock is held during an I/O.
///
/// Closed by [`File::close`], or when it is dropped.
pub struct File {
    fs: FileSystem,
    inode: Arc<Inode>,
    options: OpenOptions,
    is_closed: AtomicBool,
    /// Held for the time of an append: the next one begins where it ends.
    appends: tokio::sync::Mutex<()>,
}

impl FileSystem {
    /// Opens a file. Symbolic links are followed.
    ///
    /// # Errors
    /// EISDIR for a directory; EINVAL for what has no data, or if neither reading nor writing is asked
    /// for.
    pub async fn open(&self, path: impl AsRef<[u8]>, options: OpenOptions) -> Result<File, Error> {
        let path = path.as_ref();
        if !options.read && !options.write {
            return Err(Errno::EINVAL.into());
        }
        let existing = match options.create {
            true => self.created(path, options).await?,
            false => Err(self.core.walk(path, Last::Follow).await?),
        };
        let inode = match existing {
            Ok(opened) => opened,
            Err(found) => self.opened(&found, options).await?,
        };
        Ok(File {
            fs: self.clone(),
            inode,
            options,
            is_closed: AtomicBool::new(false),
            appends: tokio::sync::Mutex::new(()),
        })
    }

    /// Makes and opens a file, or opens the existing one. Returns the inode opened, or, where the name is
    /// a symbolic link, what it leads to, not opened.
    async fn created(
        &self,
        path: &[u8],
        options: OpenOptions,
    ) -> Result<Result<Arc<Inode>, Arc<Inode>>, Error> {
        let core = &self.core;
        let mut path = path.to_vec();
        // A link may lead to a name that does not exist.
        for _ in 0..40 {
            let (dir, name) = core.walk_to_parent(&path).await.map_err(|e| match e {
                // The root, and what ends with `..`, are directories.
                Error::Os(Errno::EEXIST) => Error::Os(Errno::EISDIR),
                other => other,
            })?;
            match core.lookup(&dir, &name).await {
                Ok(_) if options.exclusive => return Err(Errno::EEXIST.into()),
                Ok(link) if link.kind() == crate::inode::mode::SYMLINK => {
                    let target = core.link_target(&link).await?;
                    path = match target.first() {
                        Some(b'/') => target,
                        _ => [
                            crate::path::parent_and_name(&path).map_or(&b""[..], |(dir, _)| dir),
                            b"/",
                            &target,
                        ]
                        .concat(),
                    };
                    continue;
                }
                Ok(found) => return Ok(Err(found)),
                Err(e) if e.is_not_found() => {}
                Err(e) => return Err(e),
            }
            writable(&dir)?;
            let opens = Some((options.read, options.write));
            let op = RequestOp::Create(options.args());
            let done = core.call(Request { opens, ..Request::in_dir(&dir, &name, op) }).await?;
            return done.target.map(Ok).ok_or_else(|| missing("create", 0));
        }
        Err(Errno::ELOOP.into())
    }

    /// Opens an existing file.
    async fn opened(&self, found: &Arc<Inode>, options: OpenOptions) -> Result<Arc<Inode>, Error> {
        regular_file(found)?;
        if options.write {
            writable(found)?;
        }
        if !found.id.is_head() {
            // A file in a snapshot is read without asking: nobody changes it.
            found.known().caps.opened(options.read, false);
            return Ok(Arc::clone(found));
        }
        let mut args = options.args();
        args.flags &= !(OpenArgs::CREAT | OpenArgs::EXCL);
        let request = Request {
            opens: Some((options.read, options.write)),
            ..Request::about(found, RequestOp::Open(args))
        };
        let done = self.core.call(request).await?;
        done.target.ok_or_else(|| missing("open", 0))
    }
}

impl File {
    /// Describes the file.
    pub async fn stat(&self) -> Result<Metadata, Error> {
        self.fs.core.refresh(&self.inode, Caps::STAT).await?;
        let known = self.inode.known();
        Ok(Metadata::of(self.inode.id, &known.attrs))
    }

    /// Reads up to `len` bytes at an offset: fewer only at the file's end.
    ///
    /// # Errors
    /// EBADF if the file is not open to read.
    pub async fn read_at(&self, offset: u64, len: u64) -> Result<Bytes, Error> {
        if !self.options.read || self.is_closed.load(Ordering::Acquire) {
            return Err(Errno::EBADF.into());
        }
        let core = &self.fs.core;
        let end = offset.checked_add(len).ok_or(Errno::EINVAL)?;
        if !self.inode.id.is_head() {
            return self.read_now(offset, len).await;
        }
        // The size is asked for first: while the data is being read, the server could not change it.
        self.fs.core.know_size(&self.inode, end).await?;
        let reading = core.acquire(&self.inode, Caps::FILE_RD, None).await?;
        let data = self.read_now(offset, len).await;
        drop(reading);
        data
    }

    async fn read_now(&self, offset: u64, len: u64) -> Result<Bytes, Error> {
        let (objects, size, inline) = {
            let size_and_inline = {
                let known = self.inode.known();
                (known.attrs.size, known.attrs.inline.clone())
            };
            (self.objects()?, size_and_inline.0, size_and_inline.1)
        };
        let len = len.min(size.saturating_sub(offset));
        if len == 0 {
            return Ok(Bytes::new());
        }
        if let Some(inline) = inline {
            let begin = (offset as usize).min(inline.len());
            let mut data = inline[begin..].to_vec();
            data.resize(len as usize, 0);
            return Ok(data.into());
        }
        objects.read(offset, len).await
    }

    /// Writes at an offset: all objects at once. A write beyond the file's end extends it.
    ///
    /// # Errors
    /// EBADF if the file is not open to write; EFBIG beyond the largest size; ENOSPC if the pool is full.
    /// What lies before the first byte that failed is written.
    pub async fn write_at(&self, offset: u64, data: impl Into<Bytes>) -> Result<(), Error> {
        let data = data.into();
        if !self.options.write || self.is_closed.load(Ordering::Acquire) {
            return Err(Errno::EBADF.into());
        }
        if data.is_empty() {
            return Ok(());
        }
        let core = &self.fs.core;
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::EFBIG)?;
        let max = core.mds_map().map_or(u64::MAX, |map| map.max_file_size);
        if end > max {
            return Err(Errno::EFBIG.into());
        }
        let writing = core.acquire(&self.inode, Caps::FILE_WR, Some(end)).await?;
        if self.inode.known().attrs.inline.is_some() {
            // Only file systems with the option `inline_data` have such files.
            return Err(Errno::EOPNOTSUPP.into());
        }
        let done = self.objects()?.write(offset, data).await;
        let (written, failed) = match done {
            Ok(()) => (end, None),
            Err(failed) => (failed.at.max(offset), Some(failed.why)),
        };
        if written > offset {
            self.extended(written);
        }
        drop(writing);
        failed.map_or(Ok(()), Err)
    }

    /// Writes at the file's end. Appends through one `File` follow one another; another client's may come
    /// in between, before or after, as in a stock client.
    pub async fn append(&self, data: impl Into<Bytes>) -> Result<u64, Error> {
        let _turn = self.appends.lock().await;
        self.fs.core.know_size(&self.inode, u64::MAX).await?;
        let at = self.inode.known().attrs.size;
        self.write_at(at, data).await?;
        Ok(at)
    }

    /// Makes a range read as zeros, and gives back the room of whole objects' parts. The size stays.
    pub async fn punch_hole(&self, offset: u64, len: u64) -> Result<(), Error> {
        if !self.options.write || self.is_closed.load(Ordering::Acquire) {
            return Err(Errno::EBADF.into());
        }
        let core = &self.fs.core;
        core.know_size(&self.inode, u64::MAX).await?;
        let writing = core.acquire(&self.inode, Caps::FILE_WR, None).await?;
        let size = self.inode.known().attrs.size;
        let len = len.min(size.saturating_sub(offset));
        if len > 0 {
            self.objects()?.zero(offset, len).await?;
            self.extended(0);
        }
        drop(writing);
        Ok(())
    }

    /// Sets the file's size.
    pub async fn truncate(&self, size: u64) -> Result<(), Error> {
        if !self.options.write || self.is_closed.load(Ordering::Acquire) {
            return Err(Errno::EBADF.into());
        }
        self.fs.truncate_inode(&self.inode, size).await
    }

    /// Waits until the data and the attributes are durable.
    ///
    /// # Errors
    /// Something written earlier was lost; told once.
    pub async fn sync(&self) -> Result<(), Error> {
        let core = &self.fs.core;
        core.send_due(&self.inode, true);
        let waits = self.inode.known().unconfirmed > 0;
        if waits {
            for session in core.all_sessions() {
                session.send(Msg::new(&ClientSession::new(SessionOp::RequestFlushMdLog, 0)));
            }
        }
        core.settled(&self.inode).await
    }

    /// Closes the file.
    ///
    /// # Errors
    /// As [`File::sync`], for what is known by now: closing does not wait.
    pub async fn close(self) -> Result<(), Error> {
        self.give_up();
        let failed = self.inode.known().failed.take();
        failed.map_or(Ok(()), |errno| Err(errno.into()))
    }

    fn give_up(&self) {
        if !self.is_closed.swap(true, Ordering::AcqRel) {
            self.fs.core.closed(&self.inode, self.options.read, self.options.write);
        }
    }

    /// Returns the file's objects, as its attributes and snapshots are now.
    fn objects(&self) -> Result<Objects, Error> {
        let core = &self.fs.core;
        let known = self.inode.known();
        let io = core.rados.ioctx_by_id(known.attrs.layout.pool);
        let id = self.inode.id;
        let objects = Objects::new(&io, id.ino, &known.attrs, &core.realms.context(known.realm))?;
        Ok(if id.is_head() { objects } else { objects.at_snapshot(id.snap) })
    }

    /// Notes that data was written up to `end`.
    fn extended(&self, end: u64) {
        let asks = {
            let mut known = self.inode.known();
            let attrs = &mut known.attrs;
            let now = UTime::now();
            attrs.size = attrs.size.max(end);
            (attrs.mtime, attrs.ctime) = (attrs.mtime.max(now), attrs.ctime.max(now));
            attrs.change_attr += 1;
            // Before the room is used up, the server learns the size and gives more.
            let asks = attrs.max_size > 0 && end > attrs.max_size / 2;
            known.caps.mark_dirty(Caps::FILE_WR);
            asks
        };
        if asks {
            self.fs.core.send_due(&self.inode, true);
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("inode", &self.inode)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl crate::core::Core {
    /// Makes sure that a file's size is known, if `end` is beyond what is known of it: another client may
    /// have extended it.
    pub(crate) async fn know_size(&self, inode: &Arc<Inode>, end: u64) -> Result<(), Error> {
        let is_known = {
            let known = inode.known();
            let vouched = known.issued(self.now_ms()).intersects(Caps::FILE_SHARED | Caps::FILE_EXCL);
            vouched || end <= known.attrs.size
        };
        if is_known { Ok(()) } else { self.ask_attrs(inode, Caps::FILE_SHARED).await }
    }
}
