//! The atomic word of an inode: what the data path may do, decided without a lock.
//!
//! A read or write of a file's data takes a reference on the word and goes to the store; it locks nothing.
//! The word holds the data capabilities (held and being revoked), the generation in which they were issued,
//! and the number of operations in progress in each [`Class`]. [`InodeCaps`](crate::caps::InodeCaps) is the
//! truth; the word is its image for the data path, changed under the inode's lock by [`CapWord::publish`],
//! [`CapWord::revoke`] and [`CapWord::finish`]. References change without that lock.
//!
//! At each event that may take something, the owner does four things under the inode's lock: it revokes in
//! the word what the event takes; it tells the state which classes are [`CapWord::busy`]
//! ([`InodeCaps::outside`](crate::caps::InodeCaps::outside)); it runs the event; and it publishes what the
//! state permits ([`InodeCaps::publishable`](crate::caps::InodeCaps::publishable)). A `put` that drains a
//! revoke does the same with an event that only looks ([`InodeCaps::check`](crate::caps::InodeCaps::check)).
//!
//! A revoke sets its bit first. No operation that uses the bit can begin then, and those in progress end.
//! The call that makes the bit unused reports it as *drained*: [`CapWord::revoke`] if nothing used it,
//! otherwise the [`CapWord::put`] of the last operation. Exactly one of these calls reports it, since the
//! compare-and-swap that makes the last change is one step. Its caller runs the rest of the revoke under the
//! inode's lock. [`CapWord::short_read`] is counted elsewhere: where short reads are the last to use a bit,
//! one or several of them report that the revoke may go on.
//!
//! Orders. A reference is taken with Acquire: the operation sees what was published with the capability.
//! It is put with Release, and the one that drains also acquires: the revoke sees what all operations that
//! used the bit have done. `publish` releases, for the same two reasons. The word is the only variable,
//! so nothing needs SeqCst; [`CapWord::short_read`] has further variables, and its own argument.
//! `tests/loom.rs` checks every interleaving of two operations and a revoke.

mod layout;
mod short;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use loligo_types::Caps;

pub use layout::{Busy, Class, GENERATIONS, REFERENCES_MAX};
use layout::{CACHED_READ, Fields, held_bits, set_of};
use short::Readers;
use sync::{AcqRel, Acquire, AtomicU64, SeqCst, fence};

/// Why no reference was taken. All but [`Refusal::Full`] are decided under the inode's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The capability is not held.
    #[error("the capability is not held")]
    Missing,
    /// The capability is being revoked.
    #[error("the capability is being revoked")]
    Revoking,
    /// The capability was issued before the session was stale.
    #[error("the capability is of an earlier generation of the session")]
    Stale,
    /// Too many operations of this class are in progress.
    #[error("{REFERENCES_MAX} operations of this kind are in progress on the inode")]
    Full,
}

/// The word.
#[derive(Debug)]
pub struct CapWord {
    word: AtomicU64,
    /// Where short reads are counted, once threads have met at the word.
    readers: OnceLock<Box<Readers>>,
}

impl Default for CapWord {
    fn default() -> Self {
        Self::new()
    }
}

impl CapWord {
    /// A word with no capability.
    pub fn new() -> Self {
        Self { word: AtomicU64::new(0), readers: OnceLock::new() }
    }

    /// A word with no capability at which threads have met already: its short reads are counted beside it
    /// from the start.
    pub fn shared() -> Self {
        Self { word: AtomicU64::new(0), readers: OnceLock::from(Box::default()) }
    }

    /// Takes a reference to read or to write the file's data, and returns its class: with the cache if the
    /// capability for that may be used. The class is chosen in the step that takes the reference, so no
    /// write goes past a buffer that was permitted meanwhile.
    ///
    /// # Errors
    ///
    /// The reason for which the operation must take the inode's lock.
    pub fn begin(&self, writes: bool, generation: u32) -> Result<Class, Refusal> {
        self.change(Acquire, |fields| {
            let class = fields.class(writes);
            take(fields, class, generation).map(|()| class)
        })
    }

    /// Takes a reference for an operation, if all capabilities of its class are held, of the session's
    /// current `generation`, and not being revoked.
    ///
    /// # Errors
    ///
    /// The reason for which the operation must take the inode's lock.
    pub fn try_ref(&self, class: Class, generation: u32) -> Result<(), Refusal> {
        self.change(Acquire, |fields| take(fields, class, generation))
    }

    /// Returns the reference of an operation that has ended, and the revoked capabilities that it was the
    /// last to use. If there are any, the caller continues the revoke under the inode's lock.
    #[must_use = "the caller of the last `put` continues the revoke"]
    pub fn put(&self, class: Class) -> Caps {
        let drained = self.change(AcqRel, |fields| {
            let used = fields.used();
            let count = fields.count(class);
            debug_assert!(*count > 0, "a reference is put once");
            *count = count.saturating_sub(1);
            Ok(fields.revoking & used & !fields.used())
        });
        let drained = drained.unwrap_or(0);
        set_of(if drained == 0 { 0 } else { drained & !self.used_shortly() })
    }

