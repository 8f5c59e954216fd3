//! Feature bits (`src/include/ceph_features.h`), as far as releases 16 to 20 look at them.

/// What this project offers its peers: the set that `ceph features` shows for clients and daemons of releases 16 and up.
pub const SUPPORTED: u64 = 0x3f01_cfbd_fffd_ffff;
