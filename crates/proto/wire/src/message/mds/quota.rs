//! Quotas of directories ([`ClientQuota`]). Clients enforce them; the server only reports usage.

use crate::message::{Data, Header, Message};
use crate::{Decode, DecodeError, Encode, Ino, Reader, UTime, Writer};

/// The limits of a directory (`quota_info_t`); 0 means "no limit".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Bytes in all files below the directory.
    pub max_bytes: i64,
    /// Files and directories below the directory.
    pub max_files: i64,
}

impl Quota {
    /// Whether there is a limit.
    pub fn is_set(&self) -> bool {
        self.max_bytes > 0 || self.max_files > 0
    }
}

impl Encode for Quota {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.i64(self.max_bytes);
            w.i64(self.max_files);
        });
    }
}

impl Decode for Quota {
    const MIN_LEN: usize = 22;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("quota_info_t", 1, 1, |r, _| Ok(Self { max_bytes: r.i64()?, max_files: r.i64()? }))
    }
}

/// A server reports the usage of a directory with a quota to clients with capabilities below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientQuota {
    /// The directory.
    pub ino: Ino,
    /// The newest change below it.
    pub rctime: UTime,
    /// Bytes in files below it.
    pub rbytes: i64,
    /// Files below it.
    pub rfiles: i64,
    /// Directories below it, and itself.
    pub rsubdirs: i64,
    /// Its limits.
    pub quota: Quota,
}

impl Message for ClientQuota {
    const NAME: &'static str = "client_quota";
    const KIND: u16 = 0x314;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.ino);
        w.put(&self.rctime);
        w.i64(self.rbytes);
        w.i64(self.rfiles);
        w.i64(self.rsubdirs);
        w.put(&self.quota);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        Ok(Self {
            ino: r.get()?,
            rctime: r.get()?,
            rbytes: r.i64()?,
            rfiles: r.i64()?,
            rsubdirs: r.i64()?,
            quota: r.get()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Msg;

    #[test]
    fn usage_is_written_field_by_field() {
        let body = ClientQuota {
            ino: Ino(0x1000),
            rctime: UTime { sec: 1, nsec: 2 },
            rbytes: 3,
            rfiles: 4,
            rsubdirs: 5,
            quota: Quota { max_bytes: 6, max_files: 0 },
        };
        let msg = Msg::new(&body);
        assert_eq!(msg.front.len(), 8 + 8 + 24 + 22);
        assert_eq!(&msg.front[40..], b"\x01\x01\x10\0\0\0\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(msg.open(), Ok(body));
        assert!(body.quota.is_set() && !Quota::default().is_set());
    }
}
