//! The object in which a write run describes itself, for read runs and `cleanup`.

use loligo_wire::{DecodeError, Reader, Writer};

use crate::client::Pool;
use crate::failure::{Context, Failure};

/// The metadata object of a run without a name.
const LAST_RUN: &str = "benchmark_last_metadata";

/// The description of a write run, for read runs and `cleanup`; the format is `rados bench`'s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    object_bytes: u64,
    /// Number of operations; they are numbered from 0.
    pub(crate) ops: u64,
    pid: i32,
    op_bytes: u64,
    prefix: String,
}

/// The range of an object that an operation writes or reads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) object: String,
    pub(super) offset: u64,
}

impl Metadata {
    /// Creates the metadata of a run of this process that has written nothing yet. An object is never
    /// smaller than an operation.
    pub(super) fn of_this_process(op_bytes: u64, object_bytes: u64) -> Self {
        let pid = std::process::id().cast_signed();
        Self { object_bytes, ops: 0, pid, op_bytes: op_bytes.min(object_bytes), prefix: prefix() }
    }

    /// Returns the same metadata with another number of operations.
    pub(super) fn with_ops(&self, ops: u64) -> Self {
        Self { ops, ..self.clone() }
    }

    /// Returns the number of objects that the operations touch.
    pub(super) fn objects(&self) -> u64 {
        self.ops.div_ceil(self.ops_per_object())
    }

    /// Only whole operations count: if an object's size is no multiple of theirs, its end stays
    /// unwritten.
    pub(super) fn ops_per_object(&self) -> u64 {
        self.object_bytes.checked_div(self.op_bytes).unwrap_or(1).max(1)
    }

    /// Returns the name of the object with this number.
    pub(super) fn object(&self, number: u64) -> String {
        format!("{}_{}_object{number}", self.prefix, self.pid)
    }

    /// Returns the target of an operation: an object is filled before the next one begins.
    pub(super) fn target(&self, op: u64) -> Target {
        let per_object = self.ops_per_object();
        Target { object: self.object(op / per_object), offset: op % per_object * self.op_bytes }
    }

    pub(super) fn op_bytes(&self) -> u64 {
        self.op_bytes
    }

    pub(super) fn object_bytes(&self) -> u64 {
        self.object_bytes
    }

    pub(super) fn object_name(run_name: Option<&str>) -> &str {
        run_name.unwrap_or(LAST_RUN)
    }

    pub(super) async fn read(pool: &Pool, run_name: Option<&str>) -> Result<Self, Failure> {
        let name = Self::object_name(run_name);
        let what = || format!("{} (left by a write run with --no-cleanup)", pool.names("read", name));
        let bytes = pool.ioctx.read(name, 0, 0).await.context(what)?;
        Self::decode(&bytes).context(what)
    }

    pub(super) async fn write(&self, pool: &Pool, run_name: Option<&str>) -> Result<(), Failure> {
        let name = Self::object_name(run_name);
        let done = pool.ioctx.write_full(name, self.encode().into()).await;
        done.context(|| pool.names("write", name))
    }

    fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u64(self.object_bytes);
        w.i32(i32::try_from(self.ops).unwrap_or(i32::MAX));
        w.i32(self.pid);
        w.u64(self.op_bytes);
        w.into_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let object_bytes = r.u64()?;
        let ops = r.i32()?.max(0).cast_unsigned().into();
        let pid = r.i32()?;
        // Releases before 0.94 wrote no more; each operation was an object.
        let op_bytes = if r.is_empty() { object_bytes } else { r.u64()? };
        Ok(Self { object_bytes, ops, pid, op_bytes, prefix: prefix() })
    }
}

/// The prefix of the names of all benches' objects.
pub(super) const PREFIX: &str = "benchmark_data";

/// The names contain the host's name, so that two hosts can bench one pool.
pub(super) fn prefix() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{PREFIX}_{}", host.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let metadata = Metadata { ops: 7, ..Metadata::of_this_process(4096, 20_000) };
        assert_eq!(Metadata::decode(&metadata.encode()), Ok(metadata));
        assert!(Metadata::decode(b"short").is_err());
    }

    #[test]
    fn operations_fill_an_object_before_the_next() {
        // The layout of `rados bench write -b 4096 -O 20000` of 16.2.15: four operations to an object.
        let run = Metadata { ops: 9, ..Metadata::of_this_process(4096, 20_000) };
        let targets: Vec<_> = (0..run.ops).map(|op| run.target(op)).collect();
        let offsets: Vec<_> = targets.iter().map(|target| target.offset).collect();
        assert_eq!(offsets, [0, 4096, 8192, 12288, 0, 4096, 8192, 12288, 0]);
        assert_eq!((run.objects(), &targets[8].object), (3, &run.object(2)));
        // With -O 1000 an operation has 1000 bytes as well.
        assert_eq!(Metadata::of_this_process(4096, 1000).op_bytes(), 1000);
        let hostile = Metadata { op_bytes: 0, ..run };
        assert_eq!((hostile.ops_per_object(), hostile.target(5).offset), (1, 0));
    }
}
