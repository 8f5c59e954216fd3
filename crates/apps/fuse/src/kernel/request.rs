//! Requests of the kernel (`include/uapi/linux/fuse.h`).

use bytes::Bytes;

use super::numbers::{Fields, TooShort};

/// The head of a request: the caller, and what it asks for (`struct fuse_in_header`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The request's number, for the answer.
    pub(crate) unique: u64,
    /// The node that it is about.
    pub(crate) node: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The thread that asks; 0 if it cannot be seen from here.
    pub(crate) pid: u32,
}

/// Attributes to set (`struct fuse_setattr_in`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetAttr {
    valid: u32,
    pub(crate) fh: u64,
    size: u64,
    atime: (u64, u32),
    mtime: (u64, u32),
    mode: u32,
    uid: u32,
    gid: u32,
}

/// A time that is to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// The present time.
    Now,
    /// Seconds, which may be before 1970, and nanoseconds.
    At(i64, u32),
}

impl SetAttr {
    const MODE: u32 = 1;
    const UID: u32 = 1 << 1;
    const GID: u32 = 1 << 2;
    const SIZE: u32 = 1 << 3;
    const ATIME: u32 = 1 << 4;
    const MTIME: u32 = 1 << 5;
    const FH: u32 = 1 << 6;
    const ATIME_NOW: u32 = 1 << 7;
    const MTIME_NOW: u32 = 1 << 8;

    fn has(&self, bit: u32) -> bool {
        self.valid & bit != 0
    }

    pub(crate) fn mode(&self) -> Option<u32> {
        self.has(Self::MODE).then_some(self.mode)
    }

    pub(crate) fn uid(&self) -> Option<u32> {
        self.has(Self::UID).then_some(self.uid)
    }

    pub(crate) fn gid(&self) -> Option<u32> {
        self.has(Self::GID).then_some(self.gid)
    }

    pub(crate) fn size(&self) -> Option<u64> {
        self.has(Self::SIZE).then_some(self.size)
    }

    pub(crate) fn handle(&self) -> Option<u64> {
        self.has(Self::FH).then_some(self.fh)
    }

    pub(crate) fn atime(&self) -> Option<Time> {
        self.time(Self::ATIME, Self::ATIME_NOW, self.atime)
    }

    pub(crate) fn mtime(&self) -> Option<Time> {
        self.time(Self::MTIME, Self::MTIME_NOW, self.mtime)
    }

    fn time(&self, bit: u32, now: u32, (sec, nsec): (u64, u32)) -> Option<Time> {
        match (self.has(bit), self.has(now)) {
            (_, true) => Some(Time::Now),
            (true, false) => Some(Time::At(sec.cast_signed(), nsec)),
            _ => None,
        }
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Self, TooShort> {
        let valid = fields.u32()?;
        fields.skip::<4>()?;
        let (fh, size) = (fields.u64()?, fields.u64()?);
        fields.skip::<8>()?;
        let (atime, mtime) = (fields.u64()?, fields.u64()?);
        fields.skip::<8>()?;
        let (atime, mtime) = ((atime, fields.u32()?), (mtime, fields.u32()?));
        fields.skip::<4>()?;
        let mode = fields.u32()?;
        fields.skip::<4>()?;
        let (uid, gid) = (fields.u32()?, fields.u32()?);
        Ok(Self { valid, fh, size, atime, mtime, mode, uid, gid })
    }
}

/// A lock that is asked for (`struct fuse_lk_in`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockWish {
    pub(crate) fh: u64,
    pub(crate) owner: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) typ: u32,
    pub(crate) pid: u32,
    /// The lock is one of `flock(2)`, and not of `fcntl(2)`.
    pub(crate) is_whole: bool,
}

impl LockWish {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, TooShort> {
        const FLOCK: u32 = 1;
        let (fh, owner, start, end) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?);
        let (typ, pid, flags) = (fields.u32()?, fields.u32()?, fields.u32()?);
        Ok(Self { fh, owner, start, end, typ, pid, is_whole: flags & FLOCK != 0 })
    }
}