    /// Runs `read`, which reads from the cache and waits for nobody, if the capabilities for that are held,
    /// of the session's current `generation`, and not being revoked. `thread` is a number of the calling
    /// thread: threads with different ones do not slow each other down.
    ///
    /// Also returns whether a revoke may have waited for this: then the caller looks at the state, under the
    /// inode's lock, even if nothing was read.
    ///
    /// # Errors
    ///
    /// The reason for which nothing was read.
    pub fn short_read<R>(
        &self,
        thread: usize,
        generation: u32,
        read: impl FnOnce() -> R,
    ) -> (Result<R, Refusal>, bool) {
        let Some(readers) = self.readers.get() else {
            let result = self.try_ref(Class::CachedRead, generation).map(|()| read());
            let drained = if result.is_ok() { self.put(Class::CachedRead) } else { Caps::NONE };
            return (result, !drained.is_empty());
        };
        let counted = readers.count(thread);
        let may = may_take(&Fields::of(self.word.load(Acquire)), Class::CachedRead, generation);
        let result = may.map(|()| read());
        drop(counted);
        let ended = Fields::of(self.word.load(Acquire));
        (result, ended.revoking & CACHED_READ != 0)
    }

    /// Publishes capabilities: `held` of `generation`. A capability that is being revoked and is in `held`
    /// has come back, and its revoke ends here. One that is not in `held` and in use is being revoked from
    /// now on.
    pub fn publish(&self, held: Caps, generation: u32) {
        let held = held_bits(held);
        // Only the owner changes what is held, and it calls this.
        let before = Fields::of(self.word.load(Acquire));
        let goes = before.held & CACHED_READ & !held & !before.revoking;
        let mut short = 0;
        if goes != 0 {
            // No short read begins with it any more; then those in progress are seen.
            let _ = self.revoke(set_of(goes));
            short = self.used_shortly();
        }
        let published = self.change(AcqRel, |fields| {
            let revoking = fields.revoking & !goes;
            fields.revoking = fields.held & !held & (revoking | fields.used() | short);
            fields.held = held | fields.revoking;
            fields.generation = generation % GENERATIONS;
            Ok(())
        });
        debug_assert!(published.is_ok(), "nothing refuses");
    }

    /// Begins to revoke capabilities, and returns those that nothing uses: they may be finished at once.
    #[must_use = "what nothing uses is drained already"]
    pub fn revoke(&self, bits: Caps) -> Caps {
        let bits = held_bits(bits);
        let drained = self.change(AcqRel, |fields| {
            fields.revoking |= bits & fields.held;
            Ok(fields.revoking & bits & !fields.used())
        });
        set_of(drained.unwrap_or(0) & !self.used_shortly())
    }

    /// Ends a revoke: the capabilities are gone. Those that operations still use stay, and are returned.
    pub fn finish(&self, bits: Caps) -> Caps {
        let bits = held_bits(bits);
        // No short read begins with a capability that is being revoked.
        let short = self.used_shortly();
        let left = self.change(AcqRel, |fields| {
            let gone = bits & fields.revoking & !(fields.used() | short);
            fields.held &= !gone;
            fields.revoking &= !gone;
            Ok(bits & fields.held)
        });
        set_of(left.unwrap_or(0))
    }

    /// The capabilities that operations use now.
    pub fn used(&self) -> Caps {
        set_of(Fields::of(self.word.load(Acquire)).used() | self.used_shortly())
    }

    /// Which classes have operations in progress now.
    pub fn busy(&self) -> Busy {
        let busy = Fields::of(self.word.load(Acquire)).busy();
        Busy { cached_reads: busy.cached_reads || self.used_shortly() != 0, ..busy }
    }

    /// The bits that short reads use which the word does not count. The caller has changed the word before.
    fn used_shortly(&self) -> u64 {
        // Before the counters are looked for: if this thread does not find them, each reader that does finds
        // what this thread has changed in the word.
        fence(SeqCst);
        if self.readers.get().is_some_and(|readers| readers.are_there()) { CACHED_READ } else { 0 }
    }

    /// Threads have met at the word: the next short read finds the counters.
    fn met(&self) {
        if !cfg!(loom) {
            self.readers.get_or_init(Box::default);
        }
    }

    /// The capabilities that are held and not being revoked.
    pub fn usable(&self) -> Caps {
        let fields = Fields::of(self.word.load(Acquire));
        set_of(fields.held & !fields.revoking)
    }

    /// Changes the word in one step, or leaves it if `change` fails.
    fn change<T>(
        &self,
        order: sync::Ordering,
        mut change: impl FnMut(&mut Fields) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut seen = self.word.load(Acquire);
        loop {
            let mut fields = Fields::of(seen);
            let result = change(&mut fields)?;
            match self.word.compare_exchange_weak(seen, fields.word(), order, Acquire) {
                Ok(_) => return Ok(result),
                Err(other) => seen = other,
            }
            self.met();
        }
    }
}

fn take(fields: &mut Fields, class: Class, generation: u32) -> Result<(), Refusal> {
    may_take(fields, class, generation)?;
    let count = fields.count(class);
    if *count == REFERENCES_MAX {
        return Err(Refusal::Full);
    }
    *count += 1;
    Ok(())
}

fn may_take(fields: &Fields, class: Class, generation: u32) -> Result<(), Refusal> {
    let bits = class.bits();
    if fields.revoking & bits != 0 {
        return Err(Refusal::Revoking);
    }
    if fields.held & bits != bits {
        return Err(Refusal::Missing);
    }
    if fields.generation != generation % GENERATIONS {
        return Err(Refusal::Stale);
    }
    Ok(())
}
