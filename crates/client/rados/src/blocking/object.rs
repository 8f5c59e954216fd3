//! Requests with full replies, parts of objects, locks by name, and findings of scrubs.

use std::collections::BTreeMap;

use loligo_wire::EntityNum;

use super::IoCtx;
use crate::{
    Damaged, DamagedObject, DamagedSnaps, Error, LockMode, LockOptions, Name, Outcome, ReadOp, WriteOp,
    WriteOptions,
};

/// Each method is the blocking form of the method of the same name in [`crate::IoCtx`].
impl IoCtx {
    /// Executes changes atomically: all or none. Returns the full reply.
    pub fn execute(
        &self,
        oid: impl Into<Vec<u8>>,
        op: WriteOp,
        options: WriteOptions,
    ) -> Result<Outcome, Error> {
        self.wait(self.inner.execute(oid, op, options))
    }

    /// Executes reads, and returns the full reply.
    pub fn execute_read(&self, oid: impl Into<Vec<u8>>, op: ReadOp) -> Result<Outcome, Error> {
        self.wait(self.inner.execute_read(oid, op))
    }

    /// Calls an object class method that writes.
    pub fn exec_write(
        &self,
        oid: impl Into<Vec<u8>>,
        class: &str,
        method: &str,
        input: &[u8],
    ) -> Result<(), Error> {
        self.wait(self.inner.exec_write(oid, class, method, input))
    }

    /// Returns the allocated parts of a range of an object as offsets and lengths.
    pub fn extents(
        &self,
        oid: impl Into<Vec<u8>>,
        offset: u64,
        len: u64,
    ) -> Result<BTreeMap<u64, u64>, Error> {
        self.wait(self.inner.extents(oid, offset, len))
    }

    /// Renews a lock that this client holds.
    pub fn renew_lock(
        &self,
        oid: impl Into<Vec<u8>>,
        name: impl AsRef<[u8]>,
        mode: LockMode,
        options: &LockOptions,
    ) -> Result<(), Error> {
        self.wait(self.inner.renew_lock(oid, name, mode, options))
    }

    /// Breaks a lock: takes it away from the given holder.
    pub fn break_lock(
        &self,
        oid: impl Into<Vec<u8>>,
        name: impl AsRef<[u8]>,
        client: EntityNum,
        cookie: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.wait(self.inner.break_lock(oid, name, client, cookie))
    }

    /// Returns the names of an object's locks.
    pub fn locks(&self, oid: impl Into<Vec<u8>>) -> Result<Vec<Name>, Error> {
        self.wait(self.inner.locks(oid))
    }

    /// Returns the objects of a placement group that scrubs have found damaged.
    pub fn inconsistent_objects(&self, seed: u32) -> Result<Damaged<DamagedObject>, Error> {
        self.wait(self.inner.inconsistent_objects(seed))
    }

    /// Returns the objects of a placement group whose snapshots scrubs have found damaged.
    pub fn inconsistent_snapsets(&self, seed: u32) -> Result<Damaged<DamagedSnaps>, Error> {
        self.wait(self.inner.inconsistent_snapsets(seed))
    }
}
