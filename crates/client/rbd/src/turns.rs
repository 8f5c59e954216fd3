//! Whose turn it is to copy an object, from a parent or from the place that an image is migrated from: one
//! does it, and others wait.

use std::collections::HashSet;

use loligo_lockstat::{Class, Mutex};
use tokio::sync::Notify;

/// Held to enter or strike out an object that is being copied up.
static COPIES: Class = Class::new("rbd.copies");

/// Objects that are being copied up, each by one who does it while others wait.
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
    /// The turn to copy an object up, whoever else has done it.
    pub(crate) async fn own_turn(&self, object: u64) -> Turn<'_> {
        loop {
            if let Some(turn) = self.turn(object).await {
                return turn;
            }
        }
    }

    /// The turn to copy an object up; `None`, after that, if somebody else did it just now.
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
