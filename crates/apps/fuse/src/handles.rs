//! Open files and directories, found by number without a lock.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use loligo_lockstat::{Class, Mutex};

/// Held to assign and to give back a number; never to find what has one.
static HANDLES: Class = Class::new("fuse.handles");

/// The places of the first block; each further block has twice as many.
const FIRST: usize = 64;
/// More blocks than numbers would need.
const BLOCKS: usize = 26;

/// A growing array of things with numbers.
pub(crate) struct Handles<T> {
    blocks: [OnceLock<Box<[ArcSwapOption<T>]>>; BLOCKS],
    numbers: Mutex<Numbers>,
}

#[derive(Default)]
struct Numbers {
    free: Vec<u64>,
    next: u64,
}

/// Returns the block of a number, and its place in it.
fn place(number: u64) -> Option<(usize, usize)> {
    let number = usize::try_from(number).ok()?.checked_add(FIRST)?;
    let block = (number / FIRST).ilog2() as usize;
    (block < BLOCKS).then(|| (block, number - (FIRST << block)))
}

impl<T> Handles<T> {
    pub(crate) fn new() -> Self {
        Self {
            blocks: [const { OnceLock::new() }; BLOCKS],
            numbers: Mutex::new(&HANDLES, Numbers::default()),
        }
    }

    fn slot(&self, number: u64) -> Option<&ArcSwapOption<T>> {
        let (block, at) = place(number)?;
        self.blocks[block].get()?.get(at)
    }

    /// Gives a thing a number. `None` if there are no more numbers.
    pub(crate) fn add(&self, thing: Arc<T>) -> Option<u64> {
        let number = {
            let mut numbers = self.numbers.lock();
            numbers.free.pop().unwrap_or_else(|| {
                numbers.next += 1;
                numbers.next - 1
            })
        };
        let (block, at) = place(number)?;
        let block = self.blocks[block].get_or_init(|| {
            let places = FIRST << block;
            std::iter::repeat_with(ArcSwapOption::empty).take(places).collect()
        });
        block[at].store(Some(thing));
        Some(number)
    }

    /// Finds what has a number.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<T>> {
        self.slot(number)?.load_full()
    }

    /// Takes what has a number out; the number can be given again.
    pub(crate) fn remove(&self, number: u64) -> Option<Arc<T>> {
        let thing = self.slot(number)?.swap(None)?;
        self.numbers.lock().free.push(number);
        Some(thing)
    }

    /// Takes everything out.
    pub(crate) fn clear(&self) {
        for slot in self.blocks.iter().filter_map(OnceLock::get).flat_map(|block| block.iter()) {
            drop(slot.swap(None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        assert_eq!(place(0), Some((0, 0)));
        assert_eq!(place(63), Some((0, 63)));
        assert_eq!(place(64), Some((1, 0)));
        assert_eq!(place(64 + 127), Some((1, 127)));
        assert_eq!(place(64 + 128), Some((2, 0)));
        assert_eq!(place(u64::MAX), None);
    }

    #[test]
    fn numbers_are_given_again_after_they_are_given_back() {
        let handles = Handles::new();
        let numbers: Vec<u64> = (0..1000).map(|n| handles.add(Arc::new(n)).expect("a number")).collect();
        for (n, number) in numbers.iter().enumerate() {
            assert_eq!(handles.get(*number).as_deref(), Some(&n));
        }
        assert_eq!(handles.remove(numbers[500]).as_deref(), Some(&500));
        assert!(handles.get(numbers[500]).is_none() && handles.remove(numbers[500]).is_none());
        assert_eq!(handles.add(Arc::new(7777)), Some(numbers[500]));
        assert!(handles.get(1_000_000).is_none());
        handles.clear();
        assert!(handles.get(numbers[3]).is_none());
    }
}
