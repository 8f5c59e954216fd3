//! The tests' own program serves: its memory is prepared ahead, within a bound, and is used again.

use std::fs;

use crate::{Heap, serve};

#[global_allocator]
static HEAP: Heap = Heap;

/// Bytes of this process that are resident.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the kernel tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).expect("a number") << 10
}

/// Buffers of 4 KiB, each filled.
fn stored(bytes: usize) -> Vec<Box<[u8]>> {
    (0..bytes >> 12).map(|n| vec![n as u8 | 1; 4096].into_boxed_slice()).collect()
}

/// Whether some memory has been said to have large pages; `None` if this kernel has none.
fn wants_large_pages() -> Option<bool> {
    let maps = fs::read_to_string("/proc/self/smaps").expect("the kernel tells");
    let mut flags = maps.lines().filter_map(|line| line.strip_prefix("VmFlags:"));
    let is_there = fs::exists("/sys/kernel/mm/transparent_hugepage").expect("it is there or not");
    is_there.then(|| flags.any(|flags| flags.split_whitespace().any(|flag| flag == "hg")))
}

#[test]
fn memory_of_a_server_is_prepared_and_used_again() {
    const STORED: usize = 256 << 20;
    let before = resident();
    serve();
    serve();
    let small = stored(4 << 20);
    assert!(resident() < before + (16 << 20), "a server that stores little stays small");
    assert_ne!(wants_large_pages(), Some(true), "and has small pages");
    let large = stored(STORED);
    assert_ne!(wants_large_pages(), Some(false), "it has large ones");
    let full = resident();
    assert!(
        full >= STORED as u64 && full < (STORED + STORED / 2) as u64,
        "what is prepared is bounded: {full}"
    );
    // Freed memory is used before the kernel is asked for more.
    drop(large);
    let again = stored(STORED);
    assert!(resident() < full + (96 << 20), "{} after {full}", resident());
    assert!(small.iter().chain(&again).enumerate().all(|(n, buffer)| {
        let n = n.checked_sub(small.len()).unwrap_or(n);
        buffer.iter().all(|byte| *byte == n as u8 | 1)
    }));
}
