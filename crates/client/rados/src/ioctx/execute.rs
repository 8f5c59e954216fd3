//! Requests with everything that can be said of them, and everything that is answered.

use std::time::SystemTime;

use loligo_wire::UTime;
use loligo_wire::message::osd::{OsdFlags, OsdReply};

use super::{Answer, IoCtx, ReadOp, WriteOp};
use crate::Error;
use crate::error::Errno;

/// All that an OSD answered to a request, which may have failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// 0 or more, or the negative errno of the operation that failed; −(4095 + n) where a comparison of bytes
    /// found the first difference at byte n.
    pub result: i32,
    /// The object's version: what [`WriteOp::assert_version`] compares with.
    pub version: u64,
    /// What each operation answered. Those of a changing request answer something where it was asked for
    /// ([`WriteOptions::returning`]).
    pub answers: Vec<Answer>,
}

/// How a changing request is executed; the default is what [`IoCtx::operate`] does.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The object's new time of modification, instead of now.
    pub mtime: Option<SystemTime>,
    /// Whether operations answer with what they have to say, at most 64 bytes each
    /// (`osd_max_write_op_reply_len`).
    pub returning: bool,
    /// What to do when the cluster or the pool is full.
    pub when_full: WhenFull,
}

/// What a changing request does when the cluster, or its pool, has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Waits until there is room.
    #[default]
    Wait,
    /// Is tried: it fails with ENOSPC or EDQUOT unless it frees more than it takes.
    Try,
    /// Is executed all the same. Only those may who may do everything.
    Force,
}

impl WhenFull {
    /// What an OSD is told.
    pub(super) fn flags(self) -> OsdFlags {
        match self {
            Self::Wait => OsdFlags::empty(),
            Self::Try => OsdFlags::FULL_TRY,
            Self::Force => OsdFlags::FULL_FORCE,
        }
    }
}

impl Outcome {
    /// The error of the request, if it failed.
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

/// Requests whose version, results and failures are of interest.
impl IoCtx {
    /// Executes the operations of `op` on one object, all or none, and tells all that was answered: also if
    /// it failed.
    ///
    /// # Errors
    /// Only what kept the request from being answered.
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
        let mut request = self.request(oid.into(), op.into_ops(), mode)?;
        if let Some(mtime) = options.mtime {
            request.mtime = UTime::from_system(mtime);
        }
        self.submit(request).await.map(Outcome::from)
    }

    /// Executes the reading operations of `op` on one object, in one state of it, and tells all that was
    /// answered: also if it failed.
    ///
    /// # Errors
    /// Only what kept the request from being answered.
    pub async fn execute_read(&self, oid: impl Into<Vec<u8>>, op: ReadOp) -> Result<Outcome, Error> {
        let request = self.request(oid.into(), op.into_ops(), OsdFlags::READ)?;
        self.submit(request).await.map(Outcome::from)
    }
}
