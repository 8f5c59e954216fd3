//! What a request may ask of its map, and of objects of other placement groups.

use loligo_maps::PgPool;
use loligo_store::Collection;
use loligo_wire::{OsdId, PgId, PoolId, SnapId};

use crate::filing::Cut;

/// All pools of a map, and where their objects are.
pub(crate) trait Elsewhere: Send + Sync {
    /// What the map says of a pool.
    fn facts(&self, pool: PoolId) -> Option<&PgPool>;

    /// How the pool's objects are filed.
    fn filed(&self, pool: PoolId) -> Option<Cut>;

    /// The collection that has the objects of this hash, if there ever were any.
    fn collection(&self, pool: PoolId, hash: u32) -> Option<&dyn Collection>;

    /// Whether a snapshot of a pool is being removed.
    fn is_removed(&self, pool: PoolId, snap: SnapId) -> bool;

    /// The OSD that requests for a placement group go to.
    fn acting_primary(&self, pg: PgId) -> Option<OsdId>;
}
