//! Fuzz target: single requests to an OSD.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_osd::fuzz::requests(data));
