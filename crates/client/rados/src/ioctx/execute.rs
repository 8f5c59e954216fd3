//! Requests with all options, and with full replies.

use std::time::SystemTime;

use loligo_wire::UTime;
use loligo_wire::message::osd::{OsdFlags, OsdReply};

use super::{Answer, IoCtx, ReadOp, WriteOp};
use crate::Error;
use crate::error::Errno;

/// An OSD's full reply to a request, which may have failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// 0 or more, or the negative errno of the failed operation; −(4095 + n) if a comparison of bytes
    /// found the first difference at byte n.
    pub result: i32,
    /// The object's version, which [`WriteOp::assert_version`] compares.
    pub version: u64,
    /// The result of each operation. Operations of a write have an output only if it was requested
    /// ([`WriteOptions::returning`]).
    pub answers: Vec<Answer>,
}

/// Options for executing a write; the default is the behaviour of [`IoCtx::operate`].
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The object's new modification time, instead of the current time.
    pub mtime: Option<SystemTime>,
    /// Whether operations return their outputs, at most 64 bytes each (`osd_max_write_op_reply_len`).
    pub returning: bool,
    /// What the write does if the cluster or the pool is full.
    pub when_full: WhenFull,
}

/// What a write does if the cluster or its pool is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Waits until there is room.
    #[default]
    Wait,
    /// Tries: fails with ENOSPC or EDQUOT unless the write frees more space than it takes.
    Try,
    /// Writes in spite of that. Requires a key with full capabilities.
    Force,
}

impl WhenFull {
    /// Returns the flags to send.
    pub(super) fn flags(self) -> OsdFlags {
        match self {
            Self::Wait => OsdFlags::empty(),
            Self::Try => OsdFlags::FULL_TRY,
            Self::Force => OsdFlags::FULL_FORCE,
        }
    }
}

impl Outcome {
    /// Returns the error of the request, if it failed.
    pub fn errno(&self) -> Option<Errno> {
        Errno::from_result(self.result)
    }
}

impl From<OsdReply> for Outcome {
    fn from(reply: OsdReply) -> Self {
        let answers = reply.outs.into_iter().map(Answer::from).collect();
        Self { result: reply.result, version: reply.user_version, answers }
    }
}

/// Requests that return the version, all results and the failure.
impl IoCtx {
    /// Executes the operations of `op` on one object atomically: all or none. Returns the full reply,
    /// also if the request failed.
    ///
    /// # Errors
    /// Only errors that prevented a reply.
    pub async fn execute(
        &self,
        oid: impl Into<Vec<u8>>,
        op: WriteOp,
        options: WriteOptions,
    ) -> Result<Outcome, Error> {
        let mut mode = OsdFlags::WRITE;
        if options.returning {
            mode |= OsdFlags::RETURNVEC;
        }
        mode |= options.when_full.flags();
        let mut request = self.build_request(oid.into(), op.into_ops(), mode)?;
        if let Some(mtime) = options.mtime {
            request.mtime = UTime::from_system(mtime);
        }
        self.reply_to(request).await.map(Outcome::from)
    }

    /// Executes the reads of `op` on one state of one object. Returns the full reply, also if the
    /// request failed.
    ///
    /// # Errors
    /// Only errors that prevented a reply.
    pub async fn execute_read(&self, oid: impl Into<Vec<u8>>, op: ReadOp) -> Result<Outcome, Error> {
        let request = self.build_request(oid.into(), op.into_ops(), OsdFlags::READ)?;
        self.reply_to(request).await.map(Outcome::from)
    }
}
