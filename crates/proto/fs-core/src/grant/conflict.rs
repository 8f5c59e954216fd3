//! Which capabilities of two clients exclude each other, and how far a file may be written.

use loligo_types::Caps;

/// For each capability, those that no other client may have at the same time.
const CONFLICTS: [(Caps, Caps); 12] = [
    (Caps::AUTH_SHARED, Caps::AUTH_EXCL),
    (Caps::AUTH_EXCL, Caps::ANY_AUTH),
    (Caps::LINK_SHARED, Caps::LINK_EXCL),
    (Caps::LINK_EXCL, Caps::ANY_LINK),
    (Caps::XATTR_SHARED, Caps::XATTR_EXCL),
    (Caps::XATTR_EXCL, Caps::ANY_XATTR),
    (Caps::FILE_SHARED, Caps::ANY_FILE_WR),
    (Caps::FILE_EXCL, FILE_COHERENT),
    (Caps::FILE_CACHE, Caps::ANY_FILE_WR),
    (Caps::FILE_RD, BUFFERS),
    (Caps::FILE_WR, Caps::FILE_SHARED.union(Caps::FILE_CACHE).union(BUFFERS)),
    (Caps::FILE_BUFFER, FILE_COHERENT),
];

/// The bits whose owner may have changes that nobody else sees.
const BUFFERS: Caps = Caps::FILE_BUFFER.union(Caps::FILE_EXCL);

/// The bits of the file's data and size, but lazy I/O, whose users want no coherence.
const FILE_COHERENT: Caps = Caps::ANY_FILE_WR.union(Caps::ANY_FILE_RD);

/// What no other client may have while one has `caps`.
pub fn conflicts(caps: Caps) -> Caps {
    let held = CONFLICTS.iter().filter(|(cap, _)| caps.contains(*cap));
    held.fold(Caps::NONE, |all, (_, others)| all | *others)
}

/// The maximum by which the permitted size is ahead of the file's end, in objects
/// (`mds_client_writeable_range_max_inc_objs`).
const AHEAD_OBJECTS: u64 = 1024;

/// The size that a writer is permitted, for a file of `size` bytes: twice as much, but not much more, in
/// whole periods of `object_bytes`.
pub fn max_size(size: u64, object_bytes: u64) -> u64 {
    let object_bytes = object_bytes.max(1);
    let twice = size.saturating_add(1).saturating_mul(2);
    let ahead = size.saturating_add(object_bytes.saturating_mul(AHEAD_OBJECTS));
    twice.min(ahead).checked_next_multiple_of(object_bytes).unwrap_or(u64::MAX)
}
