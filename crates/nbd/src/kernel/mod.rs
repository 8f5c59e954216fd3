//! The kernel's client: a `/dev/nbdN` that stands on an export of any server.
//!
//! The handshake is made here ([`Target::join`]); the sockets are then handed to the kernel by netlink, which does all I/O from there on. This program
//! may end. Nobody connects again when a connection breaks: its requests go over the others, and with the last one the device fails.

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

/// What the kernel takes as a block's size: powers of two from a sector to a page.
const BLOCK_SIZES: [u32; 4] = [4096, 2048, 1024, 512];

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
    /// The kernel has no such blocks.
    #[error("the server wants blocks of {0} bytes; the kernel has 512 to 4096")]
    Blocks(u32),
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

/// Attaches an export. `device`: which, else a free one. `connections`: so many, if the export allows more than one.
///
/// # Errors
/// The kernel has no client, the server does not want to, the device is taken, and so on.
pub fn attach(
    target: &Target,
    device: Option<Device>,
    connections: NonZeroU32,
) -> Result<Attached, KernelError> {
    // First what is most often missing: no server is bothered in vain.
    let mut netlink = Netlink::open()?;
    if let Some(device) = device.filter(|device| device.is_attached()) {
        return Err(KernelError::Attached(device));
    }
    let joined = join_all(target, connections.get().min(CONNECTIONS_MAX))?;
    let offer = joined[0].offer;
    let connect = Connect {
        device: device.map(|device| device.0),
        size: offer.size,
        block_size: block_size(&offer)?,
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

/// Detaches a device, when what was written to it has reached the server. `forced`: also if it is in use, whose I/O fails then.
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

/// The largest that divides the size, so that the kernel sees all of the device; a rest of less than a sector it never sees.
fn block_size(offer: &Offer) -> Result<u32, KernelError> {
    if offer.size < 512 {
        return Err(KernelError::Small(offer.size));
    }
    let fits = |size: &u32| *size >= offer.block_min && offer.size.is_multiple_of(u64::from(*size));
    let smallest = BLOCK_SIZES.into_iter().rev().find(|size| *size >= offer.block_min);
    let size = BLOCK_SIZES.into_iter().find(fits).or(smallest);
    size.ok_or(KernelError::Blocks(offer.block_min))
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
    fn blocks_are_the_largest_that_fit() {
        let of =
            |size, block_min| block_size(&Offer { size, flags: 1, block_min }).map_err(|e| e.to_string());
        assert_eq!(of(1 << 20, 1), Ok(4096));
        assert_eq!(of((1 << 20) + 512, 1), Ok(512));
        assert_eq!(of(5000, 1), Ok(512));
        assert_eq!(of((1 << 20) + 512, 1024), Ok(1024));
        assert!(of(511, 1).is_err_and(|e| e.contains("smaller than a sector")));
        assert!(of(1 << 20, 8192).is_err_and(|e| e.contains("blocks of 8192 bytes")));
    }
}
