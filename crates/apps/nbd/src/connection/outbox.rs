//! The buffer of replies to be sent.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use az::SaturatingAs as _;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::io::AsyncWrite;

use crate::proto::Sink;

/// Data of at least this many bytes are sent without a copy; shorter data are appended to the tail.
const KEEP_MIN: usize = 16 << 10;
/// Capacity of the tail that is kept when everything has been sent.
const TAIL_KEPT: usize = 512 << 10;
/// Maximum number of slices in one write.
const SLICES: usize = 64;

/// Source of zeros that are sent without a copy.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Replies that wait for the socket. All replies present are sent in one write.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Sent before the tail.
    parts: VecDeque<Bytes>,
    parts_len: usize,
    tail: BytesMut,
}

impl Outbox {
    pub(super) fn len(&self) -> usize {
        self.parts_len + self.tail.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls the stream's write once.
    pub(super) fn poll_write<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<io::Result<()>> {
        let written = if self.parts.is_empty() {
            Pin::new(stream).poll_write(cx, &self.tail)
        } else {
            let slices: Vec<IoSlice<'_>> = self
                .parts
                .iter()
                .map(|part| IoSlice::new(part))
                .chain(Some(IoSlice::new(&self.tail)).filter(|tail| !tail.is_empty()))
                .take(SLICES)
                .collect();
            Pin::new(stream).poll_write_vectored(cx, &slices)
        };
        written.map(|written| match written? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            n => {
                self.advance(n);
                Ok(())
            }
        })
    }

    fn advance(&mut self, mut n: usize) {
        while n > 0
            && let Some(part) = self.parts.front_mut()
        {
            let these = n.min(part.len());
            part.advance(these);
            self.parts_len -= these;
            n -= these;
            if part.is_empty() {
                self.parts.pop_front();
            }
        }
        self.tail.advance(n);
        if self.tail.is_empty() {
            // Reuses the memory from its start, or frees it if a long reply made it large.
            if self.tail.capacity() > TAIL_KEPT { self.tail = BytesMut::new() } else { self.tail.clear() }
        }
    }

    fn push(&mut self, part: Bytes) {
        if !self.tail.is_empty() {
            let tail = self.tail.split().freeze();
            self.parts_len += tail.len();
            self.parts.push_back(tail);
        }
        self.parts_len += part.len();
        self.parts.push_back(part);
    }
}

impl Sink for Outbox {
    fn tail(&mut self) -> &mut BytesMut {
        &mut self.tail
    }

    fn put(&mut self, data: Bytes) {
        if data.len() < KEEP_MIN {
            self.tail.put_slice(&data);
        } else {
            self.push(data);
        }
    }

    fn put_zeros(&mut self, mut len: u64) {
        if len < KEEP_MIN as u64 {
            self.tail.put_bytes(0, len.saturating_as::<usize>());
            return;
        }
        while len > 0 {
            let these = len.min(ZEROS.len() as u64);
            self.push(Bytes::from_static(&ZEROS[..these.saturating_as::<usize>()]));
            len -= these;
        }
    }
}
