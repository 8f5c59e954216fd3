//! How much is measured, switched at run time.

use std::sync::atomic::{AtomicU8, Ordering};

/// How much the locks of this process measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mode {
    /// Nothing.
    Off = 0,
    /// Who waits, where, for whom and how long. An acquire that need not wait costs nothing measurable.
    #[default]
    Contended = 1,
    /// Also every acquisition, and how long the lock was held: of the first 64 acquisitions of a class, of
    /// those that had to wait, and of one in eight of all others, picked by chance, so that sums and
    /// percentiles stand for all of them. Where a reading of the clock costs more than all the rest, as on
    /// virtual machines, that is most of the price.
    Full = 2,
    /// As [`Mode::Full`], with the time of each hold: two clock readings per acquire. For holds that are rare
    /// and long.
    Exact = 3,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 4] = [Mode::Off, Mode::Contended, Mode::Full, Mode::Exact];

    /// The mode's name in reports: `off`, `contended`, `full` or `exact`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Contended => "contended",
            Mode::Full => "full",
            Mode::Exact => "exact",
        }
    }
}

static MODE: AtomicU8 = AtomicU8::new(Mode::Contended as u8);

/// Switches what is measured, for every lock of the process. What was counted stays; see
/// [`reset`](crate::reset).
///
/// Acquisitions that are under way are counted as the mode said when they began.
pub fn set_mode(mode: Mode) {
    MODE.store(mode as u8, Ordering::Relaxed);
}

/// What is measured now.
#[inline]
pub fn mode() -> Mode {
    match MODE.load(Ordering::Relaxed) {
        0 => Mode::Off,
        1 => Mode::Contended,
        2 => Mode::Full,
        _ => Mode::Exact,
    }
}
