//! Fuzz target: data that a disk store reads from its disk.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    loligo_store_disk::fuzz::store(data);
});
