//! Fuzz target: compressed frames.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_msgr_proto::fuzz::compressed_frames(data));
