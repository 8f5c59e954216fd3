//! How much is measured, set at run time.

use std::sync::atomic::{AtomicU8, Ordering};

/// How much the locks of this process measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mode {
    /// Nothing.
    Off = 0,
    /// Waits: the call site that waits, the holder it waits for, and the duration. An acquire without a
    /// wait costs nothing measurable.
    #[default]
    Contended = 1,
    /// Also every acquisition, and the hold times of a sample: the first 64 acquisitions of a class,
    /// those that had to wait, and one in eight of all others, chosen at random, so that sums and
    /// percentiles are estimates for all. Where reading the clock costs more than everything else, as on
    /// virtual machines, these readings are most of the cost.
    Full = 2,
    /// Like [`Mode::Full`], with the time of each hold: two clock readings per acquire. For rare and
    /// long holds.
    Exact = 3,
}

impl Mode {
    /// All modes.
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

/// Sets the mode for every lock of the process. The counts are kept; see [`reset`](crate::reset).
///
/// An acquisition in progress is counted according to the mode at its beginning.
pub fn set_mode(mode: Mode) {
    MODE.store(mode as u8, Ordering::Relaxed);
}

/// Returns the current mode.
#[inline]
pub fn mode() -> Mode {
    match MODE.load(Ordering::Relaxed) {
        0 => Mode::Off,
        1 => Mode::Contended,
        2 => Mode::Full,
        _ => Mode::Exact,
    }
}
