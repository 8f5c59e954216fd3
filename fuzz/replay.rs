//! Replays a corpus of scripts: part of the tests that do so. Method: what fuzzing found worth keeping, then
//! the same mutated, then random scripts; in a process of its own, whose allocations are counted. With
//! `LOLIGO_SEQUENCES_SECONDS` the random ones go on for so long.

#[path = "counting.rs"]
mod counting;

use std::path::Path;
use std::time::{Duration, Instant};

use counting::Peak;

/// What is played, and what must come of it.
pub(crate) struct Corpus {
    /// The folder below `corpus`.
    pub(crate) name: &'static str,
    /// Plays a script, with what says how many bytes are allocated at most; how many of its steps went well.
    pub(crate) play: fn(&[u8], Peak) -> usize,
    /// Steps of the whole corpus that go well at least.
    pub(crate) well_min: usize,
    /// Random scripts at least.
    pub(crate) random_min: u64,
}

impl Corpus {
    /// Plays all of it.
    pub(crate) fn replay(&self) {
        let scripts = self.scripts();
        let mut well = 0;
        for (seed, (path, script)) in (1..).zip(&scripts) {
            println!("{path} and its mutation {seed}");
            well += self.one(script);
            self.one(&mutated(script.clone(), seed));
        }
        assert!(well >= self.well_min, "{well} steps of the corpus go well");
        let start = Instant::now();
        let seconds = std::env::var("LOLIGO_SEQUENCES_SECONDS").ok().and_then(|text| text.parse().ok());
        let long = Duration::from_secs(seconds.unwrap_or(0));
        for seed in 1.. {
            if seed > self.random_min && start.elapsed() >= long {
                break;
            }
            // Bytes of no meaning, or pieces of the corpus one after the other.
            let pick = |number: u64| &scripts[number as usize % scripts.len()].1[..];
            let script: Vec<u8> = match seed % 2 {
                0 => noise(seed).take(400).map(|number| number as u8).collect(),
                _ => mutated(noise(seed).take(4).map(pick).collect::<Vec<_>>().concat(), seed),
            };
            // Shown if it fails.
            println!("random script {seed}");
            self.one(&script);
        }
    }

    fn one(&self, script: &[u8]) -> usize {
        (self.play)(script, Peak::from_now())
    }

    /// Names and contents, in order.
    fn scripts(&self) -> Vec<(String, Vec<u8>)> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(self.name);
        let files = std::fs::read_dir(dir).expect("the corpus is there");
        let mut files: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
        files.sort();
        assert!(files.len() > 10);
        let read = |path: &Path| std::fs::read(path).expect("a readable file");
        files.iter().map(|path| (path.display().to_string(), read(path))).collect()
    }
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
