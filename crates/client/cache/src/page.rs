//! A block's bytes, shared by reference and copied on write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of a block. They can be read without a lock: a shared page is never changed.
#[derive(Debug)]
pub(crate) struct Page {
    /// A block's bytes, in an allocation of their own so that its size is a power of two.
    data: Box<[u8]>,
    held: Arc<AtomicU64>,
}

impl Page {
    pub(crate) fn zeroed(block_bytes: u32, held: &Arc<AtomicU64>) -> Self {
        // Relaxed, here and below: nothing depends on this sum.
        held.fetch_add(block_bytes.into(), Ordering::Relaxed);
        Self { data: vec![0; block_bytes as usize].into(), held: Arc::clone(held) }
    }

    /// A page that begins with `data`, followed by zeros.
    pub(crate) fn beginning(block_bytes: u32, data: &[u8], held: &Arc<AtomicU64>) -> Self {
        if data.len() < block_bytes as usize {
            let mut page = Self::zeroed(block_bytes, held);
            page.data[..data.len()].copy_from_slice(data);
            return page;
        }
        held.fetch_add(block_bytes.into(), Ordering::Relaxed);
        Self { data: data[..block_bytes as usize].into(), held: Arc::clone(held) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.data
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.data
    }
}

impl Clone for Page {
    fn clone(&self) -> Self {
        self.held.fetch_add(self.data.len() as u64, Ordering::Relaxed);
        Self { data: self.data.clone(), held: Arc::clone(&self.held) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.held.fetch_sub(self.data.len() as u64, Ordering::Relaxed);
    }
}
