//! The note on a striped file that is being written, truncated or removed; it tells readers that the
//! file is not whole.

use std::fmt;

use loligo_rados::{CmpOp, Errno, WriteOp};
use loligo_stripe::{File, FileStat, ObjectNames, ObjectNo, Striper};

use super::appends::{self, Appends};
use crate::failure::{Context, Failure};
use crate::note::{NO_SIZE, Note};

/// The attribute of the first object that holds the note.
pub(super) const NOTE: &str = "loligo.put";
/// Notes on striped files.
impl Note {
    /// Writes the note to an open file.
    pub(super) async fn make(&self, file: &File) -> Result<(), loligo_rados::Error> {
        let direct = file.direct();
        direct.ioctx().set_xattr(direct.name(ObjectNo(0)), NOTE, self.text()).await
    }

    /// Removes this note from a file; a different note stays.
    pub(super) async fn take_off(&self, striper: &Striper, name: &[u8]) -> Result<(), loligo_rados::Error> {
        let first = ObjectNames::Striper(name.to_vec()).name(ObjectNo(0));
        let op = WriteOp::new().compare_xattr(NOTE, CmpOp::Eq, self.text()).remove_xattr(NOTE);
        match striper.ioctx().operate(first, op).await {
            Err(e) if matches!(e.errno(), Errno::ENODATA | Errno::ENOENT | Errno::ECANCELED) => Ok(()),
            done => done,
        }
    }
}

/// The part of a striped file that can be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Readable {
    pub(super) stat: FileStat,
    /// The file is whole up to this offset: its size, unless programs append to it.
    pub(super) end: u64,
}

impl Readable {
    /// Determines the readable part from the notes on a file.
    pub(super) async fn of(
        striper: &Striper,
        name: &[u8],
    ) -> Result<Result<Self, Unfinished>, loligo_stripe::Error> {
        let mut look = Look::at(striper, name).await?;
        loop {
            if let Some(note) = look.note.filter(|note| !note.is_whole()) {
                return Ok(Err(Unfinished::Written(note)));
            }
            if look.appends.is_empty() {
                return Ok(Ok(Self { stat: look.stat, end: look.stat.size }));
            }
            // At a snapshot no program continues.
            let cookies = match striper.ioctx().is_at_snapshot() {
                true => Vec::new(),
                false => striper.lock_cookies(name).await?,
            };
            let gone = look.appends.gone(&cookies);
            if gone.is_empty() {
                let end = look.appends.first().unwrap_or(u64::MAX).min(look.stat.size);
                return Ok(Ok(Self { stat: look.stat, end }));
            }
            // A program that ended meanwhile removed its note before it released its lock.
            let again = Look::at(striper, name).await?;
            let gone = again.appends.also_in(&gone);
            if !gone.is_empty() {
                return Ok(Err(Unfinished::Appended(gone)));
            }
            look = again;
        }
    }

    /// Does the same, but fails if the file is not whole.
    pub(super) async fn or_refuse(
        striper: &Striper,
        name: &[u8],
        what: impl Fn() -> String,
    ) -> Result<Self, Failure> {
        match Self::of(striper, name).await.context(&what)? {
            Ok(readable) => Ok(readable),
            Err(unfinished) => Err(Failure::new(what(), unfinished)),
        }
    }

    /// Warns the user if a part of the file is not read.
    pub(super) fn tell(&self, what: impl Fn() -> String) {
        let (end, size) = (self.end, self.stat.size);
        if end < size {
            eprintln!(
                "loligo: {}: a program appends to the file, or was killed in the last minute: its first {end} of {size} \
                 bytes are read, as it was before",
                what()
            );
        }
    }
}

/// A file's state and notes, read together.
pub(super) struct Look {
    pub(super) stat: FileStat,
    pub(super) note: Option<Note>,
    pub(super) appends: Appends,
    /// The attributes of all appends, including ignored ones.
    pub(super) append_names: Vec<String>,
}

impl Look {
    pub(super) async fn at(striper: &Striper, name: &[u8]) -> Result<Self, loligo_stripe::Error> {
        let (stat, attributes) = striper.stat_with_xattrs(name).await?;
        let note = attributes.get(NOTE.as_bytes());
        Ok(Self {
            stat,
            note: note.and_then(|note| Note::parse(note)),
            appends: Appends::of(&attributes, stat.size),
            append_names: appends::noted(&attributes).collect(),
        })
    }

    /// Returns `true` if the file is as the put left it that wrote this note: nothing was appended or
    /// truncated since.
    pub(super) fn is_as(&self, noted: &Note) -> bool {
        let size = self.stat.size;
        let fits = if noted.is_whole() { noted.written == size } else { noted.written <= size };
        fits && self.append_names.is_empty()
    }

    /// Removes the notes of the appends that this look found; their data was truncated.
    pub(super) async fn take_off_appends(
        &self,
        striper: &Striper,
        name: &[u8],
    ) -> Result<(), loligo_stripe::Error> {
        for attribute in &self.append_names {
            match striper.remove_xattr(name, attribute).await {
                Err(e) if e.errno() == Errno::ENODATA => {}
                done => done?,
            }
        }
        Ok(())
    }
}

/// The reason why a striped file is not whole: it was not written, truncated or removed completely, or a
/// part of an append is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unfinished {
    Written(Note),
    Appended(Appends),
}

impl Unfinished {
    /// Returns the offset up to which nothing is missing.
    pub(super) fn whole_to(&self) -> u64 {
        match self {
            Self::Written(note) => note.written,
            Self::Appended(appends) => appends.first_missing().unwrap_or(0),
        }
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { size, written, .. } = match self {
            Self::Written(note) => *note,
            Self::Appended(appends) => return appends.fmt(f),
        };
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
    fn what_is_not_whole_is_told_with_what_to_do() {
        let told = |note| Unfinished::Written(note).to_string();
        let mut of_a_file = Note::without_source(4);
        of_a_file.size = 9;
        let file = told(of_a_file);
        assert!(file.contains("its first 4 of 9 bytes") && file.contains("--resume goes on"), "{file}");
        let piped = told(Note::without_source(0));
        assert!(piped.contains("its first 0 bytes") && !piped.contains("--resume"), "{piped}");
    }
}
