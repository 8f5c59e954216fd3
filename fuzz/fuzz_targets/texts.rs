//! Fuzz target: keyrings, ceph.conf and capabilities.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loligo_cephx::fuzz::texts(data));