/// What the kernel asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Lookup {
        name: Vec<u8>,
    },
    Forget {
        times: u64,
    },
    BatchForget {
        all: Vec<(u64, u64)>,
    },
    GetAttr,
    SetAttr(SetAttr),
    ReadLink,
    SymLink {
        name: Vec<u8>,
        target: Vec<u8>,
    },
    MkNod {
        name: Vec<u8>,
        mode: u32,
        umask: u32,
        rdev: u32,
    },
    MkDir {
        name: Vec<u8>,
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: Vec<u8>,
    },
    RmDir {
        name: Vec<u8>,
    },
    Rename {
        name: Vec<u8>,
        to: u64,
        to_name: Vec<u8>,
        flags: u32,
    },
    Link {
        existing: u64,
        name: Vec<u8>,
    },
    Open {
        flags: i32,
    },
    Create {
        name: Vec<u8>,
        flags: i32,
        mode: u32,
        umask: u32,
    },
    Read {
        fh: u64,
        offset: u64,
        size: u32,
    },
    Write {
        fh: u64,
        offset: u64,
        data: Bytes,
        /// The kernel writes back what a program has put into pages of a mapped file.
        of_pages: bool,
        /// The data is most of the memory that it keeps.
        is_alone: bool,
    },
    StatFs,
    Release {
        fh: u64,
        owner: u64,
        unlocks: bool,
    },
    FSync {
        fh: u64,
    },
    SetXattr {
        name: Vec<u8>,
        value: Bytes,
        flags: u32,
        /// An access control list from a user outside of the file's group: the file does not run as its group
        /// any more.
        kills_sgid: bool,
    },
    GetXattr {
        name: Vec<u8>,
        size: u32,
    },
    ListXattr {
        size: u32,
    },
    RemoveXattr {
        name: Vec<u8>,
    },
    Flush {
        fh: u64,
        owner: u64,
    },
    OpenDir,
    ReadDir {
        fh: u64,
        offset: u64,
        size: u32,
        with_stats: bool,
    },
    ReleaseDir {
        fh: u64,
    },
    FSyncDir,
    GetLock(LockWish),
    SetLock {
        wish: LockWish,
        waits: bool,
    },
    Access,
    Interrupt {
        unique: u64,
    },
    Fallocate {
        fh: u64,
        offset: u64,
        len: u64,
        mode: u32,
    },
    Seek {
        fh: u64,
        offset: u64,
        whence: u32,
    },
    Copy {
        from: u64,
        from_offset: u64,
        to: u64,
        to_offset: u64,
        len: u64,
        is_long: bool,
    },
    SyncFs,
    Destroy,
    /// What this program does not have.
    Other,
}

/// What must be known of a mount to read its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// `struct fuse_setxattr_in` has its newer form.
    pub(crate) has_long_setxattr: bool,
    /// Bytes of one write at most.
    pub(crate) write_max: u32,
}

impl Form {
    /// Whether so much data stays in its request. While it waits it keeps the memory for a whole request, so
    /// less data is copied.
    fn is_shared(self, len: usize) -> bool {
        len >= (self.write_max / 2) as usize
    }

    /// Whether so much data is most of the memory for a request.
    fn is_alone(self, len: usize) -> bool {
        len >= (self.write_max - self.write_max / 8) as usize
    }
}

/// Takes a request apart. A large write's data stays where the request lies, without a copy.
///
/// # Errors
/// The request has no head, or another length than its head says: it cannot be answered.
pub(crate) fn parse(request: &Bytes, form: Form) -> Result<(Head, Result<Op, TooShort>), TooShort> {
    let mut fields = Fields::new(request);
    let (len, code) = (fields.u32()? as usize, fields.u32()?);
    let head = Head {
        unique: fields.u64()?,
        node: fields.u64()?,
        uid: fields.u32()?,
        gid: fields.u32()?,
        pid: fields.u32()?,
    };
    // Words of eight bytes that belong to no operation follow it.
    let extensions = usize::from(fields.u16()?) * 8;
    fields.skip::<2>()?;
    if len != request.len() {
        return Err(TooShort);
    }
    let rest = fields.bytes((len - 40).saturating_sub(extensions))?;
    let op = match code {
        16 => write(request, &mut Fields::new(rest), form),
        _ => op(code, &mut Fields::new(rest), form.has_long_setxattr),
    };
    Ok((head, op))
}

