//! Fuzz target: maps of metadata servers.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_maps::fuzz::mdsmap(data));
