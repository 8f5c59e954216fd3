//! Fuzz target: incrementals of osdmaps.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_maps::fuzz::incremental(data));
