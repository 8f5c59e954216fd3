//! Fuzz target: maps of file systems.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_maps::fuzz::fsmap(data));
