//! Feature bits that determine the encoding of a map.

use loligo_wire::features;

/// Feature bits that determine which fields of a map are encoded (`SIGNIFICANT_FEATURES` in
/// `src/osd/OSDMap.h`).
///
/// An OSD map has one canonical encoding per epoch, for which the monitors compute the checksum. An
/// incremental carries the feature bits of that encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Features(pub u64);

impl Features {
    /// The bits with which a monitor encodes while the cluster requires release 16 or 17 of its OSDs.
    /// Releases 16 to 20 decode the result.
    pub const PACIFIC: Self = Self(0x0f00_0880_1021_2a04);
    /// The bits while the cluster requires release 18 or 19.
    pub const REEF: Self = Self(Self::PACIFIC.0 | features::SERVER_REEF);
    /// The bits while the cluster requires release 20.
    pub const TENTACLE: Self = Self(Self::REEF.0 | features::SERVER_TENTACLE);

    /// Whether all bits of `feature` are set.
    pub const fn has(self, feature: u64) -> bool {
        features::has(self.0, feature)
    }
}
