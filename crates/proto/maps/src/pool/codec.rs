//! The encoding of pools (`pg_pool_t::encode` in `src/osd/osd_types.cc`).
//!
//! | version | written by | adds |
//! |---|---|---|
//! | 29 | 16 to 19 | |
//! | 30 | 16 to 18, pools of stretch clusters | conditions of peering |
//! | 31 | | the same, optional |
//! | 32 | 20 | shards that cannot become primary |

use az::WrappingAs as _;
use bytes::Bytes;
use loligo_wire::{Decode, DecodeError, Encode, Reader, Writer, features};

use super::{PeeringCrush, PgMergeMeta, PgPool, PoolFlags, PoolKind, PoolSnap, ShardSet};
use crate::{Features, ObjectHash};

impl PgPool {
    /// Appends the pool in the form that a monitor with these features writes.
    pub fn encode(&self, writer: Features, w: &mut Writer) {
        let version = match self.peering_crush {
            _ if writer.has(features::SERVER_TENTACLE) => 32,
            Some(_) => 30,
            None => 29,
        };
        w.versioned(version, 5, |w| {
            self.encode_basics(w);
            self.encode_tiers(w);
            self.encode_extras(w);
            self.encode_peering(version, w);
        });
    }

    fn encode_basics(&self, w: &mut Writer) {
        w.u8(self.kind.0);
        w.u8(self.size);
        w.u8(self.crush_rule);
        w.u8(self.object_hash.0);
        w.u32(self.pg_num);
        w.u32(self.pgp_num);
        w.zeros(8); // formerly the numbers of "localized" PGs
        w.put(&self.last_change);
        w.put(&self.snap_seq);
        w.put(&self.snap_epoch);
        w.put(&self.snaps);
        w.put(&self.removed_snaps);
        w.u64(self.auid);
        w.u64(self.flags.bits());
        w.u32(0); // formerly crash_replay_interval
        w.u8(self.min_size);
        w.u64(self.quota_max_bytes);
        w.u64(self.quota_max_objects);
    }

    fn encode_tiers(&self, w: &mut Writer) {
        let tier = &self.tier;
        w.put(&tier.tiers);
        w.put(&tier.tier_of);
        w.u8(tier.cache_mode);
        w.put(&tier.read_tier);
        w.put(&tier.write_tier);
        w.put(&self.properties);
        w.raw(&tier.hit_set_params);
        w.u32(tier.hit_set_period_s);
        w.u32(tier.hit_set_count);
        w.u32(self.stripe_width);
        w.u64(tier.target_max_bytes);
        w.u64(tier.target_max_objects);
        w.u32(tier.dirty_ratio_micro);
        w.u32(tier.full_ratio_micro);
        w.u32(tier.min_flush_age_s);
        w.u32(tier.min_evict_age_s);
    }

    fn encode_extras(&self, w: &mut Writer) {
        let tier = &self.tier;
        w.put(&self.erasure_code_profile);
        w.put(&self.last_force_op_resend_preluminous);
        w.u32(tier.min_read_recency_for_promote);
        w.u64(self.expected_num_objects);
        w.u32(tier.dirty_high_ratio_micro);
        w.u32(tier.min_write_recency_for_promote);
        w.bool(tier.use_gmt_hitset);
        w.bool(self.fast_read);
        w.u32(tier.hit_set_grade_decay_rate);
        w.u32(tier.hit_set_search_last_n);
        w.put(&self.opts);
        w.put(&self.last_force_op_resend_prenautilus);
        w.put(&self.application_metadata);
        w.put(&self.create_time);
        w.u32(self.pg_num_target);
        w.u32(self.pgp_num_target);
        w.u32(self.pg_num_pending);
        w.zeros(8); // formerly two epochs of the last merge
        w.put(&self.last_force_op_resend);
        w.u8(self.pg_autoscale_mode);
        w.put(&self.last_pg_merge_meta);
    }

    fn encode_peering(&self, version: u8, w: &mut Writer) {
        if version >= 31 {
            w.put(&self.peering_crush);
        } else if let (30, Some(peering)) = (version, &self.peering_crush) {
            w.put(peering);
        }
        if version >= 32 {
            w.put(&self.nonprimary_shards);
        }
    }

    fn decode_basics(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.kind = PoolKind(r.u8()?);
        self.size = r.u8()?;
        self.crush_rule = r.u8()?;
        self.object_hash = ObjectHash(r.u8()?);
        self.pg_num = r.u32()?;
        self.pgp_num = r.u32()?;
        r.skip(8)?;
        self.last_change = r.get()?;
        self.snap_seq = r.get()?;
        self.snap_epoch = r.get()?;
        self.snaps = r.get()?;
        self.removed_snaps = r.get()?;
        self.auid = r.u64()?;
        self.flags = PoolFlags::from_bits_retain(r.u64()?);
        r.skip(4)?;
        self.min_size = r.u8()?;
        self.quota_max_bytes = r.u64()?;
        self.quota_max_objects = r.u64()?;
        Ok(())
    }

