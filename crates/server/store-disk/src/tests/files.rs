//! Goal: a store whose files were emptied, cut, exchanged or removed is refused with their names, or is
//! complete. It is never opened with data missing, and never created again. Method: each file of a store
//! that was closed or killed, one at a time and in pairs.

use std::collections::BTreeMap;

use super::fsck::{check, mend};
use super::start::write_groups;
use super::*;
use crate::layout::{Superblock, VERSION};
use crate::notes::SUPER;

const FILES: [&str; 5] = [SUPER[0], SUPER[1], "journal", "data", "kv"];
const VERSIONS: u64 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Emptied,
    Cut,
    Zeroed,
    Exchanged,
}

const HARMS: [Harm; 4] = [Harm::Emptied, Harm::Cut, Harm::Zeroed, Harm::Exchanged];

/// A store of the same cluster, closed or killed.
struct Written {
    files: BTreeMap<&'static str, Vec<u8>>,
    map: Arc<BTreeMap<Bytes, Bytes>>,
    history: Vec<(u64, Models)>,
}

fn written(closed: bool, versions: u64) -> Written {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = write_groups(&store, versions);
    let machine = if closed {
        store.close();
        machine.restarted()
    } else {
        machine.restarted()
    };
    let files = FILES[..4].iter().map(|name| (*name, machine.contents(name))).collect();
    let map = machine.map();
    let history = pg.history.clone();
    drop((pg, store));
    Written { files, map, history }
}

impl Written {
    fn machine(&self) -> Machine {
        let machine = Machine::new(1, 64 << 20);
        self.files.iter().for_each(|(name, contents)| machine.put(name, contents.clone()));
        machine.put_map(Arc::clone(&self.map));
        machine
    }

    fn harm(&self, machine: &Machine, other: &Self, name: &'static str, harm: Harm) {
        if name == "kv" {
            // Damage to single files of the map's library shows as missing rows.
            machine.put_map(match harm {
                Harm::Exchanged => Arc::clone(&other.map),
                _ => Arc::default(),
            });
            return;
        }
        let whole = &self.files[name];
        machine.put(
            name,
            match harm {
                Harm::Emptied => Vec::new(),
                Harm::Cut => whole[..whole.len() / 2 / 4096 * 4096].to_vec(),
                Harm::Zeroed => vec![0; whole.len()],
                Harm::Exchanged => other.files[name].clone(),
            },
        );
    }

    /// Checks that everything is present.
    fn check(&self, store: &DiskStore, what: &str) {
        let pg = Pg::open(store, 0, self.history.clone()).expect("works");
        assert_eq!(pg.collection.version().version, VERSIONS, "{what}");
        pg.check(store, what);
    }
}

/// Returns whether the store was opened, and was complete; otherwise it was refused with the name of one
/// of these files.
fn opens(written: &Written, machine: &Machine, names: &[&str], what: &str) -> bool {
    match open(machine) {
        Ok(store) => {
            written.check(&store, what);
            true
        }
        Err(OpenError::Damaged(why)) => {
            assert!(names.iter().any(|name| why.contains(&format!("`{name}`"))), "{what}: {why}");
            assert!(why.contains("--repair") || why.contains("put back"), "{what}: {why}");
            false
        }
        Err(other) => panic!("{what}: {other}"),
    }
}

