//! Feature bits that decide how a map is encoded.

use loligo_wire::features;

/// The feature bits that a map is encoded for: they decide which parts are written (`SIGNIFICANT_FEATURES` in
/// `src/osd/OSDMap.h`).
///
/// An OSD map has one canonical encoding per epoch, the one its monitors' checksum is of; an incremental says
/// with which bits that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Features(pub u64);

impl Features {
    /// What a monitor encodes with while the cluster requires release 16 or 17 of its OSDs. Every release
    /// from 16 to 20 reads the result.
    pub const PACIFIC: Self = Self(0x0f00_0880_1021_2a04);
    /// The same from release 18 on.
    pub const REEF: Self = Self(Self::PACIFIC.0 | features::SERVER_REEF);
    /// The same from release 20 on.
    pub const TENTACLE: Self = Self(Self::REEF.0 | features::SERVER_TENTACLE);

    /// Whether all bits of `feature` are there.
    pub const fn has(self, feature: u64) -> bool {
        features::has(self.0, feature)
    }
}
