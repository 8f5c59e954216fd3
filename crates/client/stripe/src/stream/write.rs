//! Writes a file in order, several I/Os at a time.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;

use super::in_flight::InFlight;
use super::{StreamOptions, Window, io_end};
use crate::buffers::Buffers;
use crate::error::{Error, WriteError};
use crate::file::{File, Inner};

/// By how much the file grows ahead of what is written, if it is known where that ends. Each growth is a
/// request of its own, before the data.
const RESERVE_BYTES: u64 = 64 << 20;

/// Data that is written in order, several I/Os at a time.
///
/// Dropped before [`WriteStream::finish`], it gives up what is under way: of the bytes behind
/// [`WriteStream::written`] any may be written or not.
#[derive(Debug)]
#[must_use = "WriteStream::finish waits for what is under way"]
pub struct WriteStream<'f> {
    inner: Arc<Inner>,
    /// Where what is pending begins.
    at: u64,
    pending: Buffers,
    written: u64,
    failed: bool,
    io_bytes: u64,
    ends_at: Option<u64>,
    /// Where each I/O ends, or why it failed.
    under_way: InFlight<Result<u64, WriteError>>,
    /// As long as it is written the file is open.
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

    /// Takes data, and waits until there is room for what of it fills I/Os. Dropped meanwhile, the future
    /// leaves the data taken; the next call goes on with it.
    ///
    /// # Errors
    /// The first by offset, of all that was taken before. After that the stream takes nothing more.
    pub async fn write(&mut self, data: Bytes) -> Result<(), WriteError> {
        self.check()?;
        self.pending.push(data);
        while self.at + self.pending.len() >= io_end(self.at, self.io_bytes) {
            self.send(io_end(self.at, self.io_bytes)).await?;
        }
        Ok(())
    }

    /// Leaves `len` bytes out: what the file has there stays, and where it has nothing, is a hole.
    ///
    /// # Errors
    /// The first by offset, of what was taken before.
    pub async fn skip(&mut self, len: u64) -> Result<(), WriteError> {
        self.send_pending().await?;
        self.at = self.at.saturating_add(len);
        Ok(())
    }

    /// Writes all that was taken, and waits until that is done.
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

    /// The same, and where it ends. A file that shall end with what was [left out](WriteStream::skip) must be
    /// [extended](crate::File::extend).
    ///
    /// # Errors
    /// The first by offset.
    pub async fn finish(mut self) -> Result<u64, WriteError> {
        self.flush().await?;
        Ok(self.written)
    }

    /// All bytes before this one are written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// What is under way, and how much may be.
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

    /// Sends what is pending before `end`, when there is room.
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

    /// Notes what has ended, in order, so that the first error by offset is the first that is seen.
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
