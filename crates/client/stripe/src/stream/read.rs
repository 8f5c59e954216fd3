//! Sequential reads, several I/Os ahead.

use std::marker::PhantomData;
use std::sync::Arc;

use super::in_flight::InFlight;
use super::{StreamOptions, Window, io_end};
use crate::direct::Ask;
use crate::error::{Error, ReadError};
use crate::file::{File, Inner};
use crate::segments::Segments;

/// A range of a file that is read in order, several I/Os ahead.
#[derive(Debug)]
#[must_use = "nothing is read before ReadStream::next"]
pub struct ReadStream<'f> {
    inner: Arc<Inner>,
    /// The first byte that has not been requested yet.
    next: u64,
    end: u64,
    io_bytes: u64,
    ask: Ask,
    under_way: InFlight<Result<Segments, ReadError>>,
    /// Keeps the file open while the stream exists.
    file: PhantomData<&'f File>,
}

impl File {
    /// Reads a range in order, several I/Os ahead. The stream ends at the end of the range or of the
    /// file.
    ///
    /// # Errors
    /// If the file's size cannot be read.
    pub async fn read_stream(
        &self,
        offset: u64,
        len: u64,
        options: StreamOptions,
    ) -> Result<ReadStream<'_>, Error> {
        let inner = self.inner();
        let end = inner.end_of(offset, len).await?;
        Ok(ReadStream::new(inner, offset, end, options))
    }
}

impl ReadStream<'_> {
    fn new(inner: Arc<Inner>, offset: u64, end: u64, options: StreamOptions) -> Self {
        let layout = inner.layout();
        Self {
            inner,
            next: offset,
            end,
            io_bytes: options.io_bytes(layout),
            ask: if options.sparse { Ask::Sparse } else { Ask::Plain },
            under_way: InFlight::new(options.window(layout)),
            file: PhantomData,
        }
    }

    /// Returns the next part; `None` at the end of the range, or at the end that the file had when the
    /// stream was created. Cancel-safe.
    ///
    /// # Errors
    /// The first by offset, with the data before it. The stream ends after it.
    pub async fn next(&mut self) -> Option<Result<Segments, ReadError>> {
        loop {
            self.ask_ahead();
            if let Some(read) = self.under_way.take_first() {
                match &read {
                    Ok(_) => self.ask_ahead(),
                    Err(_) => {
                        self.next = self.end;
                        self.under_way.give_up().await;
                    }
                }
                return Some(read);
            }
            if self.under_way.is_empty() {
                return None;
            }
            self.under_way.one_ends().await;
        }
    }

    /// The end of the range.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The bytes in flight, and their limit.
    pub fn window(&self) -> &Window {
        self.under_way.window()
    }

    fn ask_ahead(&mut self) {
        while self.next < self.end {
            let end = io_end(self.next, self.io_bytes).min(self.end);
            let (offset, len) = (self.next, end - self.next);
            if !self.under_way.has_room(len) {
                return;
            }
            let (inner, ask) = (Arc::clone(&self.inner), self.ask);
            self.under_way.start(len, async move { inner.read(ask, offset, len).await });
            self.next = end;
        }
    }
}
