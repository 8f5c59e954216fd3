//! Feature bits (`src/include/ceph_features.h`), as far as releases 16 to 20 look at them.
//!
//! Sixty-four bits were not enough: a bit that every release has became free for a second and third use. Such
//! an incarnation counts only together with the bits of the releases that ended the use before, so a feature
//! is a mask of one to three bits, and a peer has it if it has them all: [`has`].

/// Bits that the second use of any bit comes with.
const INCARNATION_2: u64 = 1 << 57;
/// Bits that the third use of any bit comes with.
const INCARNATION_3: u64 = INCARNATION_2 | 1 << 28;

/// Whether a peer with the bits `features` has the feature with the mask `feature`.
pub const fn has(features: u64, feature: u64) -> bool {
    features & feature == feature
}

/// What this project offers its peers: the set that `ceph features` shows for clients and daemons of release
/// 16.
pub const SUPPORTED: u64 = 0x3f01_cfbd_fffd_ffff;

/// What a client offers beside that: its decoder of maps and its placement know CRUSH rules of release 19. A
/// cluster with such a rule lets in nobody without.
pub const CLIENT: u64 = SUPPORTED | CRUSH_MSR;

/// Names of features that a peer may require, the newest use of each bit. Some are Ceph's names of a release.
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

/// The features of `bits` for people: by name where one is known, else by the number of the bit.
pub fn names(bits: u64) -> String {
    let set = (0..u64::BITS).filter(|bit| bits >> bit & 1 == 1);
    let named = set.map(|bit| match NAMES.iter().find(|(named, _)| *named == u64::from(bit)) {
        Some((_, name)) => format!("{name} (bit {bit})"),
        None => format!("bit {bit}"),
    });
    named.collect::<Vec<_>>().join(", ")
}

/// Objects are named with pool, namespace and key.
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
/// Blocklists of whole networks.
pub const RANGE_BLOCKLIST: u64 = 1 << 34 | INCARNATION_3;
/// CRUSH with indep and more tries.
pub const CRUSH_V2: u64 = 1 << 36;
/// CRUSH rules that retry all their steps together.
pub const CRUSH_MSR: u64 = 1 << 38 | INCARNATION_2;
/// Subscriptions hold until the session ends, and need no acknowledgement.
pub const MON_STATEFUL_SUB: u64 = 1 << 57;
/// The osdmap's client part has a checksum of its own.
pub const OSDMAP_ENC: u64 = 1 << 39;
/// CRUSH tunables of firefly; primary affinity.
pub const CRUSH_TUNABLES3: u64 = 1 << 41;
/// Keepalive with a time stamp.
pub const MSGR_KEEPALIVE2: u64 = 1 << 42;
/// Requests are sent again when a pool says so.
pub const OSD_POOLRESEND: u64 = 1 << 43;
/// CRUSH straw2 buckets.
pub const CRUSH_V4: u64 = 1 << 48;
/// Release 19 and up.
pub const SERVER_SQUID: u64 = 1 << 49 | INCARNATION_2;
/// Release 20 and up.
pub const SERVER_TENTACLE: u64 = 1 << 50 | INCARNATION_2;
/// Requests whose addressing part stands first.
pub const NEW_OSDOP_ENCODING: u64 = 1 << 56;
/// Subscriptions live as long as the session; release 10 and up.
pub const SERVER_JEWEL: u64 = 1 << 57;
/// CRUSH tunables of jewel; replies that carry a redirect only if there is one.
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
