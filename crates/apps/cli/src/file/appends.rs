//! The notes of programs that append to a striped file. A note is named after the cookie of the
//! program's lock. So several programs can append at a time, and a note whose program is gone can be
//! identified.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use loligo_stripe::{File, Striper};
use serde::{Deserialize, Serialize};

use crate::name::Name;

/// The prefix of the attribute's name; the lock's cookie follows.
const PREFIX: &str = "loligo.append.";

/// An append in progress. `first` is the file's end before the append, and `begin..end` the part that is
/// being written. All data before that part is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AppendNote {
    first: u64,
    begin: u64,
    end: u64,
}

/// An append in progress.
pub(super) struct Appending {
    attribute: String,
    first: Option<u64>,
}

impl Appending {
    /// Begins an append to an open file.
    pub(super) fn to(file: &File) -> Self {
        Self {
            attribute: format!("{PREFIX}{}", file.lock_cookie().map(Name::to_string).unwrap_or_default()),
            first: None,
        }
    }

    /// Writes the next piece at the file's end. The piece is noted as missing before the file's size
    /// includes it.
    pub(super) async fn append(
        &mut self,
        file: &mut File,
        piece: Bytes,
    ) -> Result<(), loligo_stripe::WriteError> {
        let Self { attribute, first } = self;
        let note = |place: Range<u64>| {
            let first = first.unwrap_or(place.start);
            text(&AppendNote { first, begin: place.start, end: place.end })
        };
        let at = file.append_noted(piece, attribute.as_bytes(), note).await?;
        first.get_or_insert(at);
        Ok(())
    }

    /// Removes the note once all data is written.
    pub(super) async fn finish(self, striper: &Striper, name: &[u8]) -> Result<(), loligo_stripe::Error> {
        match self.first {
            Some(_) => striper.remove_xattr(name, self.attribute).await,
            None => Ok(()),
        }
    }
}

/// The noted appends to a file, by the names of their attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Appends(BTreeMap<String, AppendNote>);

impl Appends {
    /// Returns the appends that a file's attributes note. A note of data behind the file's end is
    /// ignored: another program has truncated the file.
    pub(super) fn of(attributes: &BTreeMap<Vec<u8>, Bytes>, size: u64) -> Self {
        let notes = noted(attributes).filter_map(|name| {
            let note: AppendNote = serde_json::from_slice(attributes.get(name.as_bytes())?).ok()?;
            (note.begin < size).then_some((name, AppendNote { end: note.end.min(size), ..note }))
        });
        Self(notes.collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the appends whose programs hold no lock on the file.
    pub(super) fn gone(&self, cookies: &[Name]) -> Self {
        let is_held = |name: &str| {
            name.strip_prefix(PREFIX).is_some_and(|held| cookies.iter().any(|cookie| cookie == held))
        };
        Self(
            self.0
                .iter()
                .filter(|(name, _)| !is_held(name))
                .map(|(name, note)| (name.clone(), *note))
                .collect(),
        )
    }

    /// Returns the appends that are in both.
    pub(super) fn also_in(&self, other: &Self) -> Self {
        let both = self.0.iter().filter(|(name, _)| other.0.contains_key(*name));
        Self(both.map(|(name, note)| (name.clone(), *note)).collect())
    }

    /// Returns the file's end before the first of the appends.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.values().map(|note| note.first).min()
    }

    /// Returns the offset of the first byte that may be missing.
    pub(super) fn first_missing(&self) -> Option<u64> {
        self.0.values().map(|note| note.begin).min()
    }
}

impl fmt::Display for Appends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the file is not whole: programs that appended to it were interrupted; zeros may be read at its bytes"
        )?;
        for (number, note) in self.0.values().enumerate() {
            let AppendNote { first, begin, end } = note;
            let comma = if number > 0 { "," } else { "" };
            write!(f, "{comma} {begin} to {end} (appended from {first} on)")?;
        }
        let first = self.first().unwrap_or(0);
        write!(
            f,
            "; keep its first {first} bytes with 'file truncate', 'file put' it again, remove it with 'file rm', or keep it \
             as it is with 'file rmxattr' of"
        )?;
        self.0.keys().try_for_each(|name| write!(f, " {name}"))
    }
}

/// Returns the names of the attributes that are notes of appends.
pub(super) fn noted(attributes: &BTreeMap<Vec<u8>, Bytes>) -> impl Iterator<Item = String> {
    attributes.keys().filter_map(|name| {
        let name = std::str::from_utf8(name).ok()?;
        name.starts_with(PREFIX).then(|| name.to_owned())
    })
}

fn text(note: &AppendNote) -> Vec<u8> {
    serde_json::to_vec(note).expect("numbers are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(notes: &[(&str, [u64; 3])]) -> BTreeMap<Vec<u8>, Bytes> {
        let note = |[first, begin, end]: [u64; 3]| text(&AppendNote { first, begin, end }).into();
        notes.iter().map(|(name, at)| (format!("{PREFIX}{name}").into_bytes(), note(*at))).collect()
    }

    #[test]
    fn what_may_be_missing_is_told_by_notes_without_a_lock() {
        let all = attributes(&[("a", [10, 20, 30]), ("b", [30, 30, 40]), ("c", [60, 60, 70])]);
        let appends = Appends::of(&all, 35);
        assert_eq!(appends.0.len(), 2, "what lies behind the end says nothing: {appends:?}");
        assert_eq!((appends.first(), appends.first_missing()), (Some(10), Some(20)));
        let gone = appends.gone(&["a".into(), "x".into()]);
        assert_eq!((gone.0.len(), gone.first_missing()), (1, Some(30)));
        assert!(appends.also_in(&gone) == gone && gone.gone(&["b".into()]).is_empty());
        let said = gone.to_string();
        assert!(said.contains("bytes 30 to 35 (appended from 30 on)"), "{said}");
        assert!(said.contains("its first 30 bytes") && said.ends_with("of loligo.append.b"), "{said}");
    }

    #[test]
    fn what_is_no_note_says_nothing() {
        let mut all = attributes(&[]);
        all.insert(b"loligo.append.a".to_vec(), Bytes::from_static(b"mine"));
        all.insert(b"loligo.appendix".to_vec(), Bytes::from_static(br#"{"first":0,"begin":0,"end":1}"#));
        assert!(Appends::of(&all, 9).is_empty());
        assert_eq!(noted(&all).count(), 1);
    }
}
