//! Optional settings of pools.

use std::collections::BTreeMap;

use loligo_wire::{Decode, DecodeError, Encode, Reader, Writer};

use crate::Name;

/// The optional settings of a pool (`pool_opts_t`), which few pools have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolOpts(pub BTreeMap<PoolOptKey, PoolOpt>);

/// The number of a setting (`pool_opts_t::key_t`). Releases only add numbers; unknown ones are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolOptKey(pub i32);

impl PoolOptKey {
    /// Seconds between scrubs.
    pub const SCRUB_MIN_INTERVAL: Self = Self(0);
    /// Seconds between deep scrubs.
    pub const DEEP_SCRUB_INTERVAL: Self = Self(2);
    /// The minimum number of PGs that the autoscaler may choose.
    pub const PG_NUM_MIN: Self = Self(15);
    /// The maximum number of PGs that the autoscaler may choose.
    pub const PG_NUM_MAX: Self = Self(23);
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum PoolOpt {
    /// Text.
    Text(Name),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
}

impl Encode for PoolOpts {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.count(self.0.len());
            for (key, value) in &self.0 {
                w.i32(key.0);
                match value {
                    PoolOpt::Text(text) => {
                        w.i32(0);
                        w.put(text);
                    }
                    PoolOpt::Int(n) => {
                        w.i32(1);
                        w.i64(*n);
                    }
                    PoolOpt::Double(x) => {
                        w.i32(2);
                        w.u64(x.to_bits());
                    }
                }
            }
        });
    }
}

impl Decode for PoolOpts {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("pool_opts_t", 1, 2, |r, version| {
            let n = r.count(12)?;
            let opts = (0..n).map(|_| Ok((PoolOptKey(r.i32()?), decode_value(r, version)?)));
            opts.collect::<Result<_, _>>().map(Self)
        })
    }
}

fn decode_value(r: &mut Reader<'_>, version: u8) -> Result<PoolOpt, DecodeError> {
    Ok(match r.i32()? {
        0 => PoolOpt::Text(r.get()?),
        1 if version < 2 => PoolOpt::Int(i64::from(r.i32()?)),
        1 => PoolOpt::Int(r.i64()?),
        2 => PoolOpt::Double(f64::from_bits(r.u64()?)),
        other => {
            return Err(DecodeError::Invalid {
                what: "pool option type",
                value: i64::from(other).cast_unsigned(),
            });
        }
    })
}
