//! Whether a listing has shown all names of a directory.
//!
//! A client that remembers all names need not ask for one that it does not remember. It does after a listing
//! from the first name to the last, unless it has forgotten a name meanwhile: whatever comes or goes by
//! requests of its own, and whatever it is told, it takes over at once. What others do ends Fs, and with it
//! everything.

/// The count at the beginning of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    releases: u64,
}

/// Counts what leaves a client's memory of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completeness {
    releases: u64,
}

impl Completeness {
    /// A listing begins at the first name; Fs is held.
    pub fn begin(&self) -> Mark {
        Mark { releases: self.releases }
    }

    /// A listing from the first name to the last has ended. Returns whether all names are remembered.
    pub fn finish(&self, mark: Mark) -> bool {
        mark.releases == self.releases
    }

    /// A name that may exist was forgotten, or Fs is gone: listings in progress do not show all names.
    pub fn released(&mut self) {
        self.releases = self.releases.wrapping_add(1);
    }
}
