//! Fuzz target: osdmaps.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_maps::fuzz::osdmap(data));
