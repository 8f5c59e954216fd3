//! Features of stored data (`CompatSet` in `src/include/CompatSet.h`), which decide whether a daemon may
//! use what another one has written.

use std::collections::BTreeMap;

use loligo_wire::{Decode, DecodeError, Encode, Reader, Writer};

use crate::Name;

/// Three sets of features.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompatSet {
    /// A daemon without these may read and write.
    pub compat: CompatFeatures,
    /// A daemon without these may read.
    pub ro_compat: CompatFeatures,
    /// A daemon without these may do nothing.
    pub incompat: CompatFeatures,
}

/// A set of features.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompatFeatures {
    /// The bits of the features.
    pub mask: u64,
    /// Their names, by number.
    pub names: BTreeMap<u64, Name>,
}

impl CompatFeatures {
    /// Creates a set of named features.
    pub fn of(features: &[(u32, &str)]) -> Self {
        Self {
            mask: features.iter().fold(0, |mask, (number, _)| mask | 1 << number),
            names: features.iter().map(|(number, name)| (u64::from(*number), Name::from(*name))).collect(),
        }
    }
}

impl Encode for CompatFeatures {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.mask);
        w.put(&self.names);
    }
}

impl Decode for CompatFeatures {
    const MIN_LEN: usize = 12;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { mask: r.u64()?, names: r.get()? })
    }
}

impl Encode for CompatSet {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.compat);
        w.put(&self.ro_compat);
        w.put(&self.incompat);
    }
}

impl Decode for CompatSet {
    const MIN_LEN: usize = 36;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { compat: r.get()?, ro_compat: r.get()?, incompat: r.get()? })
    }
}
