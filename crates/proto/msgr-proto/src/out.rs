//! The buffer of bytes that wait to be written to the socket.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;
use loligo_wire::crc::crc32c;

/// Capacity of the small buffer that is kept for reuse when everything has been written.
const KEEP_CAPACITY_MAX: usize = 256 << 10;

/// How far ahead of the socket long data is summed: little enough that a core's own cache still holds
/// the data when the socket copies it, and as much as one write should contain.
const SUM_AHEAD: usize = 512 << 10;

/// Sealed frames that wait for a vectored write.
///
/// Small parts (preambles, headers, fronts, checksums) are copied one behind the other into one buffer,
/// which is reused once everything has been written. Large parts are kept as [`Bytes`] and inserted in
/// between:
///
/// ```text
/// small:   [ preamble header front | epilogue preamble header front epilogue | … ]
/// pieces:                          ^ data (before: 98)                      ^ data (before: 130)
/// ```
///
/// The data of a long frame is summed piece by piece, just before it is written; its epilogue, which
/// contains the checksum, is complete when it is due.
///
/// The buffer has no bound: the caller checks [`OutBuf::len`] before it seals more frames.
#[derive(Debug, Default)]
pub struct OutBuf {
    /// Small bytes; those before `start` have been written.
    small: Vec<u8>,
    start: usize,
    pieces: VecDeque<Piece>,
    /// Small bytes behind the last piece: `small.len() - start` minus the sum of all `before`.
    tail: usize,
    /// Bytes not written yet, small and large.
    len: usize,
    /// Epilogues that wait for the checksum of the data in front of them.
    unsettled: usize,
    /// The checksum so far of the data in front of the first waiting epilogue.
    crc: Option<u32>,
}

#[derive(Debug)]
struct Piece {
    /// The number of small bytes between the previous piece and this one.
    before: usize,
    bytes: Bytes,
    sum: Sum,
}

/// The role of a piece in a checksum that is computed late.
#[derive(Debug)]
enum Sum {
    /// None.
    Done,
    /// Data whose last `left` bytes are not summed yet and must not be written.
    Wanted { left: usize },
    /// A still empty piece that will become these bytes, with the checksum at this index.
    Epilogue { bytes: Box<[u8]>, crc_at: usize },
}

impl Piece {
    /// The large bytes that may be written.
    fn ready(&self) -> &[u8] {
        match self.sum {
            Sum::Wanted { left } => &self.bytes[..self.bytes.len() - left],
            _ => &self.bytes,
        }
    }

    fn is_ready(&self) -> bool {
        matches!(self.sum, Sum::Done)
    }
}

impl OutBuf {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes not written yet.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether everything has been written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `slices` with the bytes to write next, in order, and returns the number of slices set; it
    /// is 0 only if the buffer is empty. Of data that is summed late, at least 512 KiB are included, or
    /// all there is.
    ///
    /// After the write call [`OutBuf::advance`] with the number of bytes written.
    pub fn io_slices<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> usize {
        if self.unsettled > 0 {
            self.sum_until(SUM_AHEAD);
        }
        let mut set = 0;
        let mut at = self.start;
        let unready = self.pieces.iter().position(|p| !p.is_ready());
        let named = self.pieces.iter().take(unready.map_or(usize::MAX, |i| i + 1));
        let end = if unready.is_some() { 0 } else { self.tail };
        for (small_len, large) in named.map(|p| (p.before, p.ready())).chain([(end, &[][..])]) {
            for run in [&self.small[at..at + small_len], large] {
                if run.is_empty() {
                    continue;
                }
                let Some(slot) = slices.get_mut(set) else {
                    return set;
                };
                *slot = IoSlice::new(run);
                set += 1;
            }
            at += small_len;
        }
        set
    }

