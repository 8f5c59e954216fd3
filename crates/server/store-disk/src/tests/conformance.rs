//! The conformance tests of every store.

use std::sync::Arc;

use loligo_store::conformance::{self, ROOM, transactions};
use proptest::prelude::*;

use super::super::backend::sim::Machine;
use super::super::config::DiskConfig;
use super::super::store::DiskStore;
use super::config;

fn empty() -> DiskStore {
    let machine = Machine::new(0, 4 * ROOM);
    let config = DiskConfig { capacity: Some(ROOM), journal_bytes: 16 << 20, ..config() };
    DiskStore::open_on(Arc::new(machine), config).expect("a new store")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn transactions_do_what_they_say(txns in transactions()) {
        conformance::transactions_do_what_they_say(&empty(), txns);
    }
}

#[test]
fn absurd_requests_are_refused() {
    conformance::absurd_requests_are_refused(&empty());
}

#[test]
fn holes_read_as_zeros_and_are_no_extents() {
    conformance::holes_read_as_zeros_and_are_no_extents(&empty());
}

#[test]
fn an_omap_is_read_in_pages() {
    conformance::an_omap_is_read_in_pages(&empty());
}
