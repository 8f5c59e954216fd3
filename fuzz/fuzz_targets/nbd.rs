//! Fuzz target: input from an NBD client.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_nbd_proto::fuzz::connection(data));
