//! The parts of the map, and the objects of other placement groups, that a request may read.

use loligo_maps::PgPool;
use loligo_store::Collection;
use loligo_wire::{OsdId, PgId, PoolId, SnapId};

use crate::filing::Cut;

/// All pools of a map and the positions of their objects.
pub(crate) trait Elsewhere: Send + Sync {
    /// The map's entry of a pool.
    fn facts(&self, pool: PoolId) -> Option<&PgPool>;

    /// How the pool's objects are filed.
    fn filed(&self, pool: PoolId) -> Option<Cut>;

    /// The collection for objects of this hash, if its slot is opened.
    fn collection(&self, pool: PoolId, hash: u32) -> Option<&dyn Collection>;

    /// Whether a snapshot of a pool is being removed.
    fn is_removed(&self, pool: PoolId, snap: SnapId) -> bool;

    /// The primary OSD for a placement group's requests.
    fn acting_primary(&self, pg: PgId) -> Option<OsdId>;
}
