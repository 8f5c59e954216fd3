//! The kernel's client: a `/dev/nbdN` backed by an export of any server.
//!
//! The handshake is done here ([`Target::join`]). The sockets are then handed to the kernel by netlink,
//! and the kernel does all I/O; this program may end. Broken connections are not re-established: their
//! requests move to the remaining connections, and when the last one breaks, the device fails.

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

/// Maximum number of connections to one export; the kernel has a queue for each.
pub const CONNECTIONS_MAX: u32 = 64;

/// The sector size in bytes that partition tables and file systems of the device count in. The default
/// is the size that every other client of an image uses by default. A partition table written with one
/// size is not found, or is misread, with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize(u32);

/// A device `/dev/nbdN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device(u32);

/// A device that was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The device.
    pub device: Device,
    /// The server's description of the export.
    pub offer: Offer,
    /// Number of connections.
    pub connections: u32,
}

/// Why attaching or detaching failed.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel has no NBD client.
    #[error(
        "the kernel has no NBD client: load its module (modprobe nbd), or run a kernel that has one (CONFIG_BLK_DEV_NBD)"
    )]
    NoClient,
    /// The caller lacks the privilege.
    #[error("the kernel allows it to root alone (CAP_SYS_ADMIN)")]
    NotRoot,
    /// The server refused, or cannot be reached.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The server described the export differently on two connections.
    #[error("the server says one thing of the export over one connection and another over the next")]
    Differs,
    /// The server requires larger requests.
    #[error(
        "the server insists on requests of at least {0} bytes, the device would have sectors of {1}: give --block-size {0}, if the disk was made with such sectors"
    )]
    Blocks(u32, BlockSize),
    /// The size is no multiple of the sector size, so that the end of the device would be inaccessible.
    #[error("{0} bytes are no multiple of sectors of {1} bytes; give --block-size 512")]
    Rest(u64, BlockSize),
    /// The export is smaller than the smallest sector.
    #[error("an export of {0} bytes is smaller than a sector")]
    Small(u64),
    /// The device is attached already.
    #[error("{0} is attached already")]
    Attached(Device),
    /// The device is not attached.
    #[error("{0} is not attached")]
    NotAttached(Device),
    /// The device is mounted, or part of another device.
    #[error("{0} is in use: it is mounted, or part of another device")]
    InUse(Device),
    /// The kernel refused.
    #[error("the kernel refuses: {0}")]
    Refused(io::Error),
    /// The kernel's answer cannot be parsed.
    #[error("the kernel's answer makes no sense")]
    Answer,
}

impl BlockSize {
    /// Accepts the sizes that the kernel supports: powers of two from 512 to 4,096 (a page).
    pub fn new(bytes: u64) -> Option<Self> {
        let is_known = |bytes: &u32| (512..=4096).contains(bytes) && bytes.is_power_of_two();
        u32::try_from(bytes).ok().filter(is_known).map(Self)
    }

    /// The size in bytes.
    pub fn bytes(self) -> u32 {
        self.0
    }

    /// Fails if the kernel would not see all of the export, or would send requests that its server does
    /// not accept.
    fn check(self, offer: &Offer) -> Result<(), KernelError> {
        if offer.block_min > self.0 {
            return Err(KernelError::Blocks(offer.block_min, self));
        }
        if offer.size < u64::from(Self::default().0) {
            return Err(KernelError::Small(offer.size));
        }
        // A remainder smaller than the smallest sector is inaccessible with every size, so it is no
        // error.
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
    /// Parses `/dev/nbdN` or `nbdN`.
    pub fn parse(text: &str) -> Option<Self> {
        let number = text.strip_prefix("/dev/").unwrap_or(text).strip_prefix("nbd")?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse().ok().filter(|_| is_number).map(Self)
    }

    /// Returns whether the device is attached: the kernel then has a `pid` file with the process that
    /// attached it.
    fn is_attached(self) -> bool {
        fs::exists(format!("/sys/block/nbd{}/pid", self.0)).unwrap_or(false)
    }

    /// The path of the device node.
    pub fn path(self) -> PathBuf {
        self.to_string().into()
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/dev/nbd{}", self.0)
    }
}

/// Attaches an export to `device`, or to a free device if it is `None`. Opens up to `connections`
/// connections if the export allows more than one. The device has sectors of `block_size`.
///
/// # Errors
/// The kernel has no NBD client, the server refuses, the device is already attached, and so on.
pub fn attach(
    target: &Target,
    device: Option<Device>,
    connections: NonZeroU32,
    block_size: BlockSize,
) -> Result<Attached, KernelError> {
    // The most frequent failure is checked first, before any connection to the server is made.
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

/// Detaches a device. Unless `forced`, it fails if the device is in use, and first waits until the data
/// written to the device have reached the server. The I/O of a device that is detached while in use
/// fails.
///
/// # Errors
/// The device is not attached or in use, or its data cannot be written to the server.
pub fn detach(device: Device, forced: bool) -> Result<(), KernelError> {
    let mut netlink = Netlink::open()?;
    if !device.is_attached() {
        return Err(KernelError::NotAttached(device));
    }
    if !forced {
        // Held until the end, so that the device cannot be mounted meanwhile.
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

/// Opens the connections. The first one tells whether the export allows more.
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
