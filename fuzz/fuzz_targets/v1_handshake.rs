//! Fuzz target: the handshake of version 1, both sides, and the messages that follow it.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_msgr_proto::fuzz::v1_handshake(data));
