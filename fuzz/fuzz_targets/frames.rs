//! Fuzz target: frames in crc mode.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_msgr_proto::fuzz::frames(data));
