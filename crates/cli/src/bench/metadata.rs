use loligo_wire::{DecodeError, Reader, Writer};

use crate::client::Pool;
use crate::failure::{Context, Failure};

/// The object in which a run without a name describes itself.
const LAST_RUN: &str = "benchmark_last_metadata";

/// What a write run leaves for those that read or remove its objects; the format is `rados bench`'s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    object_bytes: u64,
    /// Objects written: numbers 0 to this, exclusive.
    pub(crate) objects: u64,
    pid: i32,
    op_bytes: u64,
    prefix: String,
}

impl Metadata {
    /// A run of this process that has written nothing yet.
    pub(super) fn of_this_process(bytes: u64) -> Self {
        let pid = std::process::id().cast_signed();
        Self { object_bytes: bytes, objects: 0, pid, op_bytes: bytes, prefix: prefix() }
    }

    /// The same run when it has written more.
    pub(super) fn with_objects(&self, objects: u64) -> Self {
        Self { objects, ..self.clone() }
    }

    /// The object of a number.
    pub(super) fn object(&self, number: u64) -> String {
        format!("{}_{}_object{number}", self.prefix, self.pid)
    }

    pub(super) fn op_bytes(&self) -> u64 {
        self.op_bytes
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
        w.i32(i32::try_from(self.objects).unwrap_or(i32::MAX));
        w.i32(self.pid);
        w.u64(self.op_bytes);
        w.into_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let object_bytes = r.u64()?;
        let objects = r.i32()?.max(0).cast_unsigned().into();
        Ok(Self { object_bytes, objects, pid: r.i32()?, op_bytes: r.u64()?, prefix: prefix() })
    }
}

/// What the names of all benches' objects begin with.
pub(super) const PREFIX: &str = "benchmark_data";

/// Objects carry the name of the host, so that two hosts can bench one pool.
pub(super) fn prefix() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{PREFIX}_{}", host.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let metadata = Metadata { objects: 7, ..Metadata::of_this_process(4096) };
        assert_eq!(Metadata::decode(&metadata.encode()), Ok(metadata));
        assert!(Metadata::decode(b"short").is_err());
    }
}
