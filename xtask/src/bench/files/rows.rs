//! The rows of the table.

/// A row of the table.
#[derive(Clone, Copy)]
pub(in super::super) struct Row {
    pub(super) name: &'static str,
    pub(super) mode: &'static str,
    pub(super) block: u64,
    pub(super) jobs: u32,
    pub(super) file_size: u64,
    pub(super) is_direct: bool,
    pub(super) is_warm: bool,
    pub(super) what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Load,
    /// The OSD gets each request 20 ms late on average, whatever else it does.
    Delayed,
    /// Another client opens the file that is being written.
    Taken,
}

const MIB: u64 = 1 << 20;

impl Row {
    const NONE: Self = Self {
        name: "",
        mode: "",
        block: 4096,
        jobs: 1,
        file_size: 256 * MIB,
        is_direct: false,
        is_warm: false,
        what: What::Load,
    };

    pub(in super::super) const ALL: [Self; 16] = [
        Self::data("cephfs direct write, 1 MiB calls", "write", MIB, 1),
        Self::data("cephfs direct write, 64 MiB calls", "write", 64 * MIB, 1),
        Self::data("cephfs direct 4 KiB random write, 1 job", "randwrite", 4096, 1),
        Self::data("cephfs direct 4 KiB random write, 8 jobs", "randwrite", 4096, 8),
        Self::data("cephfs buffered write, 1 MiB calls", "write", MIB, 1).buffered(),
        Self::data("cephfs read, 1 MiB calls, cold", "read", MIB, 1).buffered(),
        Self::data("cephfs cached 4 KiB reads, 8 threads", "randread", 4096, 8).buffered().sized(16).warm(),
        Self::names("cephfs create", "create", 8),
        Self::names("cephfs stat, cold", "stat", 8),
        Self::names("cephfs stat, warm", "stat", 8).warm(),
        Self::names("cephfs readdir with stats, cold", "readdir", 1),
        Self::names("cephfs readdir with stats, warm", "readdir", 1).warm(),
        Self::names("cephfs unlink", "unlink", 8),
        Self::data("cephfs opened while another writes, direct", "write", 65536, 4).sized(64).taken(),
        Self::data("cephfs opened while another writes, buffered", "write", 65536, 4)
            .buffered()
            .sized(64)
            .taken(),
        Self::data("cephfs direct write of 16 objects, 20 ms each", "write", 64 * MIB, 1).sized(64).late(),
    ];

    const fn data(name: &'static str, mode: &'static str, block: u64, jobs: u32) -> Self {
        Self { name, mode, block, jobs, is_direct: true, ..Self::NONE }
    }

    const fn names(name: &'static str, mode: &'static str, jobs: u32) -> Self {
        Self { name, mode, jobs, ..Self::NONE }
    }

    const fn late(self) -> Self {
        Self { what: What::Delayed, ..self }
    }

    const fn taken(self) -> Self {
        Self { what: What::Taken, ..self }
    }

    const fn buffered(self) -> Self {
        Self { is_direct: false, ..self }
    }

    const fn warm(self) -> Self {
        Self { is_warm: true, ..self }
    }

    const fn sized(self, mib: u64) -> Self {
        Self { file_size: mib * MIB, ..self }
    }

    pub(in super::super) fn name(&self) -> &'static str {
        self.name
    }
}
