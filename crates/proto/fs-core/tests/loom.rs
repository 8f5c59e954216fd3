//! Every interleaving of operations and a revoke on the word of an inode: no operation begins after the
//! revoke is finished, exactly one caller learns that a capability is drained, and it sees what the
//! operations did. No write goes past a buffer that another one may fill.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p loligo-fs-core --release --test loom`
#![cfg(loom)]

use loligo_fs_core::word::{Busy, CapWord, Class, Refusal};
use loligo_types::Caps;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

/// A word, what operations have done, and how often a revoke was found drained. loom reports accesses of
/// `done` that are not ordered by the word.
struct Model {
    word: CapWord,
    done: [UnsafeCell<u32>; 2],
    drained: AtomicU32,
}

impl Model {
    fn new(held: Caps) -> Arc<Self> {
        let word = CapWord::new();
        word.publish(held, 1);
        Arc::new(Self { word, done: Default::default(), drained: AtomicU32::new(0) })
    }

    fn operate(&self, which: usize, class: Class) {
        match self.word.try_ref(class, 1) {
            Ok(()) => {
                // SAFETY: each operation has a cell of its own, and the revoke looks after all have ended;
                // loom checks this.
                self.done[which].with_mut(|done| unsafe { *done += 1 });
                self.drain(self.word.put(class));
            }
            Err(refusal) => assert!(matches!(refusal, Refusal::Revoking | Refusal::Missing)),
        }
    }

    /// What the owner does under the inode's lock after it has begun a revoke, and after each short read that
    /// says so.
    fn go_on(&self) {
        if self.word.busy().cached_reads {
            return;
        }
        self.drained.fetch_add(1, Relaxed);
        for done in &self.done {
            // SAFETY: no read is in progress and none begins, as the counters say; loom checks this.
            done.with(|done| assert!(unsafe { *done } <= 1));
        }
        assert!(self.word.try_ref(Class::CachedRead, 1).is_err());
    }

    fn drain(&self, drained: Caps) {
        if drained.is_empty() {
            return;
        }
        self.drained.fetch_add(1, Relaxed);
        for done in &self.done {
            // SAFETY: the word orders this after all operations; loom checks this.
            done.with(|done| assert!(unsafe { *done } <= 1));
        }
        assert_eq!(self.word.finish(drained), Caps::NONE);
        assert!(self.word.try_ref(Class::Write, 1).is_err());
    }
}

/// Explores every interleaving of a model with at most three preemptions; without a bound the larger model
/// takes hours.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut bounded = loom::model::Builder::new();
    bounded.preemption_bound = Some(3);
    bounded.check(model);
}

#[test]
fn a_revoke_is_drained_once_and_after_all_operations() {
    check(|| {
        let model = Model::new(Caps::FILE_WR | Caps::FILE_BUFFER);
        let threads: Vec<_> = [Class::Write, Class::BufferedWrite]
            .into_iter()
            .enumerate()
            .map(|(which, class)| {
                let model = model.clone();
                thread::spawn(move || model.operate(which, class))
            })
            .collect();
        // An operation of either class uses Fw.
        let drained = model.word.revoke(Caps::FILE_WR);
        model.drain(drained);
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(model.drained.load(Relaxed), 1);
        assert_eq!(model.word.usable(), Caps::FILE_BUFFER);
    });
}

/// Goal: of a revoke and the short reads that it meets somebody goes on with the revoke, and only once no
/// read uses the capability.
#[test]
fn a_revoke_goes_on_after_short_reads() {
    check(|| {
        let word = CapWord::shared();
        word.publish(Caps::FILE_RD | Caps::FILE_CACHE, 1);
        let model = Arc::new(Model { word, done: Default::default(), drained: AtomicU32::new(0) });
        let threads: Vec<_> = (0..2)
            .map(|which| {
                let model = model.clone();
                thread::spawn(move || {
                    let (_, looks) = model.word.short_read(which, 1, || {
                        // SAFETY: each read has a cell of its own, and the revoke goes on after all of them
                        // have ended; loom checks this.
                        model.done[which].with_mut(|done| unsafe { *done += 1 });
                    });
                    if looks {
                        model.go_on();
                    }
                })
            })
            .collect();
        let _ = model.word.revoke(Caps::FILE_CACHE);
        model.go_on();
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert!(model.drained.load(Relaxed) > 0, "nobody goes on");
    });
}

#[test]
fn an_operation_sees_what_was_published_with_its_capability() {
    check(|| {
        let model = Model::new(Caps::NONE);
        let other = model.clone();
        let thread = thread::spawn(move || {
            // SAFETY: nobody else looks before the capability is published; loom checks this.
            other.done[0].with_mut(|done| unsafe { *done = 7 });
            other.word.publish(Caps::FILE_RD, 1);
        });
        if model.word.try_ref(Class::Read, 1).is_ok() {
            // SAFETY: the reference was taken after `publish`; loom checks this.
            model.done[0].with(|done| assert_eq!(unsafe { *done }, 7));
            assert_eq!(model.word.put(Class::Read), Caps::NONE);
        }
        thread.join().expect("no panic");
    });
}

#[test]
fn no_write_past_the_cache_is_in_progress_while_the_cache_is_used() {
    check(|| {
        let model = Model::new(Caps::FILE_WR);
        let other = model.clone();
        // The owner grants the buffer as it does at each event: it takes everything back first, and grants
        // the buffer only if no write to the store is in progress.
        let owner = thread::spawn(move || {
            let _ = other.word.revoke(Caps::FILE_WR | Caps::FILE_BUFFER);
            let is_busy = other.word.busy().writes;
            let buffer = if is_busy { Caps::NONE } else { Caps::FILE_BUFFER };
            other.word.publish(Caps::FILE_WR | buffer, 1);
        });
        if let Ok(class) = model.word.begin(true, 1) {
            if class == Class::Write {
                assert!(!model.word.usable().contains(Caps::FILE_BUFFER), "past what may be buffered");
            }
            let _ = model.word.put(class);
        }
        owner.join().expect("no panic");
        assert_eq!(model.word.busy(), Busy::default());
    });
}