    /// Removes the next `n` bytes, which have been written.
    ///
    /// # Panics
    /// If there are fewer than `n` bytes.
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.len, "advanced by {n} of {} bytes", self.len);
        self.len -= n;
        let mut n = n;
        while n > 0 {
            let Some(piece) = self.pieces.front_mut() else {
                self.start += n;
                self.tail -= n;
                break;
            };
            let small = n.min(piece.before);
            self.start += small;
            piece.before -= small;
            n -= small;
            let large = n.min(piece.bytes.len());
            bytes::Buf::advance(&mut piece.bytes, large);
            n -= large;
            if piece.before == 0 && piece.bytes.is_empty() {
                self.pieces.pop_front();
            }
        }
        self.reuse_small();
    }

    /// Computes late checksums until `enough` bytes can be written, or all.
    fn sum_until(&mut self, enough: usize) {
        let mut ready = 0;
        for piece in &mut self.pieces {
            ready += piece.before;
            match &mut piece.sum {
                Sum::Done => {}
                Sum::Wanted { left } => {
                    let at = piece.bytes.len() - *left;
                    let take = enough.saturating_sub(ready + at).min(*left);
                    let crc = self.crc.unwrap_or(u32::MAX);
                    self.crc = Some(crc32c(crc, &piece.bytes[at..at + take]));
                    *left -= take;
                    if *left > 0 {
                        return;
                    }
                    piece.sum = Sum::Done;
                }
                Sum::Epilogue { bytes, crc_at } => {
                    let crc = self.crc.take().unwrap_or(u32::MAX);
                    bytes[*crc_at..*crc_at + size_of::<u32>()].copy_from_slice(&crc.to_le_bytes());
                    piece.bytes = std::mem::take(bytes).into();
                    piece.sum = Sum::Done;
                    self.unsettled -= 1;
                    if self.unsettled == 0 {
                        return;
                    }
                }
            }
            ready += piece.bytes.len();
        }
    }

    /// Removes everything and returns it as one buffer, for callers for which speed does not matter.
    pub fn take(&mut self) -> Bytes {
        self.sum_until(usize::MAX);
        let mut all = Vec::with_capacity(self.len);
        let mut at = self.start;
        for piece in self.pieces.drain(..) {
            all.extend_from_slice(&self.small[at..at + piece.before]);
            all.extend_from_slice(&piece.bytes);
            at += piece.before;
        }
        all.extend_from_slice(&self.small[at..]);
        *self = Self::default();
        all.into()
    }

    /// Appends bytes to the small buffer by copying them.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        self.small.extend_from_slice(bytes);
        self.grew(bytes.len());
    }

    /// Appends a large piece without copying it.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.push_piece(bytes, Sum::Done);
    }

    /// Appends the data of a frame without copying it, and then `epilogue`; the checksum of the data is
    /// stored at its index `crc_at` before it is written.
    pub(crate) fn push_summed_late(&mut self, data: &[Bytes], epilogue: &[u8], crc_at: usize) {
        for buf in data.iter().filter(|buf| !buf.is_empty()) {
            self.push_piece(buf.clone(), Sum::Wanted { left: buf.len() });
        }
        self.len += epilogue.len();
        self.unsettled += 1;
        self.push_piece(Bytes::new(), Sum::Epilogue { bytes: epilogue.into(), crc_at });
    }

    fn push_piece(&mut self, bytes: Bytes, sum: Sum) {
        self.len += bytes.len();
        let before = std::mem::take(&mut self.tail);
        self.pieces.push_back(Piece { before, bytes, sum });
    }

    /// Lets `fill` append to the small bytes; returns the result of `fill`.
    pub(crate) fn append_with<R>(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let before = self.small.len();
        let r = fill(&mut self.small);
        self.grew(self.small.len() - before);
        r
    }

    fn grew(&mut self, n: usize) {
        self.tail += n;
        self.len += n;
    }

    /// Reuses the written part of the small buffer: for free if nothing is left; else by moving the rest
    /// once more than half of the buffer has been written (so that each byte is moved about once at
    /// most).
    fn reuse_small(&mut self) {
        if self.start == self.small.len() {
            self.small.clear();
            self.small.shrink_to(KEEP_CAPACITY_MAX);
        } else if self.start > KEEP_CAPACITY_MAX / 4 && self.start > self.small.len() / 2 {
            self.small.drain(..self.start);
        } else {
            return;
        }
        self.start = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Copy(usize),
        Push(usize),
        /// Data of the first length in two buffers, and an epilogue of the second length.
        Late(usize, usize),
        /// Writes with this many slices; the socket accepts a part of them.
        Write(usize, prop::sample::Index),
    }

    fn any_op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (1..300_usize).prop_map(Op::Copy),
            4 => (1..5000_usize).prop_map(Op::Push),
            // Long, and therefore rare.
            1 => (0..3 * SUM_AHEAD, 4..20_usize).prop_map(|(data, epilogue)| Op::Late(data, epilogue)),
            4 => (1..6_usize, any::<prop::sample::Index>()).prop_map(|(n, part)| Op::Write(n, part)),
        ]
    }

    proptest! {
        /// Compares the buffer with a plain queue of bytes.
        #[test]
        fn bytes_come_out_in_order(ops in prop::collection::vec(any_op(), 0..100)) {
            let mut out = OutBuf::new();
            let mut oracle = VecDeque::new();
            let mut next = 0_u8;
            for op in ops {
                match op {
                    Op::Copy(len) | Op::Push(len) => {
                        let bytes: Vec<u8> = (0..len).map(|i| next.wrapping_add(i as u8)).collect();
                        next = next.wrapping_add(97);
                        oracle.extend(bytes.iter().copied());
                        if matches!(op, Op::Copy(_)) { out.copy(&bytes) } else { out.push(bytes.into()) }
                    }
                    Op::Late(len, epilogue_len) => {
                        let mut data: Bytes = vec![next; len].into();
                        let epilogue = vec![!next; epilogue_len];
                        let sum = crc32c(u32::MAX, &data).to_le_bytes();
                        oracle.extend(data.iter().chain(&sum).chain(&epilogue[4..]));
                        let rest = data.split_off(len / 3);
                        out.push_summed_late(&[data, rest], &epilogue, 0);
                        next = next.wrapping_add(1);
                    }
                    Op::Write(slots, part) => {
                        let mut slices = vec![IoSlice::new(&[]); slots];
                        let set = out.io_slices(&mut slices);
                        prop_assert_eq!(set == 0, oracle.is_empty());
                        let offered: Vec<u8> = slices[..set].iter().flat_map(|s| s.iter().copied()).collect();
                        let taken = part.index(offered.len() + 1);
                        out.advance(taken);
                        prop_assert!(oracle.drain(..taken).eq(offered[..taken].iter().copied()));
                    }
                }
                prop_assert_eq!(out.len(), oracle.len());
            }
            prop_assert!(oracle.iter().eq(out.take().iter()));
            prop_assert!(out.is_empty());
        }
    }

    /// A connection that never catches up still reuses its buffer.
    #[test]
    fn small_bytes_do_not_pile_up() {
        let mut out = OutBuf::new();
        out.copy(&[0; 1000]);
        for _ in 0..100_000 {
            out.copy(&[1; 100]);
            out.advance(100);
        }
        assert_eq!(out.len(), 1000);
        assert!(out.small.capacity() <= KEEP_CAPACITY_MAX, "{}", out.small.capacity());
    }
}
