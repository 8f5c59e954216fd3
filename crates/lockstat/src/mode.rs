use std::sync::atomic::{AtomicU8, Ordering};

/// How much the locks of this process measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Nothing.
    Off = 0,
    /// Who waits, where, for whom and how long. An acquire that need not wait costs nothing measurable.
    #[default]
    Contended = 1,
    /// Also every acquisition and how long the lock was held: two clock readings per acquire.
    Full = 2,
}

impl Mode {
    /// The mode's name in reports: `off`, `contended` or `full`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Contended => "contended",
            Mode::Full => "full",
        }
    }
}

static MODE: AtomicU8 = AtomicU8::new(Mode::Contended as u8);

/// Switches what is measured, for every lock of the process. What was counted stays; see [`reset`](crate::reset).
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
        _ => Mode::Full,
    }
}
