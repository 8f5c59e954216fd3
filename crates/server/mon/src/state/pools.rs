//! Creates, changes and removes pools.

use loligo_maps::crush::{Rule, RuleKind};
use loligo_maps::{PgPool, PoolFlags};
use loligo_wire::message::osd::ObjectStatSum;
use loligo_wire::{Epoch, PoolId, UTime};

use super::State;
use crate::Usage;
use crate::failure::{Errno, Failure};
use crate::output::units::bytes;
use crate::text;

/// Maximum number of placement groups of a pool (`mon_max_pool_pg_num`).
pub const PG_NUM_MAX: u32 = 65_536;
/// Maximum number of placement groups of all pools: each takes about 1 KiB of memory.
pub const PGS_MAX: u64 = 131_072;
/// Default number of placement groups of a new pool.
pub const PG_NUM_DEFAULT: u32 = 128;
/// Default number of copies of a new pool (`osd_pool_default_size`), if there are enough OSDs.
const SIZE_DEFAULT: u8 = 3;
/// The maximum number of copies that stock monitors accept.
pub const SIZE_MAX: u8 = 10;
/// The maximum length of a pool's name in bytes. Ceph has no bound; this one keeps maps small.
const NAME_LEN_MAX: usize = 4_096;
/// The setting that must be true before a pool can be removed.
const ALLOW_DELETE: &str = "mon_allow_pool_delete";

/// The result of creating a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The pool is new.
    New(PoolId),
    /// The pool existed.
    Existed(PoolId),
}

/// A pool that has reached its quota, or is below it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaChange {
    /// The pool.
    pub pool: PoolId,
    /// The line for the cluster's log.
    pub line: String,
    /// Whether the quota is reached.
    pub full: bool,
}

impl State {
    /// Sets the full flags of pools that have reached their quotas, and clears those of pools that are
    /// below them again. A stock monitor does this periodically (`OSDMonitor::tick`).
    ///
    /// # Errors
    /// A change cannot be applied.
    pub fn check_quotas(&mut self, now: UTime, usage: &Usage) -> Result<Vec<QuotaChange>, Failure> {
        let map = self.osdmap();
        let name = |id: &PoolId| map.pool_name(*id).map(text::of).unwrap_or_default();
        let changes: Vec<_> = map
            .pools
            .iter()
            .filter_map(|(id, pool)| quota_change(*id, &name(id), pool, &usage.pool(*id)))
            .collect();
        let flags = PoolFlags::FULL_QUOTA.union(PoolFlags::FULL);
        for QuotaChange { pool, full, .. } in &changes {
            self.change_pool(now, *pool, |pool| {
                pool.flags = if *full { pool.flags.union(flags) } else { pool.flags.difference(flags) };
            })?;
        }
        Ok(changes)
    }

    /// The id of a pool.
    ///
    /// # Errors
    /// No pool has this name.
    pub fn pool_id(&self, name: &str) -> Result<PoolId, Failure> {
        let id = self.osdmap().pool_by_name(&text::to_bytes(name));
        id.ok_or_else(|| Failure::missing(format!("unrecognized pool '{name}'")))
    }

    /// The default number of placement groups of a new pool.
    pub fn pg_num_default(&self) -> u32 {
        let said = self.own_value("osd_pool_default_pg_num").and_then(|text| text.parse().ok());
        said.filter(|n| (1..=PG_NUM_MAX).contains(n)).unwrap_or(PG_NUM_DEFAULT)
    }

    /// The number of placement groups of a new pool; `asked` 0 selects the default.
    pub(super) fn pg_num_of_new_pool(&self, asked: u32) -> Result<u32, Failure> {
        check_pg_num(asked)?;
        let pg_num = if asked == 0 { self.pg_num_default() } else { asked };
        self.check_pgs(pg_num, 0)?;
        Ok(pg_num)
    }

