//! Sequences of I/Os on one file, many of them in flight.

mod in_flight;
mod read;
mod window;
mod write;

pub use self::read::ReadStream;
pub use self::window::{Ticket, Window};
pub use self::write::WriteStream;

use loligo_layout::Layout;

/// The size of one I/O: the minimum for narrow stripes, and the maximum for wide ones. Each object's
/// part should be worth a request, and a window of several I/Os should not be large.
const IO_BYTES_MIN: u64 = 4 << 20;
const IO_BYTES_MAX: u64 = 16 << 20;

/// The options of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// The most bytes in flight, but always at least one I/O. Default: 64 MiB. The stream may use less,
    /// as little as the path to the OSDs needs ([`Window`]).
    pub window_max: u64,
    /// The size of one I/O in bytes; 0, the default, chooses one that suits the layout.
    pub io_bytes: u64,
    /// Whether a reader also asks for the holes within objects.
    pub sparse: bool,
    /// Where a writer will end, if known. Then the file's size is changed less often, ahead of the data,
    /// but never beyond this offset.
    pub ends_at: Option<u64>,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self { window_max: 64 << 20, io_bytes: 0, sparse: false, ends_at: None }
    }
}

impl StreamOptions {
    fn io_bytes(&self, layout: Layout) -> u64 {
        match self.io_bytes {
            0 => suitable_io_bytes(layout).min(self.window_max / 2).max(1),
            given => given,
        }
    }

    /// At least two I/Os: one is being sent while the other is answered.
    fn window(&self, layout: Layout) -> Window {
        let least = self.io_bytes(layout).saturating_mul(2);
        Window::new(least.min(self.window_max), self.window_max)
    }
}

/// 1 MiB for each object of a set: a multiple of whole stripes if they are narrow enough, otherwise of
/// whole stripe units.
fn suitable_io_bytes(layout: Layout) -> u64 {
    let wanted = layout.stripe_count().saturating_mul(1 << 20).clamp(IO_BYTES_MIN, IO_BYTES_MAX);
    let whole = |part: u64| wanted / part * part;
    [layout.stripe_width(), layout.stripe_unit()].into_iter().map(whole).find(|n| *n > 0).unwrap_or(wanted)
}

/// The end of the I/O that begins at `offset`: the next multiple of the I/O size, so that only the first
/// I/O can be unaligned.
fn io_end(offset: u64, io_bytes: u64) -> u64 {
    (offset / io_bytes).saturating_add(1).saturating_mul(io_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ios_are_whole_stripes_or_units_where_they_can_be() {
        let io = |unit: u64, count, size: u64| {
            suitable_io_bytes(Layout::new(unit << 16, count, size << 16).expect("valid"))
        };
        assert_eq!(io(64, 1, 64), 4 << 20);
        assert_eq!(io(1, 3, 64), 21 * (3 << 16), "of narrow stripes as many as fit into 4 MiB");
        assert_eq!(io(64, 8, 64), 8 << 20, "wide stripes are parted");
        assert_eq!(io(1024, 1, 1024), 4 << 20, "and wide units");
        assert_eq!(io(16, 16, 64), 16 << 20);
        assert_eq!(io_end(5, 4), 8);
        assert_eq!(io_end(8, 4), 12);
        assert_eq!(io_end(u64::MAX, 4), u64::MAX);
    }
}
