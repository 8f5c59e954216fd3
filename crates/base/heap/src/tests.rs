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

/// Returns `true` if what a buffer lies in may have no large pages.
fn has_small_pages(buffer: &[u8]) -> bool {
    let maps = fs::read_to_string("/proc/self/smaps").expect("the kernel tells");
    let is_of = |line: &str| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16));
        Some((start.ok()?..end.ok()?).contains(&buffer.as_ptr().addr()))
    };
    let behind = maps.lines().skip_while(|line| is_of(line) != Some(true));
    let flags = behind.into_iter().find_map(|line| line.strip_prefix("VmFlags:")).expect("flags");
    flags.split_whitespace().any(|flag| flag == "nh")
}

#[test]
fn memory_of_a_server_is_prepared_and_used_again() {
    const STORED: usize = 256 << 20;
    let before = resident();
    serve();
    serve();
    let small = stored(4 << 20);
    assert!(resident() < before + (16 << 20), "a server that stores little stays small");
    if fs::exists("/sys/kernel/mm/transparent_hugepage").expect("it is there or not") {
        assert!(has_small_pages(&small[0]), "in each page");
    }
    let large = stored(STORED);
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
