//! Fuzz target: frames in secure mode.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_msgr_proto::fuzz::secure_frames(data));
