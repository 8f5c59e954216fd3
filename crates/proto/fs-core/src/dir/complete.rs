//! Whether a client's memory has all entries of a directory, and in their order.

/// The counts at the beginning of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    releases: u64,
    insertions: u64,
}

/// What a listing has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Every entry is in memory: a name that is not there does not exist.
    pub is_complete: bool,
    /// The entries are also in the order of the listing, so it can be repeated from memory.
    pub is_ordered: bool,
}

/// What is known of a directory's entries in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completeness {
    releases: u64,
    insertions: u64,
    state: Completed,
}

impl Completeness {
    /// What is known now. It counts only while Fs is held.
    pub fn state(&self) -> Completed {
        self.state
    }

    /// A listing begins at the first entry.
    pub fn begin(&self) -> Mark {
        Mark { releases: self.releases, insertions: self.insertions }
    }

    /// A listing from the first entry to the last has ended.
    pub fn finish(&mut self, mark: Mark) -> Completed {
        let is_complete = mark.releases == self.releases;
        let is_ordered = is_complete && mark.insertions == self.insertions;
        if is_complete {
            self.state = Completed { is_complete, is_ordered };
        }
        self.state
    }

    /// The directory is new, or known to be empty.
    pub fn empty(&mut self) {
        self.state = Completed { is_complete: true, is_ordered: true };
    }

    /// An entry has left memory, or Fs is gone: listings in progress do not complete the directory.
    pub fn released(&mut self) {
        self.releases += 1;
        self.state = Completed::default();
    }

    /// An entry was added outside of a listing: the order is lost, completeness is not.
    pub fn inserted(&mut self) {
        self.insertions += 1;
        self.state.is_ordered = false;
    }
}
