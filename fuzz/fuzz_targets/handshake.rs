//! Fuzz target: handshakes, both sides.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_msgr_proto::fuzz::handshake(data));
