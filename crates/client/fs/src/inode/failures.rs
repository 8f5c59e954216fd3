//! Failures that no caller has heard of.

use loligo_rados::Errno;

/// Failures to make an inode's changes durable, counted as in Linux's `errseq_t`: each open file is told of
/// one once, and if no file was open the next one that is opened is told.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: u64,
    last: Option<Errno>,
    is_told: bool,
}

impl Failures {
    /// Counts a failure.
    pub(crate) fn note(&mut self, errno: Errno) {
        self.count += 1;
        self.last = Some(errno);
        self.is_told = false;
    }

    /// Returns from where a file that is opened now counts.
    pub(crate) fn first_look(&self) -> u64 {
        if self.is_told { self.count } else { self.count.saturating_sub(1) }
    }

    /// Returns the failure that a file has not been told of, which is told now.
    pub(crate) fn tell(&mut self, seen: u64) -> Option<Errno> {
        let news = self.last.filter(|_| seen < self.count);
        self.is_told |= news.is_some();
        news
    }

    /// Returns the failure that nobody has been told of, which is told now.
    pub(crate) fn tell_anybody(&mut self) -> Option<Errno> {
        let news = self.last.filter(|_| !self.is_told);
        self.is_told = true;
        news
    }

    /// Returns the number of failures so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_open_file_is_told_once() {
        let mut failures = Failures::default();
        let (one, other) = (failures.first_look(), failures.first_look());
        assert_eq!(failures.tell(one), None);
        failures.note(Errno::EIO);
        assert_eq!(failures.tell(one), Some(Errno::EIO));
        let one = failures.count();
        assert_eq!(failures.tell(one), None);
        assert_eq!(failures.tell(other), Some(Errno::EIO));
        assert_eq!(failures.tell(failures.first_look()), None, "it was opened afterwards");
    }

    #[test]
    fn a_failure_that_nobody_heard_of_is_kept_for_the_next() {
        let mut failures = Failures::default();
        failures.note(Errno::ENOSPC);
        assert_eq!(failures.tell(failures.first_look()), Some(Errno::ENOSPC));
        assert_eq!(failures.tell_anybody(), None);
    }
}
