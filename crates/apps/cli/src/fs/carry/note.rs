//! Notes on how far a transfer has come: a later one with `--resume` goes on from there.
//!
//! A put keeps its note in an attribute of the file that it writes, a get in a file beside the local one. A
//! note is made when what it tells of is durable. It counts if it is about the same source in the same
//! state, and if samples of what is there are equal to the source's: another program may have written there
//! meanwhile. `--verify` compares everything.

use std::fs::{File as Local, Metadata as LocalMetadata};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use loligo_fs::{File, Metadata};
use serde::{Deserialize, Serialize};

use crate::failure::{Context, Failure};

/// The time between two notes.
pub(super) const NOTE_PAUSE: Duration = Duration::from_secs(1);
/// The samples: their number and size.
const SAMPLES: u64 = 16;
const SAMPLE_BYTES: u64 = 64 << 10;

/// The state of a source, and the extent to which it has been carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    size: u64,
    mtime: i64,
    mtime_nsec: i64,
    /// All data before this byte is there.
    pub(super) written: u64,
}

impl Note {
    /// Creates a note for a local file as the source.
    pub(super) fn of_local(meta: &LocalMetadata) -> Self {
        Self { size: meta.len(), mtime: meta.mtime(), mtime_nsec: meta.mtime_nsec(), written: 0 }
    }

    /// Creates a note for a file of the file system as the source.
    pub(super) fn of_remote(meta: &Metadata) -> Self {
        let (mtime, mtime_nsec) = (meta.mtime.sec.into(), meta.mtime.nsec.into());
        Self { size: meta.size, mtime, mtime_nsec, written: 0 }
    }

    /// Returns the note with a new value of `written`.
    pub(super) fn up_to(self, written: u64) -> Self {
        Self { written, ..self }
    }

    /// Returns `true` if both notes are about the same state of a source.
    pub(super) fn has_source_of(&self, other: &Self) -> bool {
        *self == Self { written: self.written, ..*other }
    }

    /// Returns `true` if all is there.
    pub(super) fn is_whole(&self) -> bool {
        self.written >= self.size
    }

    /// Returns the note's text.
    pub(super) fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers are JSON")
    }

    /// Parses a note. An unreadable note counts as none, and so does one that claims more than there is.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok().filter(|note: &Self| note.written <= note.size)
    }
}

/// The ranges that are compared before an end: the first, the last, and some between them.
fn samples(end: u64) -> impl Iterator<Item = (u64, u64)> {
    let last = end.saturating_sub(SAMPLE_BYTES);
    let mut starts: Vec<u64> = (0..SAMPLES).map(|n| last / SAMPLES * n).chain([last]).collect();
    starts.dedup();
    starts.into_iter().map(move |at| (at, SAMPLE_BYTES.min(end - at)))
}

/// Returns `true` if samples of both files before an end are equal.
pub(super) async fn are_samples_equal(file: &File, local: &Local, end: u64) -> Result<bool, Failure> {
    let each = samples(end).map(|(at, len)| async move {
        let mut here = vec![0; len as usize];
        let is_there = local.read_exact_at(&mut here, at).is_ok();
        let there = file.read_at(at, len).await.context(|| "read".to_owned())?;
        Ok(is_there && there[..] == here[..])
    });
    let compared: Vec<Result<bool, Failure>> = stream::iter(each).buffered(SAMPLES as usize).collect().await;
    compared.into_iter().try_fold(true, |all, is| Ok(all && is?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_counts_for_the_same_state_of_the_same_source() {
        let note = |size, written| Note { size, mtime: 7, mtime_nsec: 8, written };
        assert!(note(5, 2).has_source_of(&note(5, 0)) && !note(5, 2).has_source_of(&note(6, 2)));
        assert!(note(5, 5).is_whole() && note(0, 0).is_whole() && !note(5, 4).is_whole());
        assert_eq!(Note::parse(&note(5, 2).text()), Some(note(5, 2)));
        assert_eq!((Note::parse(&note(5, 6).text()), Note::parse(b"mine")), (None, None));
    }

    #[test]
    fn samples_are_at_both_ends_and_between() {
        assert_eq!(samples(10).collect::<Vec<_>>(), [(0, 10)]);
        assert_eq!(samples(0).collect::<Vec<_>>(), [(0, 0)]);
        let many: Vec<_> = samples(1 << 30).collect();
        assert_eq!(many.len() as u64, SAMPLES + 1);
        assert_eq!((many[0].0, many[SAMPLES as usize]), (0, ((1 << 30) - SAMPLE_BYTES, SAMPLE_BYTES)));
        assert!(many.windows(2).all(|two| two[0].0 < two[1].0));
    }
}
