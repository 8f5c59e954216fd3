//! The limits of a directory's ancestors. Clients enforce them; the servers only count.

#[cfg(test)]
mod tests;

use loligo_types::Ino;

use crate::caps::{QuotaLimits, RecursiveStats};

/// The maximum number of ancestors that are looked at: a longer chain is a circle, or no path that a
/// kernel could open.
const DEPTH_MAX: usize = 4096;

/// What a change adds below a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Bytes.
    pub bytes: u64,
    /// Entries.
    pub files: u64,
}

/// A directory with a limit, and what is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The directory.
    pub ino: Ino,
    /// Its limits.
    pub limits: QuotaLimits,
    /// What is there now, as far as the client knows.
    pub there: RecursiveStats,
}

/// Why a change is not permitted (EDQUOT).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// Too many bytes.
    #[error("directory {ino} may hold {max} bytes, has {there}, and {more} more are asked for")]
    Bytes {
        /// The directory.
        ino: Ino,
        /// The limit.
        max: u64,
        /// What is there.
        there: u64,
        /// What the change adds.
        more: u64,
    },
    /// Too many entries.
    #[error("directory {ino} may hold {max} entries, has {there}, and {more} more are asked for")]
    Files {
        /// The directory.
        ino: Ino,
        /// The limit.
        max: u64,
        /// What is there.
        there: u64,
        /// What the change adds.
        more: u64,
    },
}

/// The nearest directory with a limit: the realm of the quota. `ancestors` begins with the directory itself.
pub fn nearest(ancestors: impl IntoIterator<Item = Limited>) -> Option<Limited> {
    limited(ancestors).next()
}

/// Checks a change against every limit above it. `ancestors` begins with the directory itself.
///
/// Servers count with a delay and several clients write at once, so a limit can be passed a little.
///
/// # Errors
///
/// The first limit that the change would pass.
pub fn check(ancestors: impl IntoIterator<Item = Limited>, growth: Growth) -> Result<(), Exceeded> {
    for Limited { ino, limits, there } in limited(ancestors) {
        let (max, has) = (count(limits.bytes), count(there.bytes));
        if max > 0 && growth.bytes > 0 && has.saturating_add(growth.bytes) > max {
            return Err(Exceeded::Bytes { ino, max, there: has, more: growth.bytes });
        }
        let (max, has) = (count(limits.files), count(there.files).saturating_add(count(there.subdirs)));
        if max > 0 && growth.files > 0 && has.saturating_add(growth.files) > max {
            return Err(Exceeded::Files { ino, max, there: has, more: growth.files });
        }
    }
    Ok(())
}

/// Whether a rename between two directories would leave the realm of a limit: it is refused with EXDEV, so
/// that the program copies, and the copy is counted. Each chain begins with the directory itself.
pub fn leaves_realm(from: impl IntoIterator<Item = Limited>, to: impl IntoIterator<Item = Limited>) -> bool {
    nearest(from).map(|limited| limited.ino) != nearest(to).map(|limited| limited.ino)
}

fn limited(ancestors: impl IntoIterator<Item = Limited>) -> impl Iterator<Item = Limited> {
    let has_limit = |limited: &Limited| limited.limits.bytes > 0 || limited.limits.files > 0;
    ancestors.into_iter().take(DEPTH_MAX).filter(has_limit)
}

/// A count of a server; one below zero counts nothing.
fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
