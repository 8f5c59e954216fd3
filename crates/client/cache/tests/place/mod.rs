//! A back end in memory that counts and delays requests, fails, and can be cut off.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use loligo_cache::Backend;
use tokio::sync::Notify;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failure {0}")]
pub(crate) struct Failure(pub(crate) u64);

/// Objects in memory. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Store(Arc<Inner>);

#[derive(Default)]
pub(crate) struct Inner {
    objects: Mutex<HashMap<u64, Vec<u8>>>,
    /// The offsets and lengths of each write.
    pub(crate) writes: Mutex<Vec<Vec<(u64, usize)>>>,
    pub(crate) reads: AtomicU64,
    /// The number of calls until one fails; 0: none fails.
    pub(crate) fails_after: AtomicU64,
    /// All writes fail.
    pub(crate) is_broken: AtomicBool,
    /// A write panics.
    pub(crate) panics: AtomicBool,
    /// No read is answered.
    pub(crate) reads_hang: AtomicBool,
    /// No request is answered.
    is_cut_off: AtomicBool,
    back: Notify,
    failures: AtomicU64,
    pub(crate) delay_us_max: AtomicU64,
}

impl std::ops::Deref for Store {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

#[allow(dead_code, reason = "not all tests use all of it")]
impl Store {
    pub(crate) fn content(&self, object: u64) -> Vec<u8> {
        self.objects.lock().unwrap().get(&object).cloned().unwrap_or_default()
    }

    pub(crate) fn put(&self, object: u64, data: Vec<u8>) {
        self.objects.lock().unwrap().insert(object, data);
    }

    pub(crate) fn cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, Ordering::SeqCst);
        self.back.notify_waiters();
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::SeqCst)
    }

    async fn answer(&self) -> Result<(), Failure> {
        let delay = self.delay_us_max.load(Ordering::SeqCst);
        if delay > 0 {
            tokio::time::sleep(Duration::from_micros(fastrand::u64(0..delay))).await;
        } else {
            tokio::task::yield_now().await;
        }
        loop {
            let back = self.back.notified();
            tokio::pin!(back);
            back.as_mut().enable();
            if !self.is_cut_off.load(Ordering::SeqCst) {
                break;
            }
            back.await;
        }
        let left = self.fails_after.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if left == Ok(1) { Err(self.fail()) } else { Ok(()) }
    }

    fn fail(&self) -> Failure {
        Failure(self.failures.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

impl Backend for Store {
    type Error = Failure;

    async fn read(&self, object: u64, offset: u64, len: u64) -> Result<Bytes, Failure> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        // The data is that of some time between call and reply.
        let early = fastrand::bool();
        let take = || {
            let objects = self.objects.lock().unwrap();
            let content = objects.get(&object).map(Vec::as_slice).unwrap_or_default();
            let at = content.len().min(offset as usize);
            Bytes::copy_from_slice(&content[at..content.len().min((offset + len) as usize)])
        };
        let before = early.then(take);
        if self.reads_hang.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.answer().await?;
        Ok(before.unwrap_or_else(take))
    }

    async fn write(&self, object: u64, extents: Vec<(u64, Vec<Bytes>)>) -> Result<(), Failure> {
        let whole = |(at, pieces): (u64, Vec<Bytes>)| (at, pieces.concat());
        let extents: Vec<(u64, Vec<u8>)> = extents.into_iter().map(whole).collect();
        self.answer().await?;
        assert!(!self.panics.load(Ordering::SeqCst), "as the test wants it");
        if self.is_broken.load(Ordering::SeqCst) {
            return Err(self.fail());
        }
        let mut objects = self.objects.lock().unwrap();
        let content = objects.entry(object).or_default();
        let mut end = 0;
        for (offset, data) in &extents {
            assert!(*offset >= end, "ascending and apart: {extents:?}");
            end = offset + data.len() as u64;
            content.resize(content.len().max(end as usize), 0);
            content[*offset as usize..end as usize].copy_from_slice(data);
        }
        self.writes.lock().unwrap().push(extents.iter().map(|(at, data)| (*at, data.len())).collect());
        Ok(())
    }
}
