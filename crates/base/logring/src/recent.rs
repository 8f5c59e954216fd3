//! The newest entries, stored unformatted and formatted only for a dump.

use std::collections::VecDeque;

use crate::entry::{ENTRY_WORDS_MAX, Entry};

/// The most bytes of kept entries, whatever their number.
const RECENT_BYTES_MAX: usize = 8 << 20;

/// The newest entries.
pub(crate) struct Recent {
    /// For each entry: its thread, its number of words, its words.
    words: VecDeque<u64>,
    entries: usize,
    entries_max: usize,
}

impl Recent {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { words: VecDeque::new(), entries: 0, entries_max }
    }

    pub(crate) fn entries_max(&self) -> usize {
        self.entries_max
    }

    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Keeps an entry, and discards the oldest ones beyond the bounds.
    pub(crate) fn keep(&mut self, entry: &Entry<'_>) {
        if self.entries_max == 0 {
            return;
        }
        let needed = 2 + entry.words().len();
        while self.entries == self.entries_max || (self.words.len() + needed) * 8 > RECENT_BYTES_MAX {
            let len = self.words.get(1).map_or(0, |len| *len as usize);
            self.words.drain(..2 + len);
            self.entries -= 1;
        }
        self.words.extend([entry.thread, entry.words().len() as u64]);
        self.words.extend(entry.words());
        self.entries += 1;
    }

    /// Removes all kept entries and passes them to `each`, oldest first.
    pub(crate) fn empty(&mut self, mut each: impl FnMut(Entry<'_>)) {
        let mut buffer = [0; ENTRY_WORDS_MAX];
        while let (Some(thread), Some(len)) = (self.words.pop_front(), self.words.pop_front()) {
            let entry = &mut buffer[..len as usize];
            entry.iter_mut().zip(self.words.drain(..len as usize)).for_each(|(to, word)| *to = word);
            // SAFETY: `keep` wrote the words of an entry.
            each(unsafe { Entry::new(thread, entry) });
        }
        self.entries = 0;
    }
}
