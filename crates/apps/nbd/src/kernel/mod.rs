//! The kernel's client: a `/dev/nbdN` that stands on an export of any server.
//!
//! The handshake is made here ([`Target::join`]); the sockets are then handed to the kernel by netlink, which
//! does all I/O from there on. This program may end. Nobody connects again when a connection breaks: its
//! requests go over the others, and with the last one the device fails.

mod messages;
mod socket;

use std::fmt;
use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::client::{JoinError, Joined, Target};
use crate::proto::Offer;
use messages::Connect;
use socket::Netlink;

/// Connections to one export at most: the kernel has a queue for each.
pub const CONNECTIONS_MAX: u32 = 64;

/// Bytes of a sector, as partition tables and file systems of the device count: what every other client of an
/// image shows its disk with, unless it is told otherwise. A table written with one size is not found, or is
/// misread, with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize(u32);

/// `/dev/nbdN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device(u32);

/// A device that was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Which.
    pub device: Device,
    /// What it stands on.
    pub offer: Offer,
    /// How many connections it has.
    pub connections: u32,
}

/// Why a device was not attached or detached.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel has no such client.
    #[error(
        "the kernel has no NBD client: load its module (modprobe nbd), or run a kernel that has one (CONFIG_BLK_DEV_NBD)"
    )]
    NoClient,
    /// Not allowed.
    #[error("the kernel allows it to root alone (CAP_SYS_ADMIN)")]
    NotRoot,
    /// The server does not want to, or is not there.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Two connections were told different things.
    #[error("the server says one thing of the export over one connection and another over the next")]
    Differs,
    /// The server does not do with less.
    #[error(
        "the server insists on requests of at least {0} bytes, the device would have sectors of {1}: give --block-size {0}, if the disk was made with such sectors"
    )]
    Blocks(u32, BlockSize),
    /// The end of the device would not be seen.
    #[error("{0} bytes are no multiple of sectors of {1} bytes; give --block-size 512")]
    Rest(u64, BlockSize),
    /// There is nothing to be seen of so small a device.
    #[error("an export of {0} bytes is smaller than a sector")]
    Small(u64),
    /// It stands on something already.
    #[error("{0} is attached already")]
    Attached(Device),
    /// It stands on nothing.
    #[error("{0} is not attached")]
    NotAttached(Device),
    /// Something stands on it.
    #[error("{0} is in use: it is mounted, or part of another device")]
    InUse(Device),
    /// The kernel refused.
    #[error("the kernel refuses: {0}")]
    Refused(io::Error),
    /// The kernel said what is not understood.
    #[error("the kernel's answer makes no sense")]
    Answer,
}

impl BlockSize {
    /// A size that the kernel has: a power of two from 512 to a page.
    pub fn new(bytes: u64) -> Option<Self> {
        let is_known = |bytes: &u32| (512..=4096).contains(bytes) && bytes.is_power_of_two();
        u32::try_from(bytes).ok().filter(is_known).map(Self)
    }

    /// The size itself.
    pub fn bytes(self) -> u32 {
        self.0
    }

    /// Fails if the kernel would not see all of the export, or send what its server does not take.
    fn check(self, offer: &Offer) -> Result<(), KernelError> {
        if offer.block_min > self.0 {
            return Err(KernelError::Blocks(offer.block_min, self));
        }
        if offer.size < u64::from(Self::default().0) {
            return Err(KernelError::Small(offer.size));
        }
        // A rest of less than the smallest sector no device shows.
        if self != Self::default() && !offer.size.is_multiple_of(self.0.into()) {
            return Err(KernelError::Rest(offer.size, self));
        }
        Ok(())
    }
}

