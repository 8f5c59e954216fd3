//! Fuzz target: tickets and authorizers.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_cephx::fuzz::tickets(data));
