//! Sequential writes, several I/Os at a time.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;

use super::in_flight::InFlight;
use super::{StreamOptions, Window, io_end};
use crate::buffers::Buffers;
use crate::error::{Error, WriteError};
use crate::file::{File, Inner};

/// How far the file's size is grown ahead of the data, if the end is known. Each growth is a request of
/// its own, before the data.
const RESERVE_BYTES: u64 = 64 << 20;

/// A sequence of data written in order, several I/Os at a time.
///
/// Dropping it before [`WriteStream::finish`] abandons the I/Os in flight: any bytes behind
/// [`WriteStream::written`] may or may not be written.
#[derive(Debug)]
#[must_use = "WriteStream::finish waits for what is under way"]
pub struct WriteStream<'f> {
    inner: Arc<Inner>,
    /// The offset of the pending data.
    at: u64,
    pending: Buffers,
    written: u64,
    failed: bool,
    io_bytes: u64,
    ends_at: Option<u64>,
    /// The end of each I/O, or its error.
    under_way: InFlight<Result<u64, WriteError>>,
    /// Keeps the file open while the stream exists.
    file: PhantomData<&'f File>,
}

impl File {
    /// Writes in order from `offset` on, several I/Os at a time.
    pub fn write_stream(&self, offset: u64, options: StreamOptions) -> WriteStream<'_> {
        WriteStream::new(self.inner(), offset, options)
    }
}

impl WriteStream<'_> {
    pub(crate) fn new(inner: Arc<Inner>, offset: u64, options: StreamOptions) -> Self {
        let layout = inner.layout();
        Self {
            inner,
            at: offset,
            pending: Buffers::default(),
            written: offset,
            failed: false,
            io_bytes: options.io_bytes(layout),
            ends_at: options.ends_at,
            under_way: InFlight::new(options.window(layout)),
            file: PhantomData,
        }
    }

    /// Accepts data, and waits until the window has room for all full I/Os in it. If the future is
    /// dropped, the data stays accepted, and the next call continues with it.
    ///
    /// # Errors
    /// The first by offset, of all earlier data. After an error the stream accepts no more data.
    pub async fn write(&mut self, data: Bytes) -> Result<(), WriteError> {
        self.check()?;
        self.pending.push(data);
        while self.at + self.pending.len() >= io_end(self.at, self.io_bytes) {
            self.send(io_end(self.at, self.io_bytes)).await?;
        }
        Ok(())
    }

    /// Skips `len` bytes: existing data of the file stays there; where there is none, a hole remains.
    ///
    /// # Errors
    /// The first by offset, of all earlier data.
    pub async fn skip(&mut self, len: u64) -> Result<(), WriteError> {
        self.send_pending().await?;
        self.at = self.at.saturating_add(len);
        Ok(())
    }

    /// Waits until all accepted data is written.
    ///
    /// # Errors
    /// The first by offset.
    pub async fn flush(&mut self) -> Result<(), WriteError> {
        self.send_pending().await?;
        while !self.under_way.is_empty() {
            self.under_way.one_ends().await;
            self.take_ended().await?;
        }
        self.written = self.at;
        Ok(())
    }

    /// Like `flush`; returns the end of the data. A file that should end with
    /// [skipped](WriteStream::skip) bytes must be [extended](crate::File::extend).
    ///
    /// # Errors
    /// The first by offset.
    pub async fn finish(mut self) -> Result<u64, WriteError> {
        self.flush().await?;
        Ok(self.written)
    }

    /// All bytes before this offset are written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The bytes in flight, and their limit.
    pub fn window(&self) -> &Window {
        self.under_way.window()
    }

    async fn send_pending(&mut self) -> Result<(), WriteError> {
        self.check()?;
        while !self.pending.is_empty() {
            let end = self.at + self.pending.len();
            self.send(io_end(self.at, self.io_bytes).min(end)).await?;
        }
        Ok(())
    }

    /// Sends the pending data before `end`, when there is room.
    async fn send(&mut self, end: u64) -> Result<(), WriteError> {
        let len = end - self.at;
        while !self.under_way.has_room(len) {
            self.take_ended().await?;
            if self.under_way.has_room(len) {
                break;
            }
            self.under_way.one_ends().await;
        }
        self.take_ended().await?;
        let (inner, offset, data) = (Arc::clone(&self.inner), self.at, self.pending.split_to(len));
        let reserve = self.ends_at.map(|ends_at| ends_at.min(end.saturating_add(RESERVE_BYTES)));
        self.under_way.start(len, async move {
            let written = inner.write(offset, data, reserve).await;
            written.map(|()| end)
        });
        self.at = end;
        Ok(())
    }

    /// Records ended I/Os in order, so that the first error reported is the first by offset.
    async fn take_ended(&mut self) -> Result<(), WriteError> {
        while let Some(ended) = self.under_way.take_first() {
            match ended {
                Ok(end) => self.written = end,
                Err(e) => {
                    self.failed = true;
                    self.written = e.at;
                    self.pending = Buffers::default();
                    self.under_way.give_up().await;
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), WriteError> {
        match self.failed {
            false => Ok(()),
            true => Err(WriteError { at: self.written, source: Error::AfterFailure }),
        }
    }
}
