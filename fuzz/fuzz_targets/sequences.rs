//! Fuzz target: sequences of requests to an OSD, with bounds on work and memory.

#![no_main]

#[path = "../counting.rs"]
mod counting;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let peak = counting::Peak::from_now();
    let _ = loligo_osd::fuzz::sequences(data, || peak.bytes());
});