fn op(code: u32, f: &mut Fields<'_>, has_long_setxattr: bool) -> Result<Op, TooShort> {
    Ok(match code {
        1 => Op::Lookup { name: f.name()? },
        2 => Op::Forget { times: f.u64()? },
        3 => Op::GetAttr,
        4 => Op::SetAttr(SetAttr::parse(f)?),
        5 => Op::ReadLink,
        6 => Op::SymLink { name: f.name()?, target: f.name()? },
        8 => {
            let (mode, rdev, umask) = (f.u32()?, f.u32()?, f.u32()?);
            f.skip::<4>()?;
            Op::MkNod { name: f.name()?, mode, umask, rdev }
        }
        9 => {
            let (mode, umask) = (f.u32()?, f.u32()?);
            Op::MkDir { name: f.name()?, mode, umask }
        }
        10 => Op::Unlink { name: f.name()? },
        11 => Op::RmDir { name: f.name()? },
        12 => {
            let to = f.u64()?;
            Op::Rename { name: f.name()?, to, to_name: f.name()?, flags: 0 }
        }
        13 => {
            let existing = f.u64()?;
            Op::Link { existing, name: f.name()? }
        }
        14 => Op::Open { flags: f.u32()?.cast_signed() },
        17 => Op::StatFs,
        21 => set_xattr(f, has_long_setxattr)?,
        22 => {
            let size = f.u32()?;
            f.skip::<4>()?;
            Op::GetXattr { name: f.name()?, size }
        }
        23 => Op::ListXattr { size: f.u32()? },
        24 => Op::RemoveXattr { name: f.name()? },
        34 => Op::Access,
        35 => {
            let (flags, mode, umask) = (f.u32()?.cast_signed(), f.u32()?, f.u32()?);
            f.skip::<4>()?;
            Op::Create { name: f.name()?, flags, mode, umask }
        }
        36 => Op::Interrupt { unique: f.u64()? },
        38 => Op::Destroy,
        42 => {
            let count = f.u32()?;
            f.skip::<4>()?;
            let pair = |_| Ok((f.u64()?, f.u64()?));
            Op::BatchForget { all: (0..count).map(pair).collect::<Result<_, TooShort>>()? }
        }
        45 => {
            let (to, flags) = (f.u64()?, f.u32()?);
            f.skip::<4>()?;
            Op::Rename { name: f.name()?, to, to_name: f.name()?, flags }
        }
        50 => Op::SyncFs,
        _ => return of_handle(code, f),
    })
}

/// Requests about an open file or directory.
fn of_handle(code: u32, f: &mut Fields<'_>) -> Result<Op, TooShort> {
    Ok(match code {
        15 | 28 | 44 => {
            let (fh, offset, size) = (f.u64()?, f.u64()?, f.u32()?);
            match code {
                15 => Op::Read { fh, offset, size },
                code => Op::ReadDir { fh, offset, size, with_stats: code == 44 },
            }
        }
        18 | 29 => {
            let fh = f.u64()?;
            f.skip::<4>()?;
            let (flags, owner) = (f.u32()?, f.u64()?);
            match code {
                18 => Op::Release { fh, owner, unlocks: flags & 2 != 0 },
                _ => Op::ReleaseDir { fh },
            }
        }
        20 => Op::FSync { fh: f.u64()? },
        25 => {
            let fh = f.u64()?;
            f.skip::<8>()?;
            Op::Flush { fh, owner: f.u64()? }
        }
        27 => Op::OpenDir,
        30 => Op::FSyncDir,
        31 => Op::GetLock(LockWish::parse(f)?),
        32 | 33 => Op::SetLock { wish: LockWish::parse(f)?, waits: code == 33 },
        43 => Op::Fallocate { fh: f.u64()?, offset: f.u64()?, len: f.u64()?, mode: f.u32()? },
        46 => Op::Seek { fh: f.u64()?, offset: f.u64()?, whence: f.u32()? },
        47 | 53 => {
            let (from, from_offset) = (f.u64()?, f.u64()?);
            f.skip::<8>()?;
            let (to, to_offset, len) = (f.u64()?, f.u64()?, f.u64()?);
            Op::Copy { from, from_offset, to, to_offset, len, is_long: code == 53 }
        }
        _ => Op::Other,
    })
}

/// The kernel says whether the file may still run as its owner or group; the client decides that itself.
fn write(request: &Bytes, f: &mut Fields<'_>, form: Form) -> Result<Op, TooShort> {
    const OF_PAGES: u32 = 1;
    let (fh, offset, size, flags) = (f.u64()?, f.u64()?, f.u32()?, f.u32()?);
    f.skip::<16>()?;
    let data = f.bytes(size as usize)?;
    let (is_shared, is_alone) = (form.is_shared(data.len()), form.is_alone(data.len()));
    let data = match is_shared {
        true => request.slice_ref(data),
        false => Bytes::copy_from_slice(data),
    };
    let is_alone = is_alone || !is_shared;
    Ok(Op::Write { fh, offset, data, of_pages: flags & OF_PAGES != 0, is_alone })
}

