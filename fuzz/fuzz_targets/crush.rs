//! Fuzz target: CRUSH maps.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_maps::fuzz::crush(data));
