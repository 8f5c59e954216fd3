//! Feature bits (`src/include/ceph_features.h`) that releases 16 to 20 use.
//!
//! The 64 bits are reused: once every release in use has a feature, its bit is free for a second and
//! third meaning. Such an incarnation of a bit is valid only together with the bits of the releases that
//! retired the earlier meaning. A feature is therefore a mask of one to three bits, and a peer has the
//! feature if it has all bits of the mask: [`has`].

/// Bits that accompany the second incarnation of any bit.
const INCARNATION_2: u64 = 1 << 57;
/// Bits that accompany the third incarnation of any bit.
const INCARNATION_3: u64 = INCARNATION_2 | 1 << 28;

/// Whether a peer with the bits `features` has the feature with the mask `feature`.
pub const fn has(features: u64, feature: u64) -> bool {
    features & feature == feature
}

/// The features this project offers to peers: the set that `ceph features` shows for clients and daemons
/// of release 16.
pub const SUPPORTED: u64 = 0x3f01_cfbd_fffd_ffff;

/// The features a client offers: `SUPPORTED`, and the CRUSH rules of release 19, which the client's
/// map decoder and placement implement. A cluster with such a rule rejects clients without the feature.
pub const CLIENT: u64 = SUPPORTED | CRUSH_MSR;

/// Names of features that a peer may require, in the newest incarnation of each bit. Some are Ceph's
/// names of releases.
const NAMES: [(u64, &str); 16] = [
    (2, "SERVER_NAUTILUS"),
    (16, "SERVER_OCTOPUS"),
    (20, "SERVER_PACIFIC"),
    (21, "SERVER_LUMINOUS"),
    (31, "SERVER_REEF"),
    (32, "STRETCH_MODE"),
    (33, "SERVER_QUINCY"),
    (34, "RANGE_BLOCKLIST"),
    (36, "CRUSH_V2"),
    (38, "CRUSH_MSR"),
    (41, "CRUSH_TUNABLES3"),
    (48, "CRUSH_V4"),
    (49, "SERVER_SQUID"),
    (50, "SERVER_TENTACLE"),
    (58, "CRUSH_TUNABLES5"),
    (61, "CEPHX_V2"),
];

/// Formats the features of `bits` for people: the name where it is known, otherwise the bit's number.
pub fn names(bits: u64) -> String {
    let set = (0..u64::BITS).filter(|bit| bits >> bit & 1 == 1);
    let named = set.map(|bit| match NAMES.iter().find(|(named, _)| *named == u64::from(bit)) {
        Some((_, name)) => format!("{name} (bit {bit})"),
        None => format!("bit {bit}"),
    });
    named.collect::<Vec<_>>().join(", ")
}

/// In the messenger of version 1 both sides say, when a session opens, what they have received of it.
pub const RECONNECT_SEQ: u64 = 1 << 6;
/// Messages of the messenger of version 1 are signed.
pub const MSG_AUTH: u64 = 1 << 23;
/// Objects are addressed by pool, namespace and key.
pub const OBJECTLOCATOR: u64 = 1 << 8;
/// 64-bit placement group ids.
pub const PGID64: u64 = 1 << 9;
/// Release 14 and up.
pub const SERVER_NAUTILUS: u64 = 1 << 2 | INCARNATION_3;
/// Release 15 and up.
pub const SERVER_OCTOPUS: u64 = 1 << 16 | INCARNATION_3;
/// Release 16 and up.
pub const SERVER_PACIFIC: u64 = 1 << 20 | INCARNATION_3;
/// Release 12 and up; upmap, backoffs, resending when placement groups split.
pub const SERVER_LUMINOUS: u64 = 1 << 21 | INCARNATION_2;
/// Release 13 and up.
pub const SERVER_MIMIC: u64 = 1 << 28 | INCARNATION_2;
/// Release 18 and up.
pub const SERVER_REEF: u64 = 1 << 31 | INCARNATION_3;
/// Stretched clusters.
pub const STRETCH_MODE: u64 = 1 << 32 | INCARNATION_3;
/// Release 17 and up.
pub const SERVER_QUINCY: u64 = 1 << 33 | INCARNATION_3;
/// Blocklist entries for whole networks.
pub const RANGE_BLOCKLIST: u64 = 1 << 34 | INCARNATION_3;
/// CRUSH `indep` placement and additional tries.
pub const CRUSH_V2: u64 = 1 << 36;
/// CRUSH rules that retry all their steps together.
pub const CRUSH_MSR: u64 = 1 << 38 | INCARNATION_2;
/// Subscriptions last until the session ends and need no acknowledgement.
pub const MON_STATEFUL_SUB: u64 = 1 << 57;
/// The client part of the osdmap has its own checksum.
pub const OSDMAP_ENC: u64 = 1 << 39;
/// CRUSH tunables of firefly, and primary affinity.
pub const CRUSH_TUNABLES3: u64 = 1 << 41;
/// Keepalive with a timestamp.
pub const MSGR_KEEPALIVE2: u64 = 1 << 42;
/// Clients resend requests when the pool's resend epoch changes.
pub const OSD_POOLRESEND: u64 = 1 << 43;
/// CRUSH straw2 buckets.
pub const CRUSH_V4: u64 = 1 << 48;
/// Release 19 and up.
pub const SERVER_SQUID: u64 = 1 << 49 | INCARNATION_2;
/// Release 20 and up.
pub const SERVER_TENTACLE: u64 = 1 << 50 | INCARNATION_2;
/// Requests whose addressing fields come first.
pub const NEW_OSDOP_ENCODING: u64 = 1 << 56;
/// Subscriptions last as long as the session; release 10 and up.
pub const SERVER_JEWEL: u64 = 1 << 57;
/// CRUSH tunables of jewel; a reply carries a redirect only if one exists.
pub const CRUSH_TUNABLES5: u64 = 1 << 58;
/// Address vectors.
pub const MSG_ADDR2: u64 = 1 << 59;
/// cephx challenges are bound to the session.
pub const CEPHX_V2: u64 = 1 << 61;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_offer_what_they_can_decode_and_bits_have_names() {
        assert!(has(CLIENT, CRUSH_MSR) && !has(SUPPORTED, CRUSH_MSR) && has(CLIENT, SUPPORTED));
        assert_eq!(names(1 << 38 | 1 << 52), "CRUSH_MSR (bit 38), bit 52");
    }

    #[test]
    fn what_we_offer_is_release_16() {
        for feature in [SERVER_PACIFIC, SERVER_OCTOPUS, SERVER_NAUTILUS, SERVER_LUMINOUS, MSG_ADDR2, CEPHX_V2]
        {
            assert!(has(SUPPORTED, feature));
        }
        for feature in [SERVER_QUINCY, SERVER_SQUID, SERVER_TENTACLE] {
            assert!(!has(SUPPORTED, feature));
        }
    }
}
