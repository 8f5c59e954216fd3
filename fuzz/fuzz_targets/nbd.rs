//! Fuzz target: what an NBD client sends.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_nbd_proto::fuzz::connection(data));
