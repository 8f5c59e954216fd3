//! Fuzz target: commands to the monitor, with a bound on memory.

#![no_main]

#[path = "../counting.rs"]
mod counting;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let peak = counting::Peak::from_now();
    let _ = loligo_mon::fuzz::commands(data, || peak.bytes());
});