#[test]
fn a_store_with_files_that_are_not_its_own_is_refused_or_whole() {
    for closed in [true, false] {
        let (ours, other) = (written(closed, VERSIONS), written(closed, 3));
        for (i, first) in FILES.into_iter().enumerate() {
            for harm in HARMS {
                let machine = ours.machine();
                ours.harm(&machine, &other, first, harm);
                let what = format!("{first} {harm:?}, closed {closed}");
                let opened = opens(&ours, &machine, &[first], &what);
                // A file that lost only unneeded contents is as good as complete.
                let is_whole = ours.files.get(first).is_some_and(|file| *file == machine.contents(first))
                    || (harm == Harm::Cut && SUPER.contains(&first));
                assert!(!opened || is_whole, "{what}");
                for second in &FILES[i + 1..] {
                    for harm2 in HARMS {
                        let machine = ours.machine();
                        ours.harm(&machine, &other, first, harm);
                        ours.harm(&machine, &other, second, harm2);
                        let what = format!("{what}, {second} {harm2:?}");
                        // With both superblocks from another store, all other files are the ones that do
                        // not match.
                        let others = SUPER.contains(&first) && SUPER.contains(second);
                        let names = if others { FILES.to_vec() } else { vec![first, *second] };
                        opens(&ours, &machine, &names, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn a_lost_superblock_is_brought_back_from_the_other_one_and_both_from_the_map() {
    for closed in [true, false] {
        let (ours, other) = (written(closed, VERSIONS), written(closed, 3));
        for names in [&SUPER[..1], &SUPER[1..], &SUPER[..]] {
            for harm in [Harm::Emptied, Harm::Zeroed, Harm::Exchanged] {
                let machine = ours.machine();
                names.iter().for_each(|name| ours.harm(&machine, &other, name, harm));
                let what = format!("{names:?} {harm:?}, closed {closed}");
                assert!(open(&machine).is_err(), "{what}");
                let (done, left, _) = mend(&machine);
                if names.len() == 2 && harm == Harm::Exchanged {
                    assert!(open(&machine).is_err(), "{what}: nobody can tell that they are not its own");
                    continue;
                }
                assert!(left.is_empty() && done.iter().any(|done| done.contains("written again")), "{what}");
                let store = open(&machine).unwrap_or_else(|e| panic!("{what}: {e}"));
                ours.check(&store, &what);
                store.close();
                assert!(check(&machine.restarted()).1.is_empty(), "{what}");
            }
        }
    }
}

#[test]
fn a_journal_that_is_lost_begins_anew_when_it_is_mended() {
    let (ours, other) = (written(true, VERSIONS), written(true, 3));
    for harm in HARMS {
        let machine = ours.machine();
        ours.harm(&machine, &other, "journal", harm);
        assert!(open(&machine).is_err(), "{harm:?}");
        let (done, left, kept) = mend(&machine);
        assert!(left.is_empty() && done.iter().any(|done| done.contains("the journal")), "{harm:?}");
        let is_kept = kept.iter().any(|(name, bytes)| name == "journal" && *bytes == other.files["journal"]);
        assert_eq!(is_kept, harm == Harm::Exchanged);
        // The store was closed: the map has everything.
        ours.check(&open(&machine).expect("mended"), "mended");
    }
}

#[test]
fn a_map_that_is_older_than_the_store_is_refused() {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    write_groups(&store, VERSIONS);
    store.close();
    let machine = machine.restarted();
    let older = machine.map();
    let store = open(&machine).expect("closed");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    pg.collection.submit(one(VERSIONS + 1, b"o", Change::Create)).expect("room");
    store.close();
    let machine = machine.restarted();
    machine.put_map(older);
    let opened = open(&machine);
    assert!(matches!(&opened, Err(OpenError::Damaged(why)) if why.contains("older")), "{opened:?}");
}

#[test]
fn a_store_is_not_made_where_one_was() {
    let ours = written(true, VERSIONS);
    let id = Superblock::load(&*ours.machine().open(SUPER[0]).expect("simulated"));
    let id = id.expect("readable").expect("there").salt;
    let open_known = |machine: &Machine, id| {
        DiskStore::open_on(Arc::new(machine.clone()), DiskConfig { store: Some(id), ..config() })
    };
    assert!(matches!(open_known(&Machine::new(1, 64 << 20), id), Err(OpenError::Damaged(_))));
    assert!(matches!(open_known(&written(true, 3).machine(), id), Err(OpenError::Damaged(_))));
    let store = open_known(&ours.machine(), id).expect("its own");
    assert_eq!(store.id(), id);
}

#[test]
fn a_store_whose_making_was_cut_short_is_made() {
    for call in 0.. {
        let machine = Machine::new(call, 64 << 20);
        machine.plan(Plan { power_off_at: Some(call), ..Plan::default() });
        let made = open(&machine).is_ok() && machine.calls() <= call;
        machine.power_cycle();
        let store = open(&machine).unwrap_or_else(|e| panic!("cut at call {call}: {e}"));
        let pg = write_groups(&store, 3);
        store.close();
        let machine = machine.restarted();
        pg.check(&open(&machine).expect("closed"), "made");
        for name in SUPER {
            let superblock = Superblock::load(&*machine.open(name).expect("simulated"));
            let superblock = superblock.expect("readable").expect("there");
            assert!(superblock.ready && superblock.version == VERSION, "{name}, cut at call {call}");
        }
        if made {
            return assert!(call > 10, "{call} calls");
        }
    }
}

/// A store as version 3 left it.
fn of_version_3(written: &Written) -> Machine {
    let machine = written.machine();
    let file = machine.open(SUPER[0]).expect("simulated");
    let found = Superblock::load(&*file).expect("readable").expect("there");
    let old = Superblock { version: 3, ..found };
    old.store(&*file).expect("simulated");
    file.set_len(2 * 4096).expect("simulated");
    file.sync().expect("simulated");
    machine.put(SUPER[1], Vec::new());
    let data = machine.contents("data");
    machine.put("data", data[..old.blocks as usize * 4096].to_vec());
    let mut map = BTreeMap::clone(&machine.map());
    let row = map.get_mut(crate::keys::STORE).expect("every store has one");
    let decoded = crate::rows::StoreRow::decode(row).expect("ours");
    *row = crate::rows::StoreRow { mark: None, ..decoded }.encode();
    machine.put_map(Arc::new(map));
    machine
}

#[test]
fn an_older_store_becomes_one_of_the_newest_format_whenever_the_power_goes() {
    for closed in [true, false] {
        let ours = written(closed, VERSIONS);
        for call in 0.. {
            let machine = of_version_3(&ours);
            machine.plan(Plan { power_off_at: Some(call), ..Plan::default() });
            let opened = open(&machine).is_ok() && machine.calls() <= call;
            machine.power_cycle();
            let what = format!("closed {closed}, cut at call {call}");
            let store = open(&machine).unwrap_or_else(|e| panic!("{what}: {e}"));
            ours.check(&store, &what);
            let machine = machine.restarted();
            drop(store);
            let found = Superblock::load(&*machine.open(SUPER[1]).expect("simulated")).expect("readable");
            assert_eq!(found.map(|found| found.version), Some(VERSION), "{what}");
            if opened {
                assert!(call > 5, "{call} calls");
                break;
            }
        }
    }
}
