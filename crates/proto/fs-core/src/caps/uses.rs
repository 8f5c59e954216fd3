//! What uses an inode's capabilities: open files, operations, cached and buffered data.

use loligo_types::Caps;

/// How a file was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenMode {
    /// For reading.
    pub reads: bool,
    /// For writing.
    pub writes: bool,
    /// Without coherence (lazy I/O).
    pub is_lazy: bool,
}

impl OpenMode {
    /// What a client wants for a file that is open like this (`ceph_caps_for_mode`).
    pub fn wanted(self) -> Caps {
        let mut wanted = Caps::PIN;
        if self.reads {
            wanted |= Caps::FILE_SHARED | Caps::FILE_RD | Caps::FILE_CACHE;
        }
        if self.writes {
            wanted |= Caps::FILE_EXCL | Caps::FILE_WR | Caps::FILE_BUFFER;
            wanted |= Caps::ANY_AUTH | Caps::ANY_XATTR;
        }
        if self.is_lazy {
            wanted |= Caps::FILE_LAZYIO;
        }
        wanted
    }
}

/// What an operation does with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads: from the cache, or from the store.
    Read,
    /// It writes: into the buffer, or to the store.
    Write,
}

impl Access {
    /// The capability without which the operation cannot run.
    pub fn need(self) -> Caps {
        match self {
            Self::Read => Caps::FILE_RD,
            Self::Write => Caps::FILE_WR,
        }
    }

    /// The capability with which the operation need not go to the store.
    pub fn want(self) -> Caps {
        match self {
            Self::Read => Caps::FILE_CACHE,
            Self::Write => Caps::FILE_BUFFER,
        }
    }
}

/// The capabilities that an operation uses until [`InodeCaps::put`](super::InodeCaps::put).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the capabilities stay in use until `InodeCaps::put`"]
pub struct Hold {
    pub(super) access: Access,
    pub(super) is_local: bool,
}

impl Hold {
    /// Whether the operation may use the cache (reads) or the buffer (writes).
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// What kind of operation it is.
    pub fn access(&self) -> Access {
        self.access
    }
}

/// Counts of operations in progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Running {
    pub(super) reads: u32,
    pub(super) cached_reads: u32,
    pub(super) writes: u32,
    pub(super) buffered_writes: u32,
}

impl Running {
    pub(super) fn count(&mut self, hold: &Hold) -> &mut u32 {
        match (hold.access, hold.is_local) {
            (Access::Read, false) => &mut self.reads,
            (Access::Read, true) => &mut self.cached_reads,
            (Access::Write, false) => &mut self.writes,
            (Access::Write, true) => &mut self.buffered_writes,
        }
    }

    pub(super) fn used(self) -> Caps {
        let mut used = Caps::NONE;
        if self.reads + self.cached_reads > 0 {
            used |= Caps::FILE_RD;
        }
        if self.cached_reads > 0 {
            used |= Caps::FILE_CACHE;
        }
        if self.writes + self.buffered_writes > 0 {
            used |= Caps::FILE_WR;
        }
        if self.buffered_writes > 0 {
            used |= Caps::FILE_BUFFER;
        }
        used
    }
}

/// Files that are open, by what they want.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opens {
    pub(super) readers: u32,
    pub(super) writers: u32,
    pub(super) lazy: u32,
}

impl Opens {
    pub(super) fn add(&mut self, mode: OpenMode) {
        self.readers += u32::from(mode.reads);
        self.writers += u32::from(mode.writes);
        self.lazy += u32::from(mode.is_lazy);
    }

    pub(super) fn remove(&mut self, mode: OpenMode) {
        self.readers = self.readers.saturating_sub(u32::from(mode.reads));
        self.writers = self.writers.saturating_sub(u32::from(mode.writes));
        self.lazy = self.lazy.saturating_sub(u32::from(mode.is_lazy));
    }

    /// What the open files want together; nothing if none is open.
    pub(super) fn wanted(self) -> Caps {
        let mode = OpenMode { reads: self.readers > 0, writes: self.writers > 0, is_lazy: self.lazy > 0 };
        if mode.reads || mode.writes || mode.is_lazy { mode.wanted() } else { Caps::NONE }
    }
}

/// What the owner remembers of a directory's names. It is true as long as Fs is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Names {
    /// Nothing.
    #[default]
    None,
    /// What some of them mean.
    Some,
    /// All of them: a name that is not remembered does not exist.
    All,
}

/// Data of the inode in the client's cache, equal to that in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cache {
    /// There is none.
    #[default]
    Empty,
    /// There may be some, and it is true as long as Fc is held.
    Filled,
    /// There is some which must not be used. It is dropped once no operation uses the cache.
    Void,
    /// The owner drops it now.
    Dropping,
}

/// Written data that the store does not have yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Buffer {
    #[default]
    Clean,
    Dirty,
    /// The owner writes it to the store now.
    Flushing,
    /// The owner writes some of it to the store now; more has come since it began.
    Refilled,
}

impl Buffer {
    /// More data has come.
    pub(super) fn fill(&mut self) {
        *self = match self {
            Self::Clean | Self::Dirty => Self::Dirty,
            Self::Flushing | Self::Refilled => Self::Refilled,
        };
    }

    /// What was being written when the flush began is in the store.
    pub(super) fn flushed(&mut self) {
        *self = match self {
            Self::Clean | Self::Flushing => Self::Clean,
            Self::Dirty | Self::Refilled => Self::Dirty,
        };
    }

    pub(super) fn is_flushing(self) -> bool {
        matches!(self, Self::Flushing | Self::Refilled)
    }
}
