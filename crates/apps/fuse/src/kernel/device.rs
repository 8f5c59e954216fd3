//! The device that carries requests and answers.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write as _};
use std::os::fd::AsFd as _;
use std::os::fd::OwnedFd;

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_fs::Errno;
use rustix::buffer::spare_capacity;
use rustix::io::Errno as OsErrno;

use super::answer::Answer;
use super::numbers::Body;

/// Bytes before a request's own, and some more for names.
const HEADER_ROOM: usize = 4096;

/// The kernel takes an answer in 1,024 parts at most (`UIO_MAXIOV`).
const PIECES_MAX: usize = 1024;

/// An open `/dev/fuse` of a mount.
#[derive(Debug)]
pub(crate) struct Device(File);

impl Device {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self(File::from(fd))
    }

    /// Returns another descriptor of the mount, with a queue of its own for requests in progress; the same
    /// descriptor where the kernel has no such thing.
    pub(crate) fn another(&self) -> io::Result<Self> {
        let shared = || self.0.try_clone().map(Self);
        let Ok(new) = OpenOptions::new().read(true).write(true).open("/dev/fuse") else { return shared() };
        match clone::attach(new.as_fd(), self.0.as_fd()) {
            Ok(()) => Ok(Self(new)),
            Err(_) => shared(),
        }
    }

    /// Returns the descriptor itself, to send notifications.
    pub(crate) fn for_notifications(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Waits for a request. Returns it; `None` once the mount has ended.
    ///
    /// # Errors
    /// The device cannot be read.
    pub(crate) fn receive(&self, inbox: &mut Inbox) -> io::Result<Option<Bytes>> {
        let room = inbox.room();
        loop {
            match rustix::io::read(&self.0, spare_capacity(room)) {
                Ok(_) => return Ok(Some(std::mem::take(room).into())),
                // The request was taken back before it was read, or a signal came.
                Err(OsErrno::NOENT | OsErrno::INTR | OsErrno::AGAIN) => {}
                Err(OsErrno::NODEV) => return Ok(None),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Answers a request. An answer that nobody waits for any more, because the mount has ended, is lost.
    pub(crate) fn answer(&self, unique: u64, answer: &Result<Answer, Errno>) {
        let (error, body): (i32, &[u8]) = match answer {
            Ok(Answer::Nothing) => return,
            Ok(Answer::Done) => (0, &[]),
            Ok(Answer::Body(body)) => (0, body),
            Ok(Answer::Data(data)) => (0, data),
            Ok(Answer::Pieces(pieces)) if pieces.len() < PIECES_MAX => return self.pieces(unique, pieces),
            Ok(Answer::Pieces(pieces)) => (0, &pieces.concat()),
            Err(errno) => (-known(*errno), &[]),
        };
        let head = head(body.len(), error, unique);
        let _ = (&self.0).write_vectored(&[IoSlice::new(&head), IoSlice::new(body)]);
    }

    /// Answers with data in pieces.
    fn pieces(&self, unique: u64, pieces: &[Bytes]) {
        let head = head(pieces.iter().map(Bytes::len).sum(), 0, unique);
        let all: Vec<IoSlice<'_>> = std::iter::once(&head[..])
            .chain(pieces.iter().map(|piece| &piece[..]))
            .map(IoSlice::new)
            .collect();
        let _ = (&self.0).write_vectored(&all);
    }
}

/// `struct fuse_out_header` of an answer with so many bytes.
fn head(len: usize, error: i32, unique: u64) -> Vec<u8> {
    Body::default().u32((16 + len).saturating_as::<u32>()).i32(error).u64(unique).0
}

/// The memory that one thread's requests are read into, one after another. It has pages only as far as
/// requests have used it.
#[derive(Debug)]
pub(crate) struct Inbox {
    len: usize,
    memory: Vec<u8>,
}

impl Inbox {
    /// Memory for requests that write so many bytes at most.
    pub(crate) fn new(write_max: u32) -> Self {
        Self { len: write_max as usize + HEADER_ROOM, memory: Vec::new() }
    }

    /// Returns room for the next request.
    fn room(&mut self) -> &mut Vec<u8> {
        self.memory.clear();
        self.memory.reserve_exact(self.len);
        &mut self.memory
    }

    /// Takes a request's memory back, unless the request's data is still in use: then it stays with the data,
    /// and the next request gets other memory.
    pub(crate) fn take_back(&mut self, request: Bytes) {
        if let Ok(mut memory) = request.try_into_mut() {
            // What is empty is not moved.
            memory.clear();
            self.memory = memory.into();
        }
    }
}

/// The kernel takes numbers below 512 only.
fn known(errno: Errno) -> i32 {
    if (1..512).contains(&errno.0) { errno.0 } else { Errno::EIO.0 }
}

/// The only call to the kernel that has no safe form.
mod clone {
    #![expect(unsafe_code, reason = "an ioctl")]

    use std::os::fd::{AsRawFd as _, BorrowedFd};

    use rustix::io;
    use rustix::ioctl::{Setter, ioctl, opcode};

    /// `FUSE_DEV_IOC_CLONE`.
    const CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);

    /// Makes a device one more of a mount.
    pub(super) fn attach(new: BorrowedFd<'_>, of: BorrowedFd<'_>) -> io::Result<()> {
        let fd = of.as_raw_fd().cast_unsigned();
        // SAFETY: the call reads the number of a descriptor, which the setter keeps for its time.
        unsafe { ioctl(new, Setter::<CLONE, u32>::new(fd)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a request as from the device.
    fn request(inbox: &mut Inbox, byte: u8, len: usize) -> Bytes {
        let room = inbox.room();
        assert!(room.is_empty() && room.capacity() >= 1000 + HEADER_ROOM);
        room.resize(len, byte);
        std::mem::take(room).into()
    }

    #[test]
    fn memory_is_used_again_unless_a_request_s_data_is_in_use() {
        let mut inbox = Inbox::new(1000);
        let first = request(&mut inbox, 1, 100);
        let place = first.as_ptr();
        inbox.take_back(first);
        let whole = request(&mut inbox, 2, 1000 + HEADER_ROOM);
        assert_eq!(whole.as_ptr(), place);
        inbox.take_back(whole);
        let third = request(&mut inbox, 3, 50);
        assert_eq!(third.as_ptr(), place);
        let data = third.slice(10..20);
        inbox.take_back(third);
        let fourth = request(&mut inbox, 4, 50);
        assert_ne!(fourth.as_ptr(), place);
        assert_eq!((&data[..], &fourth[..]), (&[3; 10][..], &[4; 50][..]));
        inbox.take_back(fourth);
    }

    #[test]
    fn errors_are_numbers_that_the_kernel_takes() {
        assert_eq!(known(Errno::ENOENT), Errno::ENOENT.0);
        assert_eq!(known(Errno(0)), Errno::EIO.0);
        assert_eq!(known(Errno(-5)), Errno::EIO.0);
        assert_eq!(known(Errno(10_000)), Errno::EIO.0);
    }
}
