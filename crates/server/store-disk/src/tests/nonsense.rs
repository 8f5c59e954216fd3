//! Goal: parsing arbitrary data from disk never panics and takes no more memory than there are bytes.
//! Method: data written by a store, changed at random, truncated, and replaced with arbitrary bytes.

use proptest::prelude::{any, prop, proptest};

use super::*;
use crate::backend::Buffer;
use crate::journal::Journal;
use crate::layout::Superblock;
use crate::{fuzz, keys, record, rows};

/// Records, and rows of the map, of a store with random contents.
fn corpus() -> Vec<Bytes> {
    let mut rng = Rng::new(7);
    let machine = Machine::new(7, 64 << 20);
    let store = open(&machine).expect("a new store");
    let mut pgs = open_all(&store, vec![Vec::new(); PGS as usize]).expect("works");
    load(&store, &mut pgs, &mut rng, 30).expect("works");
    store.close();
    let machine = machine.restarted();
    let store = open(&machine).expect("closed");
    let mut pgs = open_all(&store, pgs.into_iter().map(|pg| pg.history).collect()).expect("works");
    pgs.iter_mut().for_each(|pg| (0..4).for_each(|_| pg.submit(&mut rng).expect("works")));
    pgs.iter().for_each(Pg::wait);
    let machine = machine.restarted();
    let rows = machine.kv().expect("simulated").snapshot().range(b"A", b"Z", 400).expect("simulated");
    let mut all: Vec<Bytes> = rows.into_iter().flat_map(|(key, value)| [key, value]).collect();
    let salt =
        Superblock::load(&*machine.open("super").expect("simulated")).expect("ours").expect("there").salt;
    let file = machine.open("journal").expect("simulated");
    let row =
        machine.kv().expect("simulated").snapshot().get(keys::STORE).expect("simulated").expect("there");
    let tail = rows::StoreRow::decode(&row).expect("ours").journal_tail;
    let mut journal = Journal::new(file, salt, JOURNAL, tail).expect("simulated");
    while let Some(records) = journal.read().expect("simulated") {
        all.extend(records);
    }
    assert!(all.iter().any(|bytes| record::decode(bytes).is_ok()));
    all
}

/// Parses bytes as every format, also after a superblock.
fn read_all(bytes: &Bytes) {
    fuzz::store(bytes);
    fuzz::store(&[&[0; 4096], &bytes[..]].concat());
}

#[test]
fn what_is_whole_or_cut_short_is_read_without_harm() {
    for bytes in corpus() {
        (0..=bytes.len()).step_by(1 + bytes.len() / 50).for_each(|len| read_all(&bytes.slice(..len)));
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        read_all(&bytes.into());
    }
}

#[test]
fn what_was_changed_is_read_without_harm() {
    let (corpus, mut rng) = (corpus(), Rng::new(9));
    for _ in 0..4000 {
        let mut bytes = corpus[rng.below(corpus.len() as u64) as usize].to_vec();
        for _ in 0..1 + rng.below(6) {
            if !bytes.is_empty() {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = {
                    let any = rng.below(256) as u8;
                    rng.one_of(&[0, 1, 0x7f, 0x80, 0xff, any])
                };
            }
        }
        read_all(&bytes.into());
    }
}

#[test]
fn a_journal_of_nonsense_has_no_groups() {
    let mut rng = Rng::new(3);
    for _ in 0..50 {
        let machine = Machine::new(1, 0);
        let file = machine.open("journal").expect("simulated");
        let mut buffer = Buffer::zeroed(64 << 10);
        buffer.fill_with(|| rng.below(256) as u8);
        file.write(0, &buffer).expect("simulated");
        let at = rng.below(1 << 40) * 4096;
        let mut journal = Journal::new(file, Uuid([1; 16]), 64 << 10, at).expect("simulated");
        assert!(journal.read().expect("simulated").is_none());
        assert!(!journal.has_later(None).expect("simulated"));
    }
}
