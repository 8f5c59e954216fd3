//! Bounds on what is read from a peer.

/// The longest segment accepted from a peer before authentication, and afterwards of every frame except
/// messages. Tickets and authorizers have a few KiB.
pub(crate) const CONTROL_SEGMENT_MAX: u32 = 64 << 10;

/// Bytes of the handshake that are stored for signing, in each direction. A refused client may try other
/// methods, but not endlessly.
pub(crate) const TRANSCRIPT_MAX: usize = 256 << 10;

/// The most memory reserved for a frame before its bytes arrive.
pub(crate) const RESERVE_MAX: usize = 8 << 20;

/// The maximum lengths of the parts of a message from an authenticated peer, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The front. The longest known ones hold a full OSD map (some tens of MiB in clusters of 10,000
    /// OSDs).
    pub front_len_max: u32,
    /// The middle.
    pub middle_len_max: u32,
    /// The data. Stock OSDs accept writes of 90 MiB (`osd_max_write_size`), and librbd reads up to 32 MiB at
    /// a time.
    pub data_len_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { front_len_max: 64 << 20, middle_len_max: 16 << 20, data_len_max: 256 << 20 }
    }
}