    fn decode_tiers(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        let tier = &mut self.tier;
        tier.tiers = r.get()?;
        tier.tier_of = r.get()?;
        tier.cache_mode = r.u8()?;
        tier.read_tier = r.get()?;
        tier.write_tier = r.get()?;
        self.properties = r.get()?;
        tier.hit_set_params = decode_envelope(r)?;
        tier.hit_set_period_s = r.u32()?;
        tier.hit_set_count = r.u32()?;
        self.stripe_width = r.u32()?;
        tier.target_max_bytes = r.u64()?;
        tier.target_max_objects = r.u64()?;
        tier.dirty_ratio_micro = r.u32()?;
        tier.full_ratio_micro = r.u32()?;
        tier.min_flush_age_s = r.u32()?;
        tier.min_evict_age_s = r.u32()?;
        Ok(())
    }

    fn decode_extras(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        let tier = &mut self.tier;
        self.erasure_code_profile = r.get()?;
        self.last_force_op_resend_preluminous = r.get()?;
        tier.min_read_recency_for_promote = r.u32()?;
        self.expected_num_objects = r.u64()?;
        tier.dirty_high_ratio_micro = r.u32()?;
        tier.min_write_recency_for_promote = r.u32()?;
        tier.use_gmt_hitset = r.bool()?;
        self.fast_read = r.bool()?;
        tier.hit_set_grade_decay_rate = r.u32()?;
        tier.hit_set_search_last_n = r.u32()?;
        self.opts = r.get()?;
        self.last_force_op_resend_prenautilus = r.get()?;
        self.application_metadata = r.get()?;
        self.create_time = r.get()?;
        self.pg_num_target = r.u32()?;
        self.pgp_num_target = r.u32()?;
        self.pg_num_pending = r.u32()?;
        r.skip(8)?;
        self.last_force_op_resend = r.get()?;
        self.pg_autoscale_mode = r.u8()?;
        self.last_pg_merge_meta = r.get()?;
        Ok(())
    }

    fn decode_peering(&mut self, r: &mut Reader<'_>, version: u8) -> Result<(), DecodeError> {
        self.peering_crush = match version {
            ..30 => None,
            30 => Some(r.get()?),
            _ => r.get()?,
        };
        if version >= 32 {
            self.nonprimary_shards = r.get()?;
        }
        Ok(())
    }
}

impl Decode for PgPool {
    const MIN_LEN: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("pg_pool_t", 29, 32, |r, version| {
            let mut pool = Self::default();
            pool.decode_basics(r)?;
            pool.decode_tiers(r)?;
            pool.decode_extras(r)?;
            pool.decode_peering(r, version)?;
            Ok(pool)
        })
    }
}

/// Returns the bytes of a versioned struct, envelope included.
fn decode_envelope(r: &mut Reader<'_>) -> Result<Bytes, DecodeError> {
    let from = r.rest();
    r.skip(2)?;
    r.sized()?;
    Ok(Bytes::copy_from_slice(&from[..from.len() - r.remaining()]))
}

impl Encode for PoolSnap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.put(&self.id);
            w.put(&self.stamp);
            w.put(&self.name);
        });
    }
}

impl Decode for PoolSnap {
    const MIN_LEN: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("pool_snap_info_t", 2, 2, |r, _| {
            Ok(Self { id: r.get()?, stamp: r.get()?, name: r.get()? })
        })
    }
}

impl Encode for PgMergeMeta {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.source_pgid);
            w.put(&self.ready_epoch);
            w.put(&self.last_epoch_started);
            w.put(&self.last_epoch_clean);
            w.put(&self.source_version);
            w.put(&self.target_version);
        });
    }
}

impl Decode for PgMergeMeta {
    const MIN_LEN: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("pg_merge_meta_t", 1, 1, |r, _| {
            Ok(Self {
                source_pgid: r.get()?,
                ready_epoch: r.get()?,
                last_epoch_started: r.get()?,
                last_epoch_clean: r.get()?,
                source_version: r.get()?,
                target_version: r.get()?,
            })
        })
    }
}

impl Encode for PeeringCrush {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.bucket_count);
        w.u32(self.bucket_target);
        w.u32(self.bucket_barrier);
        w.i32(self.mandatory_member);
    }
}

impl Decode for PeeringCrush {
    const MIN_LEN: usize = 16;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            bucket_count: r.u32()?,
            bucket_target: r.u32()?,
            bucket_barrier: r.u32()?,
            mandatory_member: r.i32()?,
        })
    }
}

/// Encodes two 64-bit words as varints: groups of seven bits, lowest first, with the high bit set in all
/// but the last group of a word.
impl Encode for ShardSet {
    fn encode(&self, w: &mut Writer) {
        for mut word in [self.0.wrapping_as::<u64>(), (self.0 >> 64).wrapping_as::<u64>()] {
            while word >= 0x80 {
                w.u8(word.wrapping_as::<u8>() | 0x80);
                word >>= 7;
            }
            w.u8(word.wrapping_as::<u8>());
        }
    }
}

impl Decode for ShardSet {
    const MIN_LEN: usize = 2;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let low = decode_varint(r)?;
        let high = decode_varint(r)?;
        Ok(Self(u128::from(high) << 64 | u128::from(low)))
    }
}

fn decode_varint(r: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = r.u8()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(DecodeError::Invalid { what: "shard_id_set", value })
}
