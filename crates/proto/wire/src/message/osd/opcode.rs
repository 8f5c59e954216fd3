//! Numbers and flags of object operations (`src/include/rados.h`).

use std::fmt;

use bitflags::bitflags;

/// The number of an object operation (`CEPH_OSD_OP_*`). Its bits tell whether the operation reads or
/// writes: see [`OpCode::is_modify`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OpCode(pub u16);

const MODE_RD: u16 = 0x1000;
const MODE_WR: u16 = 0x2000;
const MODE_CACHE: u16 = 0x8000;
const TYPE_MASK: u16 = 0x0f00;
const TYPE_PG: u16 = 0x0500;

macro_rules! op_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal $word:literal,)*) => {
        impl OpCode {
            $($(#[$doc])* pub const $name: Self = Self($code);)*

            /// The name in Ceph's logs; `None` for a number that releases 16 to 20 do not define.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($word),)*
                    _ => None,
                }
            }
        }

        /// All operations defined in this module.
        #[cfg(test)]
        const NAMED: &[OpCode] = &[$(OpCode::$name,)*];
    };
}

op_codes! {
    /// Reads bytes.
    READ = 0x1201 "read",
    /// Returns size and modification time.
    STAT = 0x1202 "stat",
    /// Returns the ranges that hold data.
    MAPEXT = 0x1203 "mapext",
    /// Reads the ranges that hold data, and returns their offsets and lengths.
    SPARSE_READ = 0x1205 "sparse-read",
    /// Notifies all watchers and collects their replies.
    NOTIFY = 0x1206 "notify",
    /// A watcher's reply to a notification.
    NOTIFY_ACK = 0x1207 "notify-ack",
    /// Fails unless the object has the given version.
    ASSERT_VER = 0x1208 "assert-version",
    /// Lists the watchers.
    LIST_WATCHERS = 0x1209 "list-watchers",
    /// Lists clones and snapshots.
    LIST_SNAPS = 0x120a "list-snaps",
    /// Reads bytes, including data still in flight.
    SYNC_READ = 0x120b "sync_read",
    /// Legacy key-value read.
    TMAPGET = 0x120c "tmapget",
    /// Lists omap keys.
    OMAPGETKEYS = 0x1211 "omap-get-keys",
    /// Lists omap keys with values.
    OMAPGETVALS = 0x1212 "omap-get-vals",
    /// Reads the omap header.
    OMAPGETHEADER = 0x1213 "omap-get-header",
    /// Reads the values of given omap keys.
    OMAPGETVALSBYKEYS = 0x1214 "omap-get-vals-by-keys",
    /// Fails unless omap values satisfy comparisons.
    OMAP_CMP = 0x1219 "omap-cmp",
    /// Returns whether a cached object differs from its base.
    ISDIRTY = 0x121d "isdirty",
    /// Reads the whole object, for a copy.
    COPY_GET = 0x121e "copy-get",
    /// Computes checksums of a range.
    CHECKSUM = 0x121f "checksum",
    /// Compares a range with given bytes.
    CMPEXT = 0x1220 "cmpext",
    /// Writes bytes.
    WRITE = 0x2201 "write",
    /// Replaces the object's bytes.
    WRITEFULL = 0x2202 "writefull",
    /// Sets the size.
    TRUNCATE = 0x2203 "truncate",
    /// Zeroes a range.
    ZERO = 0x2204 "zero",
    /// Removes the object.
    DELETE = 0x2205 "delete",
    /// Writes bytes at the end.
    APPEND = 0x2206 "append",
    /// Sets a truncation point.
    SETTRUNC = 0x2208 "settrunc",
    /// Applies a truncation point.
    TRIMTRUNC = 0x2209 "trimtrunc",
    /// Legacy key-value write.
    TMAPPUT = 0x220b "tmapput",
    /// Creates the object, see [`OpFlags::EXCL`].
    CREATE = 0x220d "create",
    /// Restores the object to a snapshot.
    ROLLBACK = 0x220e "rollback",
    /// Registers, renews or ends a watch.
    WATCH = 0x220f "watch",
    /// Sets omap values.
    OMAPSETVALS = 0x2215 "omap-set-vals",
    /// Sets the omap header.
    OMAPSETHEADER = 0x2216 "omap-set-header",
    /// Removes all omap keys and the header.
    OMAPCLEAR = 0x2217 "omap-clear",
    /// Removes omap keys.
    OMAPRMKEYS = 0x2218 "omap-rm-keys",
    /// Copies another object.
    COPY_FROM = 0x221a "copy-from",
    /// Marks a cached object as equal to its base.
    UNDIRTY = 0x221c "undirty",
    /// Announces the expected size of the object.
    SETALLOCHINT = 0x2223 "set-alloc-hint",
    /// Pins the object in the cache.
    CACHE_PIN = 0x2224 "cache-pin",
    /// Unpins the object from the cache.
    CACHE_UNPIN = 0x2225 "cache-unpin",
    /// Writes a pattern repeatedly.
    WRITESAME = 0x2226 "write-same",
    /// Redirects the object to another object.
    SET_REDIRECT = 0x2227 "set-redirect",
    /// Redirects a range to another object.
    SET_CHUNK = 0x2228 "set-chunk",
    /// Copies the data back from the objects that the manifest points to.
    TIER_PROMOTE = 0x2229 "tier-promote",
    /// Removes the redirection that SET_REDIRECT or SET_CHUNK set.
    UNSET_MANIFEST = 0x222a "unset-manifest",
    /// Writes a manifest object's data out.
    TIER_FLUSH = 0x222b "tier-flush",
    /// Copies another object, with a truncation point.
    COPY_FROM2 = 0x222d "copy-from2",
    /// Removes a range of omap keys.
    OMAPRMKEYRANGE = 0x222c "omap-rm-key-range",
    /// Drops a manifest object's local data.
    TIER_EVICT = 0x222e "tier-evict",
    /// Legacy key-value update.
    TMAPUP = 0x320a "tmapup",
    /// Converts legacy key-value data to omap.
    TMAP2OMAP = 0x3222 "tmap2omap",
    /// Reads one extended attribute.
    GETXATTR = 0x1301 "getxattr",
    /// Reads all extended attributes.
    GETXATTRS = 0x1302 "getxattrs",
    /// Fails unless an extended attribute satisfies a comparison.
    CMPXATTR = 0x1303 "cmpxattr",
    /// Sets one extended attribute.
    SETXATTR = 0x2301 "setxattr",
    /// Sets several extended attributes.
    SETXATTRS = 0x2302 "setxattrs",
    /// Replaces all extended attributes.
    RESETXATTRS = 0x2303 "resetxattrs",
    /// Removes one extended attribute.
    RMXATTR = 0x2304 "rmxattr",
    /// Runs a method of an object class. The method may read or write, regardless of the number's mode
    /// bits.
    CALL = 0x1401 "call",
    /// Lists a placement group's objects of one namespace.
    PGLS = 0x1501 "pgls",
    /// PGLS with a filter.
    PGLS_FILTER = 0x1502 "pgls-filter",
    /// Lists hit sets.
    PG_HITSET_LS = 0x1503 "pg-hitset-ls",
    /// Reads a hit set.
    PG_HITSET_GET = 0x1504 "pg-hitset-get",
    /// Lists a placement group's objects, with their namespaces.
    PGNLS = 0x1505 "pgnls",
    /// PGNLS with a filter.
    PGNLS_FILTER = 0x1506 "pgnls-filter",
    /// Lists inconsistencies that scrubs found.
    SCRUBLS = 0x1507 "scrubls",
    /// Writes a cached object out.
    CACHE_FLUSH = 0x821f "cache-flush",
    /// Drops a cached object.
    CACHE_EVICT = 0x8220 "cache-evict",
    /// Writes a cached object out if that does not block.
    CACHE_TRY_FLUSH = 0x8221 "cache-try-flush",
}

