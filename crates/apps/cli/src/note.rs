//! The state of a source, and how far it has been carried: what notes on unfinished transfers tell.

use std::fs::Metadata as LocalMetadata;
use std::os::unix::fs::MetadataExt as _;

use loligo_fs::Metadata;
use serde::{Deserialize, Serialize};

/// The size in a note whose source has no known size.
pub(crate) const NO_SIZE: u64 = u64::MAX;

/// The state of a source, and the extent to which it has been carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) size: u64,
    mtime: i64,
    mtime_nsec: i64,
    /// All data before this byte is there.
    pub(crate) written: u64,
}

impl Note {
    /// Creates a note for a local file as the source.
    pub(crate) fn of_local(meta: &LocalMetadata) -> Self {
        Self { size: meta.len(), mtime: meta.mtime(), mtime_nsec: meta.mtime_nsec(), written: 0 }
    }

    /// Creates a note for a file of a file system as the source.
    pub(crate) fn of_remote(meta: &Metadata) -> Self {
        let (mtime, mtime_nsec) = (meta.mtime.sec.into(), meta.mtime.nsec.into());
        Self { size: meta.size, mtime, mtime_nsec, written: 0 }
    }

    /// Creates a note for an operation that cannot be resumed: input from a pipe, a copy, a truncation,
    /// a removal.
    pub(crate) fn without_source(written: u64) -> Self {
        Self { size: NO_SIZE, mtime: 0, mtime_nsec: 0, written }
    }

    /// Returns the note with a new value of `written`.
    pub(crate) fn up_to(self, written: u64) -> Self {
        Self { written, ..self }
    }

    /// Returns `true` if both notes are about the same state of a source.
    pub(crate) fn has_source_of(&self, other: &Self) -> bool {
        self.size != NO_SIZE && *self == Self { written: self.written, ..*other }
    }

    /// Returns `true` if all is there.
    pub(crate) fn is_whole(&self) -> bool {
        self.written >= self.size
    }

    /// Returns the note's text.
    pub(crate) fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers are JSON")
    }

    /// Parses a note. An unreadable note counts as none.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_counts_for_the_same_state_of_the_same_source() {
        let note = |size, written| Note { size, mtime: 7, mtime_nsec: 8, written };
        assert!(note(5, 5).is_whole() && note(5, 6).is_whole() && note(0, 0).is_whole());
        assert!(!note(5, 4).is_whole() && !Note::without_source(9).is_whole());
        assert!(note(5, 2).has_source_of(&note(5, 0)) && !note(5, 2).has_source_of(&note(6, 2)));
        let piped = Note::without_source(3);
        assert!(!piped.has_source_of(&Note::without_source(0)));
        assert_eq!((Note::parse(&note(5, 2).text()), Note::parse(b"mine")), (Some(note(5, 2)), None));
        // The format of earlier versions.
        let earlier = br#"{"size":9,"mtime":7,"mtime_nsec":8,"written":4}"#;
        assert_eq!(Note::parse(earlier), Some(note(9, 4)));
    }
}