impl Default for BlockSize {
    fn default() -> Self {
        Self(512)
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Device {
    /// Reads `/dev/nbdN` or `nbdN`.
    pub fn parse(text: &str) -> Option<Self> {
        let number = text.strip_prefix("/dev/").unwrap_or(text).strip_prefix("nbd")?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse().ok().filter(|_| is_number).map(Self)
    }

    /// The kernel says so by a file that holds the process that attached it.
    fn is_attached(self) -> bool {
        fs::exists(format!("/sys/block/nbd{}/pid", self.0)).unwrap_or(false)
    }

    /// Where it is opened.
    pub fn path(self) -> PathBuf {
        self.to_string().into()
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/dev/nbd{}", self.0)
    }
}

/// Attaches an export to `device`, or to a free device. It gets as many `connections` if the export allows
/// more than one, and sectors of `block_size`.
///
/// # Errors
/// The kernel has no client, the server does not want to, the device is taken, and so on.
pub fn attach(
    target: &Target,
    device: Option<Device>,
    connections: NonZeroU32,
    block_size: BlockSize,
) -> Result<Attached, KernelError> {
    // First what is most often missing: no server is bothered in vain.
    let mut netlink = Netlink::open()?;
    if let Some(device) = device.filter(|device| device.is_attached()) {
        return Err(KernelError::Attached(device));
    }
    let joined = join_all(target, connections.get().min(CONNECTIONS_MAX))?;
    let offer = joined[0].offer;
    block_size.check(&offer)?;
    let connect = Connect {
        device: device.map(|device| device.0),
        size: offer.size,
        block_size: block_size.0,
        flags: offer.flags,
        sockets: joined.iter().map(|joined| joined.socket.as_fd().as_raw_fd().cast_unsigned()).collect(),
    };
    let index = netlink.connect(&connect).map_err(|e| match (e, device) {
        (KernelError::Refused(e), Some(device)) if e.kind() == io::ErrorKind::ResourceBusy => {
            KernelError::Attached(device)
        }
        (e, _) => e,
    })?;
    Ok(Attached { device: Device(index), offer, connections: joined.len() as u32 })
}

/// Detaches a device, when what was written to it has reached the server. `forced`: also if it is in use,
/// whose I/O fails then.
///
/// # Errors
/// It is not attached, in use, or what was written cannot be brought to the server.
pub fn detach(device: Device, forced: bool) -> Result<(), KernelError> {
    let mut netlink = Netlink::open()?;
    if !device.is_attached() {
        return Err(KernelError::NotAttached(device));
    }
    if !forced {
        // Held until the end, so that nobody mounts it meanwhile.
        let opened =
            rustix::fs::open(device.path(), OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty());
        let held = opened.map_err(|e| match e {
            Errno::BUSY => KernelError::InUse(device),
            Errno::ACCESS | Errno::PERM => KernelError::NotRoot,
            e => KernelError::Refused(e.into()),
        })?;
        rustix::fs::fsync(&held).map_err(|e| KernelError::Refused(e.into()))?;
        return netlink.disconnect(device.0);
    }
    netlink.disconnect(device.0)
}

/// The first connection says whether there may be more.
fn join_all(target: &Target, connections: u32) -> Result<Vec<Joined>, KernelError> {
    let mut joined = vec![target.join()?];
    let offer = joined[0].offer;
    if offer.can_multi_conn() {
        for _ in 1..connections {
            let more = target.join()?;
            if more.offer != offer {
                return Err(KernelError::Differs);
            }
            joined.push(more);
        }
    }
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read() {
        assert_eq!(Device::parse("/dev/nbd12"), Some(Device(12)));
        assert_eq!(Device::parse("nbd0").map(|device| device.to_string()).as_deref(), Some("/dev/nbd0"));
        for text in ["", "nbd", "/dev/sda", "nbd-1", "nbd+1", "/dev/nbd0p1", "nbd99999999999"] {
            assert_eq!(Device::parse(text), None, "{text}");
        }
    }

    #[test]
    fn sectors_are_what_was_asked_for_whatever_the_size() {
        let of = |bytes, size, block_min| {
            let block_size = BlockSize::new(bytes).expect("the kernel has it");
            block_size.check(&Offer { size, flags: 1, block_min }).map_err(|e| e.to_string())
        };
        for size in [512, 1 << 20, (1 << 20) + 512, 5000] {
            assert_eq!(of(512, size, 1), Ok(()), "{size}");
        }
        assert_eq!(of(4096, 1 << 20, 4096), Ok(()));
        assert!(of(4096, (1 << 20) + 512, 1).is_err_and(|e| e.contains("give --block-size 512")));
        assert!(of(512, 511, 1).is_err_and(|e| e.contains("smaller than a sector")));
        assert!(of(512, 1 << 20, 4096).is_err_and(|e| e.contains("give --block-size 4096")));
        for bytes in [0, 1, 256, 513, 8192, 1 << 32] {
            assert_eq!(BlockSize::new(bytes), None, "{bytes}");
        }
        assert_eq!(BlockSize::default(), BlockSize(512));
    }
}