impl OpCode {
    /// Whether the operation reads the object. Always false for CALL: the class method decides whether
    /// it reads or writes.
    pub fn is_read(self) -> bool {
        self.0 & MODE_RD != 0 && self != Self::CALL
    }

    /// Whether the operation changes the object.
    pub fn is_modify(self) -> bool {
        self.0 & MODE_WR != 0
    }

    /// Whether the operation belongs to the cache tier.
    pub fn is_cache(self) -> bool {
        self.0 & MODE_CACHE != 0
    }

    /// Whether the operation addresses a placement group instead of an object.
    pub fn is_pg(self) -> bool {
        self.0 & TYPE_MASK == TYPE_PG
    }
}

/// The name that Ceph's logs use; an unknown number is printed in hexadecimal.
impl fmt::Display for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#06x}", self.0),
        }
    }
}

impl fmt::Debug for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

bitflags! {
    /// Flags of one operation in a request (`CEPH_OSD_OP_FLAG_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OpFlags: u32 {
        /// CREATE: fail if the object already exists.
        const EXCL = 0x1;
        /// Continue with the next operation if this one fails.
        const FAILOK = 0x2;
        /// Access is random.
        const FADVISE_RANDOM = 0x4;
        /// Access is sequential.
        const FADVISE_SEQUENTIAL = 0x8;
        /// The data will be needed soon.
        const FADVISE_WILLNEED = 0x10;
        /// The data will not be needed soon.
        const FADVISE_DONTNEED = 0x20;
        /// The data is used once, by this client.
        const FADVISE_NOCACHE = 0x40;
        // Bits that newer releases may send are kept.
        const _ = !0;
    }
}

