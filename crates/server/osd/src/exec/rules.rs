//! The rules of erasure-coded pools (`pg_pool_t::requires_aligned_append`, `supports_omap`, and the
//! checks of `PrimaryLogPG::do_osd_ops`).
//!
//! Without overwrites an object only grows, by writes that begin at its end and at a stripe boundary, or
//! is replaced as a whole. It never has an omap, and a method of an object class cannot read its data,
//! because a stock OSD would have to read it from other OSDs.

use loligo_maps::PgPool;
use loligo_wire::Errno;
use loligo_wire::message::osd::{OpCode, OsdOp};

use super::Execution;

/// The rules of a pool. The default is that of a replicated pool, which allows everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolRules {
    is_erasure: bool,
    /// The stripe's size in bytes, if objects grow only by whole stripes.
    append_by: Option<u32>,
}

impl PoolRules {
    pub(crate) fn of(pool: &PgPool) -> Self {
        let append_by = pool.requires_aligned_append().then_some(pool.stripe_width.max(1));
        Self { is_erasure: pool.is_erasure(), append_by }
    }

    pub(super) fn is_erasure(self) -> bool {
        self.is_erasure
    }

    fn check_write(self, offset: u64, size: u64) -> Result<(), Errno> {
        match self.append_by {
            Some(stripe) if !offset.is_multiple_of(u64::from(stripe)) || offset != size => {
                Err(Errno::EOPNOTSUPP)
            }
            _ => Ok(()),
        }
    }

    fn check_no_append_only(self) -> Result<(), Errno> {
        if self.append_by.is_some() { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
    }
}

impl Execution<'_> {
    /// Refuses an operation that the pool does not allow.
    pub(super) fn check_rules(&self, op: &OsdOp) -> Result<(), Errno> {
        let rules = self.context.rules;
        if !rules.is_erasure {
            return Ok(());
        }
        // An object that does not exist has no data.
        let size = if self.exists { self.size } else { 0 };
        match op.code {
            OpCode::WRITE => rules.check_write(op.extent().offset, size),
            OpCode::WRITESAME if op.write_same_args().length > 0 => {
                rules.check_write(op.write_same_args().offset, size)
            }
            OpCode::APPEND => rules.check_write(size, size),
            OpCode::ZERO | OpCode::TRUNCATE | OpCode::TRIMTRUNC => rules.check_no_append_only(),
            OpCode::MAPEXT
            | OpCode::SYNC_READ
            | OpCode::OMAPSETVALS
            | OpCode::OMAPSETHEADER
            | OpCode::OMAPCLEAR
            | OpCode::OMAPRMKEYS
            | OpCode::OMAPRMKEYRANGE => Err(Errno::EOPNOTSUPP),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use loligo_maps::PoolFlags;

    use super::*;

    /// The results are those of OSDs of 16.2.15 (`LibRadosIoECPP` of Ceph's tests).
    #[test]
    fn objects_grow_by_whole_stripes_until_overwrites_are_allowed() {
        let mut pool = PgPool::erasure(2, 1, 8);
        pool.stripe_width = 8192;
        let rules = PoolRules::of(&pool);
        let expected =
            [(0, 0, true), (8192, 8192, true), (0, 8192, false), (100, 100, false), (8192, 0, false)];
        for (offset, size, allowed) in expected {
            assert_eq!(rules.check_write(offset, size).is_ok(), allowed, "{offset} of {size}");
        }
        assert_eq!(rules.check_no_append_only(), Err(Errno::EOPNOTSUPP));
        pool.flags = pool.flags.union(PoolFlags::EC_OVERWRITES);
        let rules = PoolRules::of(&pool);
        assert_eq!((rules.check_write(5, 100), rules.check_no_append_only()), (Ok(()), Ok(())));
        assert_eq!(PoolRules::of(&PgPool::replicated(3, 8)), PoolRules::default());
    }
}
