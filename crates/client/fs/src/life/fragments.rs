//! Which rank decides about which part of a directory.

use std::collections::BTreeMap;

use loligo_wire::Rank;
use loligo_wire::message::mds::{DirStat, Frag};

/// Fragments of a directory that are remembered at most. More are a fault of the server: what is not
/// remembered is only asked of the directory's own rank first.
const REMEMBERED_MAX: usize = 4096;

/// The ranks of a directory's fragments, as replies told them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments(BTreeMap<Frag, Rank>);

impl Fragments {
    /// Takes over what a reply says of a fragment. A fragment without a rank of its own belongs to the
    /// directory's.
    pub(crate) fn learn(&mut self, stat: &DirStat) {
        if stat.auth.0 < 0 {
            self.0.remove(&stat.frag);
        } else if self.0.len() < REMEMBERED_MAX || self.0.contains_key(&stat.frag) {
            self.0.insert(stat.frag, stat.auth);
        }
    }

    /// Returns the rank of a fragment, if it has one of its own.
    pub(crate) fn rank(&self, frag: Frag) -> Option<Rank> {
        self.0.get(&frag).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(frag: u32, auth: i32) -> DirStat {
        DirStat { frag: Frag(frag), auth: Rank(auth), ..DirStat::default() }
    }

    #[test]
    fn the_last_word_about_a_fragment_counts() {
        let mut parts = Fragments::default();
        parts.learn(&stat(0x0180_0000, 1));
        assert_eq!(parts.rank(Frag(0x0180_0000)), Some(Rank(1)));
        assert_eq!(parts.rank(Frag::ROOT), None);
        parts.learn(&stat(0x0180_0000, 2));
        assert_eq!(parts.rank(Frag(0x0180_0000)), Some(Rank(2)));
        parts.learn(&stat(0x0180_0000, -1));
        assert_eq!(parts.rank(Frag(0x0180_0000)), None, "as the directory");
    }

    #[test]
    fn a_server_cannot_fill_the_memory_with_fragments() {
        let mut parts = Fragments::default();
        (0..10_000).for_each(|at| parts.learn(&stat(at, 1)));
        assert_eq!(parts.0.len(), REMEMBERED_MAX);
        parts.learn(&stat(0, 2));
        assert_eq!(parts.rank(Frag(0)), Some(Rank(2)), "what is known is still updated");
    }
}
