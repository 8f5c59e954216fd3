//! Memory of large requests, used again: new memory costs its first user the time to clear it.

use std::sync::Arc;

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};

/// Held to take or give back a buffer; a leaf.
static BUFFERS: Class = Class::new("cache.buffers");

/// Smaller requests get their memory from the allocator, which has such pieces.
const LEN_MIN: usize = 256 << 10;

/// Buffers of requests in progress. Their number is bounded by that of the requests that are in progress at a
/// time. The last request to end frees them all, so an idle cache has none.
#[derive(Debug)]
pub(crate) struct Buffers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    unused: Vec<Vec<u8>>,
    used: usize,
}

impl Buffers {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(&BUFFERS, State::default())))
    }

    /// Returns what `fill` writes into an empty buffer with room for `len` bytes.
    pub(crate) fn filled(self: &Arc<Self>, len: usize, fill: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        if len < LEN_MIN {
            let mut data = Vec::with_capacity(len);
            fill(&mut data);
            return data.into();
        }
        let mut filled = Filled { data: self.take(), from: Arc::clone(self) };
        filled.data.reserve(len);
        fill(&mut filled.data);
        Bytes::from_owner(filled)
    }

    fn take(&self) -> Vec<u8> {
        let mut state = self.0.lock();
        state.used += 1;
        state.unused.pop().unwrap_or_default()
    }

    fn give_back(&self, data: Vec<u8>) {
        let mut state = self.0.lock();
        state.used -= 1;
        state.unused.push(data);
        let freed = if state.used == 0 { std::mem::take(&mut state.unused) } else { Vec::new() };
        drop(state);
        drop(freed);
    }
}

/// A request's data. Its memory goes back when nobody has the data any more.
struct Filled {
    data: Vec<u8>,
    from: Arc<Buffers>,
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        self.from.give_back(data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(buffers: &Arc<Buffers>, len: usize, byte: u8) -> Bytes {
        buffers.filled(len, |data| data.resize(len, byte))
    }

    #[test]
    fn large_buffers_are_used_again_once_nobody_has_their_data() {
        let buffers = Buffers::new();
        let (first, second) = (data(&buffers, LEN_MIN, 1), data(&buffers, LEN_MIN, 2));
        let (part, place) = (first.slice(10..20), first.as_ptr());
        drop(first);
        assert!(buffers.0.lock().unused.is_empty(), "a part is in use");
        drop(part);
        let third = data(&buffers, LEN_MIN, 3);
        assert_eq!(third.as_ptr(), place);
        assert!(third.iter().all(|byte| *byte == 3) && second.iter().all(|byte| *byte == 2));
        drop(second);
        assert_eq!(buffers.0.lock().unused.len(), 1);
        drop(third);
        let State { unused, used } = &*buffers.0.lock();
        assert!(unused.is_empty() && *used == 0, "nothing is kept without requests");
    }

    #[test]
    fn small_requests_leave_the_buffers_alone() {
        let buffers = Buffers::new();
        let small = data(&buffers, LEN_MIN - 1, 4);
        assert_eq!((small.len(), buffers.0.lock().used), (LEN_MIN - 1, 0));
    }
}