    /// Checks that `pg_num` placement groups may be added in place of `replaced` ones.
    fn check_pgs(&self, pg_num: u32, replaced: u32) -> Result<(), Failure> {
        let there: u64 = self.osdmap().pools.values().map(|pool| u64::from(pool.pg_num())).sum();
        let all = there.saturating_sub(u64::from(replaced)) + u64::from(pg_num);
        if pg_num <= replaced || all <= PGS_MAX {
            return Ok(());
        }
        let status = format!("pg_num {pg_num} would mean {all} total pgs, which exceeds max {PGS_MAX}");
        Err(Failure::new(Errno::ERANGE, status))
    }

    /// The maximum number of copies of a pool, which is limited by the number of OSDs.
    pub fn size_max(&self) -> u8 {
        let osds = self.served_osds().count().max(1);
        u8::try_from(osds).unwrap_or(SIZE_MAX).min(SIZE_MAX)
    }

    /// The default number of copies of a new pool.
    fn size_default(&self) -> u8 {
        let said = self.own_value("osd_pool_default_size").and_then(|text| text.parse::<u8>().ok());
        said.filter(|size| *size > 0).unwrap_or(SIZE_DEFAULT).min(self.size_max())
    }

    /// Creates a pool of the default size, unless it exists already. `pg_num` 0 selects the default.
    ///
    /// # Errors
    /// An empty or overlong name; too many placement groups.
    pub fn create_pool(&mut self, now: UTime, name: &str, pg_num: u32) -> Result<Created, Failure> {
        self.create_replicated_pool(now, name, pg_num, None, None)
    }

    /// Creates a pool with `size` copies, placed by a CRUSH rule. The defaults are the default size and
    /// the first rule for replicated pools.
    ///
    /// # Errors
    /// As [`State::create_pool`].
    pub fn create_replicated_pool(
        &mut self,
        now: UTime,
        name: &str,
        pg_num: u32,
        size: Option<u8>,
        crush_rule: Option<u8>,
    ) -> Result<Created, Failure> {
        if let Some(id) = self.osdmap().pool_by_name(&text::to_bytes(name)) {
            return Ok(Created::Existed(id));
        }
        check_name(name)?;
        let pg_num = self.pg_num_of_new_pool(pg_num)?;
        let size = size.unwrap_or_else(|| self.size_default());
        let crush_rule = crush_rule.unwrap_or_else(|| self.first_replicated_rule());
        let (mut id, flag) = (PoolId(0), self.flag_of_new_pools());
        self.change_osdmap(now, |map, inc| {
            let mut pool = PgPool::replicated(size, pg_num);
            pool.crush_rule = crush_rule;
            pool.flags = pool.flags.union(flag);
            id = inc.create_pool(map, text::name(name), pool)
        })?;
        Ok(Created::New(id))
    }

    fn first_replicated_rule(&self) -> u8 {
        let is_for_copies =
            |rule: &Option<Rule>| rule.as_ref().is_some_and(|r| r.kind == RuleKind::REPLICATED);
        let first = self.osdmap().crush.rules.iter().position(is_for_copies);
        first.and_then(|number| u8::try_from(number).ok()).unwrap_or_default()
    }

    /// Removes a pool and all its objects.
    ///
    /// # Errors
    /// The setting `mon_allow_pool_delete` or the pool's flag `nodelete` forbids it.
    pub fn remove_pool(&mut self, now: UTime, id: PoolId) -> Result<(), Failure> {
        let Some(pool) = self.osdmap().pool(id) else { return Ok(()) };
        if !self.own_flag(ALLOW_DELETE) {
            let status = format!(
                "pool deletion is disabled; you must first set the {ALLOW_DELETE} config option to true \
                 before you can destroy a pool"
            );
            return Err(Failure::new(Errno::EPERM, status));
        }
        if pool.flags.contains(PoolFlags::NODELETE) {
            let status = "pool deletion is disabled; you must unset nodelete flag for the pool first";
            return Err(Failure::new(Errno::EPERM, status));
        }
        self.change_osdmap(now, |map, inc| inc.remove_pool(map, id))?;
        self.filed_by.remove(&id);
        Ok(())
    }

