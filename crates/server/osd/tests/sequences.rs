//! Replays the corpus of scripts. Goal: whatever clients do one after the other, answers come in order,
//! objects read back what they must, and memory stays within its bound. Method: what fuzzing found worth
//! keeping, then the same mutated; in a process of its own, whose allocations are counted. With
//! `LOLIGO_SEQUENCES_SECONDS` random scripts go on for so long.

#[path = "../../../../fuzz/counting.rs"]
mod counting;

use std::path::Path;
use std::time::{Duration, Instant};

use counting::Peak;
use loligo_osd::fuzz;

fn play(script: &[u8]) -> usize {
    let peak = Peak::from_now();
    fuzz::sequences(script, || peak.bytes())
}

/// A few numbers that look random and are the same with every run.
fn noise(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
}

/// The script with a few other bytes.
fn mutated(mut script: Vec<u8>, seed: u64) -> Vec<u8> {
    let mut noise = noise(seed);
    for _ in 0..3.min(script.len()) {
        let (at, value) = (noise.next().unwrap_or(0), noise.next().unwrap_or(0));
        let at = at as usize % script.len();
        script[at] = value as u8;
    }
    script
}

#[test]
fn whatever_clients_do_one_after_the_other_does_no_harm() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/sequences");
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("the corpus is there").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    assert!(files.len() > 10);
    let mut well = 0;
    let mut corpus = Vec::new();
    for (seed, path) in (1..).zip(files) {
        println!("{} and its mutation {seed}", path.display());
        let script = std::fs::read(&path).expect("a readable file");
        well += play(&script);
        play(&mutated(script.clone(), seed));
        corpus.push(script);
    }
    assert!(well >= 20, "{well} writes of the corpus go well");
    let start = Instant::now();
    let seconds = std::env::var("LOLIGO_SEQUENCES_SECONDS").ok().and_then(|text| text.parse().ok());
    let long = Duration::from_secs(seconds.unwrap_or(0));
    for seed in 1.. {
        if seed > 100 && start.elapsed() >= long {
            break;
        }
        // Bytes of no meaning, or pieces of the corpus one after the other.
        let pick = |number: u64| &corpus[number as usize % corpus.len()][..];
        let script: Vec<u8> = match seed % 2 {
            0 => noise(seed).take(400).map(|number| number as u8).collect(),
            _ => mutated(noise(seed).take(4).map(pick).collect::<Vec<_>>().concat(), seed),
        };
        // Shown if it fails.
        println!("random script {seed}");
        play(&script);
    }
}
