//! Fuzz target: message bodies.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_wire::fuzz::messages(data));