    /// Splits or merges a pool's placement groups: the pool has `pg_num` of them from the next epoch on.
    /// Its objects stay stored by the original number.
    ///
    /// # Errors
    /// `pg_num` is 0 or too large.
    pub fn set_pg_num(&mut self, now: UTime, id: PoolId, pg_num: u32) -> Result<(), Failure> {
        if pg_num == 0 {
            return Err(pg_num_out_of_range());
        }
        check_pg_num(pg_num)?;
        let Some(before) = self.osdmap().pool(id).map(PgPool::pg_num) else { return Ok(()) };
        self.check_pgs(pg_num, before)?;
        let epoch = Epoch(self.osdmap().epoch.0 + 1);
        self.change_pool(now, id, |pool| {
            pool.set_pg_num(pg_num);
            // Newer clients detect by themselves that their placement group has changed.
            pool.last_force_op_resend_prenautilus = epoch;
            pool.last_force_op_resend_preluminous = epoch;
        })?;
        let filed_by = *self.filed_by.entry(id).or_insert(before);
        if filed_by == pg_num {
            self.filed_by.remove(&id);
        }
        Ok(())
    }

    /// Renames a pool.
    pub fn rename_pool(&mut self, now: UTime, id: PoolId, name: &str) -> Result<(), Failure> {
        check_name(name)?;
        let rename = |inc: &mut loligo_maps::Incremental| inc.new_pool_names.insert(id, text::name(name));
        self.change_osdmap(now, |_, inc| drop(rename(inc))).map(|_| ())
    }

    /// Changes a pool. Makes no new epoch if nothing changes.
    pub fn change_pool(
        &mut self,
        now: UTime,
        id: PoolId,
        change: impl FnOnce(&mut PgPool),
    ) -> Result<(), Failure> {
        let missing = || Failure::missing(format!("there is no pool {id}"));
        let before = self.osdmap().pool(id).ok_or_else(missing)?;
        let mut after = before.clone();
        change(&mut after);
        if after == *before {
            return Ok(());
        }
        self.change_osdmap(now, |_, inc| drop(inc.new_pools.insert(id, after))).map(|_| ())
    }
}

fn quota_change(id: PoolId, name: &str, pool: &PgPool, held: &ObjectStatSum) -> Option<QuotaChange> {
    let reached = |max: u64, held: i64| max > 0 && u64::try_from(held).is_ok_and(|held| held >= max);
    let reason = if reached(pool.quota_max_bytes, held.num_bytes.saturating_add(held.num_omap_bytes)) {
        Some(format!("max_bytes: {}", bytes(pool.quota_max_bytes)))
    } else if reached(pool.quota_max_objects, held.num_objects) {
        Some(format!("max_objects: {}", pool.quota_max_objects))
    } else {
        None
    };
    let line = match (&reason, pool.flags.contains(PoolFlags::FULL_QUOTA)) {
        (Some(reason), false) => format!("pool '{name}' is full (reached quota's {reason})"),
        (None, true) => format!("pool '{name}' no longer out of quota; removing NO_QUOTA flag"),
        _ => return None,
    };
    Some(QuotaChange { pool: id, line, full: reason.is_some() })
}

pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    match name.len() {
        0 => Err(Failure::invalid("a pool needs a name")),
        1..=NAME_LEN_MAX => Ok(()),
        len => Err(Failure::invalid(format!("the name has {len} bytes, a pool's may have {NAME_LEN_MAX}"))),
    }
}

/// Checks the upper bound. 0 selects the default.
fn check_pg_num(pg_num: u32) -> Result<(), Failure> {
    if pg_num <= PG_NUM_MAX {
        return Ok(());
    }
    Err(pg_num_out_of_range())
}

fn pg_num_out_of_range() -> Failure {
    let status = format!("'pg_num' must be greater than 0 and less than or equal to {PG_NUM_MAX}");
    Failure::new(Errno::ERANGE, status)
}
