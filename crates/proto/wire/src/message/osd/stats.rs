//! Statistics of a pool (`pool_stat_t` and its parts). The counters have the signed types of Ceph's
//! encoding: `int64_t`, and `int32_t` for a few.

use crate::{Decode, DecodeError, Encode, Reader, Writer};

/// Declares a struct whose encoding is its fields in order inside a versioned envelope.
macro_rules! versioned_numbers {
    ($(#[$outer:meta])* $name:ident: $ceph:literal, version $version:literal, compat $compat:literal, oldest $oldest:literal {
        $($(#[$doc:meta])* $field:ident: $ty:ty,)*
    }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $ty,)*
        }

        impl Encode for $name {
            fn encode(&self, w: &mut Writer) {
                w.versioned($version, $compat, |w| {
                    $(w.put(&self.$field);)*
                });
            }
        }

        impl Decode for $name {
            const MIN_LEN: usize = 6;
            fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                r.versioned($ceph, $oldest, $version, |r, _| Ok(Self { $($field: r.get()?,)* }))
            }
        }
    };
}

versioned_numbers! {
    /// Counts over a set of objects (`object_stat_sum_t`).
    ObjectStatSum: "object_stat_sum_t", version 20, compat 14, oldest 20 {
        /// Bytes of data.
        num_bytes: i64,
        /// Objects.
        num_objects: i64,
        /// Clones of objects.
        num_object_clones: i64,
        /// Copies that should exist: objects times replicas.
        num_object_copies: i64,
        /// Objects that are missing on the primary.
        num_objects_missing_on_primary: i64,
        /// Missing copies.
        num_objects_degraded: i64,
        /// Objects without any known copy.
        num_objects_unfound: i64,
        /// Reads.
        num_rd: i64,
        /// Bytes read, in KiB.
        num_rd_kb: i64,
        /// Writes.
        num_wr: i64,
        /// Bytes written, in KiB.
        num_wr_kb: i64,
        /// Errors found by scrubs.
        num_scrub_errors: i64,
        /// Objects recovered.
        num_objects_recovered: i64,
        /// Bytes recovered.
        num_bytes_recovered: i64,
        /// Omap keys recovered.
        num_keys_recovered: i64,
        /// Errors found by shallow scrubs.
        num_shallow_scrub_errors: i64,
        /// Errors found by deep scrubs.
        num_deep_scrub_errors: i64,
        /// Cached objects that differ from their base.
        num_objects_dirty: i64,
        /// Deleted objects that a cache must remember.
        num_whiteouts: i64,
        /// Objects with an omap.
        num_objects_omap: i64,
        /// Objects that hold hit sets.
        num_objects_hit_set_archive: i64,
        /// Copies on the wrong OSD.
        num_objects_misplaced: i64,
        /// Bytes of hit sets.
        num_bytes_hit_set_archive: i64,
        /// Objects flushed from a cache.
        num_flush: i64,
        /// KiB flushed from a cache.
        num_flush_kb: i64,
        /// Objects evicted from a cache.
        num_evict: i64,
        /// KiB evicted from a cache.
        num_evict_kb: i64,
        /// Objects promoted to a cache.
        num_promote: i64,
        /// Placement groups in fast flush mode.
        num_flush_mode_high: i32,
        /// Placement groups in slow flush mode.
        num_flush_mode_low: i32,
        /// Placement groups that evict some objects.
        num_evict_mode_some: i32,
        /// Placement groups that evict all objects.
        num_evict_mode_full: i32,
        /// Objects pinned in a cache.
        num_objects_pinned: i64,
        /// Copies missing on replicas.
        num_objects_missing: i64,
        /// Snapshot sets in the legacy form.
        num_legacy_snapsets: i64,
        /// Objects with an omap that is too large.
        num_large_omap_objects: i64,
        /// Objects with a manifest, which point to other objects.
        num_objects_manifest: i64,
        /// Bytes of omaps.
        num_omap_bytes: i64,
        /// Keys of omaps.
        num_omap_keys: i64,
        /// Objects repaired by scrubs.
        num_objects_repaired: i64,
    }
}

versioned_numbers! {
    /// Capacity and usage of an object store, in bytes (`store_statfs_t`).
    StoreStatfs: "store_statfs_t", version 1, compat 1, oldest 1 {
        /// Capacity.
        total: u64,
        /// Free.
        available: u64,
        /// Reserved by the store.
        internally_reserved: u64,
        /// Allocated for data.
        allocated: i64,
        /// Data that users stored.
        data_stored: i64,
        /// Data after compression.
        data_compressed: i64,
        /// Allocated for compressed data.
        data_compressed_allocated: i64,
        /// Size of the compressed data before compression.
        data_compressed_original: i64,
        /// Used by omaps.
        omap_allocated: i64,
        /// Used by the store's own metadata.
        internal_metadata: i64,
    }
}

/// Counts over a set of objects (`object_stat_collection_t`). The encoding also has categories, which
/// are unused and empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectStatCollection {
    pub(super) sum: ObjectStatSum,
}

impl Encode for ObjectStatCollection {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.put(&self.sum);
            w.u32(0);
        });
    }
}

impl Decode for ObjectStatCollection {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("object_stat_collection_t", 2, 2, |r, _| Ok(Self { sum: r.get()? }))
    }
}

/// A pool's statistics (`pool_stat_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStat {
    /// Counts of the pool's objects.
    pub sum: ObjectStatSum,
    /// Entries in the placement groups' logs.
    pub log_size: i64,
    /// Entries in the placement groups' logs on disk.
    pub ondisk_log_size: i64,
    /// Sizes of the placement groups' up sets, summed.
    pub up: i32,
    /// Sizes of the placement groups' acting sets, summed.
    pub acting: i32,
    /// Space usage.
    pub store_stats: StoreStatfs,
    /// How many OSDs reported `store_stats`.
    pub num_store_stats: i32,
}

impl Encode for PoolStat {
    fn encode(&self, w: &mut Writer) {
        w.versioned(7, 5, |w| {
            w.put(&ObjectStatCollection { sum: self.sum });
            w.i64(self.log_size);
            w.i64(self.ondisk_log_size);
            w.i32(self.up);
            w.i32(self.acting);
            w.put(&self.store_stats);
            w.i32(self.num_store_stats);
        });
    }
}

impl Decode for PoolStat {
    const MIN_LEN: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("pool_stat_t", 7, 7, |r, _| {
            Ok(Self {
                sum: r.get::<ObjectStatCollection>()?.sum,
                log_size: r.i64()?,
                ondisk_log_size: r.i64()?,
                up: r.i32()?,
                acting: r.i32()?,
                store_stats: r.get()?,
                num_store_stats: r.i32()?,
            })
        })
    }
}
