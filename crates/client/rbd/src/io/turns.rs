//! Serializes copies of an object, from a parent or from a migration's source: one task copies, and
//! others wait.

use std::collections::HashSet;

use loligo_lockstat::{Class, Mutex};
use tokio::sync::Notify;

/// Held to insert or remove an object that is being copied.
static COPIES: Class = Class::new("rbd.copies");

/// Objects that are being copied, each by one task while others wait.
pub(crate) struct Copies {
    under_way: Mutex<HashSet<u64>>,
    ended: Notify,
}

impl Default for Copies {
    fn default() -> Self {
        Self { under_way: Mutex::new(&COPIES, HashSet::new()), ended: Notify::new() }
    }
}

impl Copies {
    /// Waits for the turn to copy an object, even if another task has just copied it.
    pub(crate) async fn own_turn(&self, object: u64) -> Turn<'_> {
        loop {
            if let Some(turn) = self.turn(object).await {
                return turn;
            }
        }
    }

    /// Waits for the turn to copy an object. Returns `None` if another task has copied it during the
    /// wait.
    pub(crate) async fn turn(&self, object: u64) -> Option<Turn<'_>> {
        let mut waited = false;
        loop {
            let ended = self.ended.notified();
            {
                let mut under_way = self.under_way.lock();
                if waited && !under_way.contains(&object) {
                    return None;
                }
                if under_way.insert(object) {
                    return Some(Turn { copies: self, object });
                }
            }
            waited = true;
            ended.await;
        }
    }
}

pub(crate) struct Turn<'a> {
    copies: &'a Copies,
    object: u64,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.copies.under_way.lock().remove(&self.object);
        self.copies.ended.notify_waiters();
    }
}