fn set_xattr(f: &mut Fields<'_>, has_long_setxattr: bool) -> Result<Op, TooShort> {
    const KILL_SGID: u32 = 1;
    let (size, flags) = (f.u32()?, f.u32()?);
    let more = if has_long_setxattr { f.u32()? } else { 0 };
    if has_long_setxattr {
        f.skip::<4>()?;
    }
    let name = f.name()?;
    let value = Bytes::copy_from_slice(f.bytes(size as usize)?);
    Ok(Op::SetXattr { name, value, flags, kills_sgid: more & KILL_SGID != 0 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::numbers::Body;
    use super::*;

    fn request(code: u32, body: &[u8]) -> Vec<u8> {
        let head = Body::default().u32(40 + body.len() as u32).u32(code).u64(77).u64(5);
        head.u32(1000).u32(100).u32(4242).u32(0).bytes(body).0
    }

    const FORM: Form = Form { has_long_setxattr: true, write_max: 8192 };

    fn parsed(code: u32, body: &[u8]) -> Result<Op, TooShort> {
        let (head, op) = parse(&request(code, body).into(), FORM)?;
        assert_eq!(head, Head { unique: 77, node: 5, uid: 1000, gid: 100, pid: 4242 });
        op
    }

    #[test]
    fn requests_are_what_the_kernel_means() {
        assert_eq!(parsed(1, b"name\0"), Ok(Op::Lookup { name: b"name".to_vec() }));
        assert_eq!(parsed(1, b"name"), Err(TooShort));
        let (a, b) = (b"a".to_vec(), b"bc".to_vec());
        assert_eq!(parsed(6, b"a\0bc\0"), Ok(Op::SymLink { name: a.clone(), target: b.clone() }));
        let body = Body::default().u64(9).u32(1).u32(0).bytes(b"a\0bc\0").0;
        assert_eq!(parsed(45, &body), Ok(Op::Rename { name: a, to: 9, to_name: b, flags: 1 }));
        for (flags, of_pages) in [(4, false), (5, true)] {
            let body = Body::default().u64(3).u64(4096).u32(5).u32(flags).u64(0).u64(0).bytes(b"hello").0;
            let data = Bytes::from_static(b"hello");
            assert_eq!(
                parsed(16, &body),
                Ok(Op::Write { fh: 3, offset: 4096, data, of_pages, is_alone: true })
            );
            assert_eq!(parsed(16, &body[..body.len() - 1]), Err(TooShort));
        }
        let body = Body::default().u32(2).u32(1).u32(1).u32(0).bytes(b"user.a\0xy").0;
        let (name, value) = (b"user.a".to_vec(), Bytes::from_static(b"xy"));
        assert_eq!(parsed(21, &body), Ok(Op::SetXattr { name, value, flags: 1, kills_sgid: true }));
        assert_eq!(parsed(4711, b"whatever"), Ok(Op::Other));
    }

    #[test]
    fn data_of_large_writes_is_not_copied() {
        for (len, is_copied, alone) in [
            (4095, true, true),
            (4096, false, false),
            (7167, false, false),
            (7168, false, true),
            (8192, false, true),
        ] {
            let body = Body::default().u64(3).u64(0).u32(len).u32(0).u64(0).u64(0).zeros(len as usize).0;
            let request = Bytes::from(request(16, &body));
            let Ok((_, Ok(Op::Write { data, is_alone, .. }))) = parse(&request, FORM) else {
                panic!("a write")
            };
            assert_eq!((data.len(), is_alone), (len as usize, alone));
            assert_eq!(!request.as_ptr_range().contains(&data.as_ptr()), is_copied, "{len} bytes");
        }
    }

    #[test]
    fn locks_of_files_are_told_from_locks_of_ranges() {
        let wish = |flags: u32| {
            let body = Body::default().u64(1).u64(2).u64(3).u64(4).u32(1).u32(5).u32(flags).u32(0).0;
            parsed(33, &body)
        };
        for is_whole in [false, true] {
            let expected = LockWish { fh: 1, owner: 2, start: 3, end: 4, typ: 1, pid: 5, is_whole };
            assert_eq!(wish(u32::from(is_whole)), Ok(Op::SetLock { wish: expected, waits: true }));
        }
    }

    #[test]
    fn attributes_are_set_that_are_named() {
        let valid = SetAttr::MODE | SetAttr::ATIME | SetAttr::MTIME | SetAttr::MTIME_NOW;
        let body = Body::default().u32(valid).u32(0).u64(0).u64(123).u64(0).u64(10).u64(20).u64(30);
        let body = body.u32(1).u32(2).u32(3).u32(0o600).u32(0).u32(1).u32(2).u32(0).0;
        let Ok(Op::SetAttr(set)) = parsed(4, &body) else { panic!("a change of attributes") };
        assert_eq!((set.mode(), set.uid(), set.gid(), set.size()), (Some(0o600), None, None, None));
        assert_eq!((set.atime(), set.mtime()), (Some(Time::At(10, 1)), Some(Time::Now)));
        assert!(set.handle().is_none());
    }

    proptest! {
        #[test]
        fn what_arrives_is_an_operation_or_an_error(code in 0_u32..64, body: Vec<u8>, cut in 0_usize..64) {
            let whole = Bytes::from(request(code, &body));
            let form = Form { has_long_setxattr: cut % 2 == 0, write_max: 16 };
            let _ = parse(&whole, form);
            let _ = parse(&whole.slice(..whole.len().saturating_sub(cut)), form);
        }
    }
}