bitflags! {
    /// Flags of a request or reply (`CEPH_OSD_FLAG_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OsdFlags: u32 {
        /// Legacy. In a request: reply when the change is applied. In a reply: the change is applied.
        const ACK = 0x1;
        /// As ACK, for NVRAM.
        const ONNVRAM = 0x2;
        /// In a request: reply when the change is durable. In a reply: the change is durable.
        const ONDISK = 0x4;
        /// Not the first attempt.
        const RETRY = 0x8;
        /// The request reads.
        const READ = 0x10;
        /// The request writes.
        const WRITE = 0x20;
        /// Fail with EOLDSNAPC if the snapshot context is older than the object's.
        const ORDERSNAP = 0x40;
        /// Any replica may serve the read.
        const BALANCE_READS = 0x100;
        /// Execute on several objects in parallel; never implemented.
        const PARALLELEXEC = 0x200;
        /// The request addresses a placement group, not an object.
        const PGOP = 0x400;
        /// The request calls a class method.
        const EXEC = 0x800;
        /// The nearest replica may serve the read.
        const LOCALIZE_READS = 0x2000;
        /// Order this read with writes.
        const RWORDERED = 0x4000;
        /// Ignore the cache tier.
        const IGNORE_CACHE = 0x8000;
        /// Acquire no read-write locks.
        const SKIPRWLOCKS = 0x1_0000;
        /// Ignore the pool's overlay.
        const IGNORE_OVERLAY = 0x2_0000;
        /// The request is part of a cache flush.
        const FLUSH = 0x4_0000;
        /// The snapshot id names the clone itself.
        const MAP_SNAP_CLONE = 0x8_0000;
        /// Use the request's snapshot context even if the pool has its own.
        const ENFORCE_SNAPC = 0x10_0000;
        /// The request was redirected.
        const REDIRECTED = 0x20_0000;
        /// The flag REDIRECTED is reliable; every client since hammer sets this flag.
        const KNOWN_REDIR = 0x40_0000;
        /// Attempt the request although the pool is full: fail with ENOSPC instead of waiting.
        const FULL_TRY = 0x80_0000;
        /// Execute the request although the pool is full.
        const FULL_FORCE = 0x100_0000;
        /// Ignore the object's redirection.
        const IGNORE_REDIRECT = 0x200_0000;
        /// Return every operation's result and output, also for writes.
        const RETURNVEC = 0x400_0000;
        /// The client supports pools that are set to fail every request with EIO.
        const SUPPORTSPOOLEIO = 0x800_0000;
        // Bits that newer releases may send are kept.
        const _ = !0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_words_are_unique() {
        let mut codes: Vec<u16> = NAMED.iter().map(|c| c.0).collect();
        let mut words: Vec<_> = NAMED.iter().map(|c| c.name()).collect();
        codes.sort_unstable();
        words.sort_unstable();
        codes.dedup();
        words.dedup();
        assert_eq!((codes.len(), words.len()), (NAMED.len(), NAMED.len()));
        assert_eq!(OpCode(0x1fff).to_string(), "0x1fff");
    }

    #[test]
    fn the_mode_bits_say_what_an_operation_does() {
        assert!(OpCode::WRITE.is_modify() && !OpCode::WRITE.is_read());
        assert!(OpCode::READ.is_read() && !OpCode::READ.is_modify());
        assert!(!OpCode::CALL.is_read() && !OpCode::CALL.is_modify());
        assert!(OpCode::PGNLS.is_pg() && !OpCode::READ.is_pg());
        assert!(OpCode::CACHE_FLUSH.is_cache());
    }
}
