//! Fuzz target: monmaps.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_maps::fuzz::monmap(data));
