//! The note on a striped file that is being written, cut off or removed: a reader can tell that it is not
//! whole.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use loligo_rados::{CmpOp, Errno, WriteOp};
use loligo_stripe::{File, ObjectNames, ObjectNo, Striper};
use serde::{Deserialize, Serialize};

use crate::failure::{Context, Failure};

/// The attribute of the first object that has the note.
pub(super) const NOTE: &str = "loligo.put";
/// Another note is there.
const ECANCELED: Errno = Errno(125);
/// The size in a note of what has no size before it ends.
const NO_SIZE: u64 = u64::MAX;

/// How far a striped file is written, and from which local file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    size: u64,
    mtime: i64,
    mtime_nsec: i64,
    /// What lies before this byte is there.
    pub(super) written: u64,
}

impl Note {
    /// For what is written from this local file.
    pub(super) fn of(meta: &Metadata) -> Self {
        Self { size: meta.len(), mtime: meta.mtime(), mtime_nsec: meta.mtime_nsec(), written: 0 }
    }

    /// For what cannot be gone on with: what comes from a pipe, is copied, cut off or removed.
    pub(super) fn without_source(written: u64) -> Self {
        Self { size: NO_SIZE, mtime: 0, mtime_nsec: 0, written }
    }

    /// The same when what lies before this byte is there.
    pub(super) fn up_to(self, written: u64) -> Self {
        Self { written, ..self }
    }

    /// Whether the other one is about the same state of the same local file.
    pub(super) fn has_source_of(&self, other: &Self) -> bool {
        self.size != NO_SIZE && *self == Self { written: self.written, ..*other }
    }

    /// Whether all is written.
    pub(super) fn is_whole(&self) -> bool {
        self.written >= self.size
    }

    /// The attribute's value.
    pub(super) fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers are JSON")
    }

    /// The note on an open file. One that cannot be read is none.
    pub(super) async fn on(file: &File) -> Result<Option<Self>, loligo_rados::Error> {
        let direct = file.direct();
        Self::read(direct.ioctx().xattr(direct.name(ObjectNo(0)), NOTE).await)
    }

    fn read(note: Result<bytes::Bytes, loligo_rados::Error>) -> Result<Option<Self>, loligo_rados::Error> {
        match note {
            Ok(note) => Ok(serde_json::from_slice(&note).ok()),
            Err(e) if e.errno() == Errno::ENODATA => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Writes it on an open file.
    pub(super) async fn make(&self, file: &File) -> Result<(), loligo_rados::Error> {
        let direct = file.direct();
        direct.ioctx().set_xattr(direct.name(ObjectNo(0)), NOTE, self.text()).await
    }

    /// Takes this note off a file; another one stays.
    pub(super) async fn take_off(&self, striper: &Striper, name: &[u8]) -> Result<(), loligo_rados::Error> {
        let first = ObjectNames::Striper(name.to_vec()).name(ObjectNo(0));
        let op = WriteOp::new().compare_xattr(NOTE, CmpOp::Eq, self.text()).remove_xattr(NOTE);
        match striper.ioctx().operate(first, op).await {
            Err(e) if matches!(e.errno(), Errno::ENODATA | Errno::ENOENT | ECANCELED) => Ok(()),
            done => done,
        }
    }
}

/// A striped file was not written to its end, or not cut off or removed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unfinished(Note);

impl Unfinished {
    /// What the note on a file says of it, if that is that it is not whole.
    pub(super) async fn of(striper: &Striper, name: &[u8]) -> Result<Option<Self>, loligo_rados::Error> {
        let first = ObjectNames::Striper(name.to_vec()).name(ObjectNo(0));
        let note = Note::read(striper.ioctx().xattr(first, NOTE).await)?;
        Ok(note.filter(|note| !note.is_whole()).map(Self))
    }

    /// The same of an open file.
    pub(super) async fn on(file: &File) -> Result<Option<Self>, loligo_rados::Error> {
        Ok(Note::on(file).await?.filter(|note| !note.is_whole()).map(Self))
    }

    /// Refuses a file that is not whole.
    pub(super) async fn refuse(
        striper: &Striper,
        name: &[u8],
        what: impl Fn() -> String,
    ) -> Result<(), Failure> {
        match Self::of(striper, name).await.context(&what)? {
            Some(unfinished) => Err(Failure::new(what(), unfinished)),
            None => Ok(()),
        }
    }

    /// What the file's note says.
    pub(super) fn note(&self) -> Note {
        self.0
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { size, written, .. } = self.0;
        write!(f, "the file is not whole: a program that writes it has not ended, or was interrupted; ")?;
        match size {
            NO_SIZE => write!(f, "its first {written} bytes are there; ")?,
            _ => write!(f, "its first {written} of {size} bytes are there; ")?,
        }
        let resume = if size == NO_SIZE { "" } else { " (--resume goes on)" };
        write!(
            f,
            "'file put' it again{resume}, remove it with 'file rm', or keep that with 'file truncate'; \
             a program that was killed keeps its lock for a minute"
        )
    }
}

impl std::error::Error for Unfinished {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_whether_all_is_written() {
        let note = |size, written| Note { size, mtime: 7, mtime_nsec: 8, written };
        assert!(note(5, 5).is_whole() && note(5, 6).is_whole() && note(0, 0).is_whole());
        assert!(!note(5, 4).is_whole() && !Note::without_source(9).is_whole());
        assert!(note(5, 2).has_source_of(&note(5, 0)) && !note(5, 2).has_source_of(&note(6, 2)));
        let piped = Note::without_source(3);
        assert!(!piped.has_source_of(&Note::without_source(0)));
        // As earlier versions have written them.
        let earlier = br#"{"size":9,"mtime":7,"mtime_nsec":8,"written":4}"#;
        assert_eq!(Note::read(Ok(bytes::Bytes::from_static(earlier))).expect("a note"), Some(note(9, 4)));
        assert_eq!(Note::read(Ok(bytes::Bytes::from_static(b"mine"))).expect("none"), None);
    }

    #[test]
    fn what_is_not_whole_is_told_with_what_to_do() {
        let told = |note| Unfinished(note).to_string();
        let file = told(Note { size: 9, mtime: 0, mtime_nsec: 0, written: 4 });
        assert!(file.contains("its first 4 of 9 bytes") && file.contains("--resume goes on"), "{file}");
        let piped = told(Note::without_source(0));
        assert!(piped.contains("its first 0 bytes") && !piped.contains("--resume"), "{piped}");
    }
}
