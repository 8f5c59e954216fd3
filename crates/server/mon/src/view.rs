//! Parts of maps as JSON and as text, in Ceph's shapes.

use loligo_maps::{MapFlags, Name, OsdState, PoolFlags};
use loligo_wire::{AddrKind, EntityAddr, EntityAddrVec};

use crate::output::json::{Node, object};
use crate::text;

/// `{"addrvec": [{"type": "v2", "addr": "127.0.0.1:3300", "nonce": 0}]}`
pub(crate) fn addrvec(addrs: &EntityAddrVec) -> Node {
    object! { "addrvec": Node::array(addrs.0.iter().map(one_addr)) }
}

/// `{"type": "v2", "addr": "127.0.0.1:3300", "nonce": 0}`
pub fn one_addr(addr: &EntityAddr) -> Node {
    object! { "type": kind_word(addr.kind), "addr": socket(addr), "nonce": addr.nonce }
}

/// A single address, for tools that show only one: `127.0.0.1:3300/0`.
pub(crate) fn legacy_addr(addrs: &EntityAddrVec) -> String {
    addrs.0.first().map_or_else(|| "-".to_owned(), bare)
}

/// An address without the messenger's kind: `127.0.0.1:3300/0`.
pub(crate) fn bare(addr: &EntityAddr) -> String {
    format!("{}/{}", socket(addr), addr.nonce)
}

fn socket(addr: &EntityAddr) -> String {
    addr.sock.map_or_else(|| ":".to_owned(), |sock| sock.to_string())
}

fn kind_word(kind: AddrKind) -> &'static str {
    match kind {
        AddrKind::None => "none",
        AddrKind::Legacy => "v1",
        AddrKind::Msgr2 => "v2",
        AddrKind::Any => "any",
        AddrKind::Cidr => "cidr",
    }
}

/// All addresses in brackets, as in lists of monitors.
pub(crate) fn bracketed(addrs: &EntityAddrVec) -> String {
    let each: Vec<_> = addrs.0.iter().map(EntityAddr::to_string).collect();
    format!("[{}]", each.join(","))
}

/// Names of releases, oldest first.
#[rustfmt::skip] // a table
pub(crate) const RELEASES: [&str; 20] = [
    "argonaut", "bobtail", "cuttlefish", "dumpling", "emperor", "firefly", "giant", "hammer", "infernalis", "jewel",
    "kraken", "luminous", "mimic", "nautilus", "octopus", "pacific", "quincy", "reef", "squid", "tentacle",
];

/// The name of a release.
pub(crate) fn release(number: u8) -> &'static str {
    number.checked_sub(1).and_then(|at| RELEASES.get(usize::from(at))).copied().unwrap_or("unknown")
}

/// All addresses in brackets, each with its nonce, which tells apart two programs at one address.
pub(crate) fn with_nonces(addrs: &EntityAddrVec) -> String {
    let each: Vec<_> = addrs.0.iter().map(|addr| format!("{addr}/{}", addr.nonce)).collect();
    format!("[{}]", each.join(","))
}

/// The words for a set of bits, by bit number; unknown bits are omitted.
fn words(bits: u64, names: &'static [(u32, &'static str)]) -> Vec<&'static str> {
    names.iter().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| *name).collect()
}

/// The words for a pool's flags.
pub(crate) fn pool_flags(flags: PoolFlags) -> Vec<&'static str> {
    const NAMES: [(u32, &str); 17] = [
        (0, "hashpspool"),
        (1, "full"),
        (2, "ec_overwrites"),
        (4, "nodelete"),
        (5, "nopgchange"),
        (6, "nosizechange"),
        (7, "write_fadvise_dontneed"),
        (8, "noscrub"),
        (9, "nodeep-scrub"),
        (10, "full_quota"),
        (11, "nearfull"),
        (12, "backfillfull"),
        (13, "selfmanaged_snaps"),
        (14, "pool_snaps"),
        (15, "creating"),
        (16, "eio"),
        (17, "bulk"),
    ];
    words(flags.bits(), &NAMES)
}

/// The words for an OSD's state, in the order in which Ceph prints them.
pub(crate) fn osd_state(state: OsdState) -> Vec<&'static str> {
    const NAMES: [(u32, &str); 12] = [
        (6, "backfillfull"),
        (7, "destroyed"),
        (0, "exists"),
        (4, "full"),
        (5, "nearfull"),
        (3, "new"),
        (9, "nodown"),
        (10, "noin"),
        (11, "noout"),
        (8, "noup"),
        (12, "stop"),
        (1, "up"),
    ];
    words(u64::from(state.bits()), &NAMES)
}

/// The words for the osdmap's flags.
pub(crate) fn map_flags(flags: MapFlags) -> Vec<&'static str> {
    words(u64::from(flags.bits()), &MAP_FLAG_NAMES)
}

/// The words for the osdmap's flags, by bit number.
pub(crate) const MAP_FLAG_NAMES: [(u32, &str); 19] = [
    (0, "nearfull"),
    (1, "full"),
    (2, "pauserd"),
    (3, "pausewr"),
    (4, "pauserec"),
    (5, "noup"),
    (6, "nodown"),
    (7, "noout"),
    (8, "noin"),
    (9, "nobackfill"),
    (10, "norecover"),
    (11, "noscrub"),
    (12, "nodeep-scrub"),
    (13, "notieragent"),
    (14, "norebalance"),
    (15, "sortbitwise"),
    (19, "recovery_deletes"),
    (20, "purged_snapdirs"),
    (22, "pglog_hardlimit"),
];

/// The word for a pool's autoscaling mode.
pub(crate) fn autoscale_mode(mode: u8) -> &'static str {
    ["off", "warn", "on"].get(usize::from(mode)).copied().unwrap_or("unknown")
}

/// A map of names as a JSON object.
pub(crate) fn name_map<'a>(map: impl IntoIterator<Item = (&'a Name, &'a Name)>) -> Node {
    Node::map(map.into_iter().map(|(key, value)| (text::of(key), text::of(value))))
}
