//! Opening files.

use loligo_rados::Errno;
use loligo_wire::message::mds::{OpenArgs, RequestOp};

use super::Node;
use crate::error::Error;
use crate::file::{File, OpenOptions};
use crate::inode::{mode, regular_file, writable};
use crate::session::{Extra, Request};

impl Node {
    /// Opens the file.
    ///
    /// # Errors
    /// EISDIR for a directory; ELOOP for a symbolic link; EINVAL for what has no data, or if neither
    /// reading nor writing is asked for; EROFS to write in a snapshot.
    pub async fn open(&self, options: OpenOptions) -> Result<File, Error> {
        if !options.reads() && !options.writes() {
            return Err(Errno::EINVAL.into());
        }
        if self.inode.kind() == mode::SYMLINK {
            return Err(Errno::ELOOP.into());
        }
        regular_file(&self.inode)?;
        if options.writes() {
            writable(&self.inode)?;
        }
        self.fs.may_open(&self.inode, options).await?;
        if !self.inode.id.is_head() {
            // A file in a snapshot is read without asking: nobody changes it.
            return Ok(File::new(self.fs.clone(), self.inode.clone(), options));
        }
        let mut args = options.args();
        args.flags &= !(OpenArgs::CREAT | OpenArgs::EXCL);
        let request = Request {
            opens: Some(options.open_mode()),
            ..Request::about(&self.inode, RequestOp::Open(args))
        };
        let target = self.fs.call(request).await?.target;
        let opened = self.named("open", target)?;
        let file = File::new(self.fs.clone(), opened.inode, options);
        if options.truncates() {
            file.lose_ids().await?;
        }
        Ok(file)
    }

    /// Makes and opens a file of this directory; opens the one that has the name, unless the options ask
    /// for a new one. Returns whether it was made.
    ///
    /// # Errors
    /// EEXIST if a new one is asked for and the name is taken.
    pub async fn create(
        &self,
        name: impl AsRef<[u8]>,
        options: OpenOptions,
    ) -> Result<(Self, File, bool), Error> {
        let name = self.entry(name.as_ref())?;
        if !options.reads() && !options.writes() {
            return Err(Errno::EINVAL.into());
        }
        if let Err(read_only) = writable(&self.inode) {
            // What is there is told first.
            let is_taken = options.is_exclusive() && self.lookup(name).await.is_ok();
            return Err(if is_taken { Errno::EEXIST.into() } else { read_only.into() });
        }
        if let Some((node, file)) = self.open_for_user(name, options).await? {
            return Ok((node, file, false));
        }
        self.fs.may_create(&self.inode).await?;
        self.fs.room_for_name(&self.inode).await?;
        let mut args = options.args();
        args.flags |= OpenArgs::CREAT;
        let (mode, data) = self.fs.inherit(&self.inode, args.mode).await?;
        args.mode = mode;
        let request = Request {
            opens: Some(options.open_mode()),
            data,
            ..Request::in_dir(&self.inode, name, RequestOp::Create(args))
        };
        let done = self.fs.call(request).await?;
        let is_new = matches!(done.extra, Extra::Created);
        let node = self.named("create", done.target)?;
        let file = File::new(self.fs.clone(), node.inode.clone(), options);
        if !is_new {
            // Somebody else has made it meanwhile.
            self.fs.may_open(&node.inode, options).await?;
        }
        Ok((node, file, is_new))
    }

    /// Opens a file that exists, for a user who may be allowed less with it than the server allows this
    /// client. `None` if there is none, or if the user is one who may open all.
    async fn open_for_user(&self, name: &[u8], options: OpenOptions) -> Result<Option<(Self, File)>, Error> {
        if self.fs.may_all() {
            return Ok(None);
        }
        match self.lookup(name).await {
            Ok(_) if options.is_exclusive() => Err(Errno::EEXIST.into()),
            Ok(node) => {
                let file = node.open(options).await?;
                Ok(Some((node, file)))
            }
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }
}
