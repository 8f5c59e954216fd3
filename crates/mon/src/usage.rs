use std::collections::BTreeMap;

use loligo_wire::PoolId;
use loligo_wire::message::osd::ObjectStatSum;

/// Whoever stores the cluster's objects.
pub trait UsageSource: Send + Sync {
    /// What the cluster holds now. Called while the monitor works: must not wait.
    fn usage(&self) -> Usage;
}

/// What the cluster holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The store's space.
    pub space: Space,
    /// What pools hold, and what was done with them.
    pub pools: BTreeMap<PoolId, ObjectStatSum>,
}

impl Usage {
    /// What a pool holds; zeros for an unknown one.
    pub fn pool(&self, pool: PoolId) -> ObjectStatSum {
        self.pools.get(&pool).copied().unwrap_or_default()
    }
}

/// Space of the store, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// All.
    pub total: u64,
    /// In use.
    pub used: u64,
}

impl Space {
    /// What is free.
    pub fn available(self) -> u64 {
        self.total.saturating_sub(self.used)
    }

    /// The part in use, from 0 to 1.
    pub fn used_ratio(self) -> f64 {
        if self.total == 0 { 0.0 } else { self.used as f64 / self.total as f64 }
    }
}
