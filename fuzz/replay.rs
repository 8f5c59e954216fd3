//! Replays a corpus of scripts; included in the tests that do so. Method: the scripts that fuzzing
//! found, then mutations of them, then random scripts, in a process of its own whose allocations are
//! counted. With `LOLIGO_FUZZ_SECONDS` the random scripts continue for that many seconds;
//! `LOLIGO_FUZZ_SEED` is the number of the first one.

#[path = "counting.rs"]
mod counting;

use std::path::Path;
use std::time::{Duration, Instant};

use counting::Peak;

/// A corpus and the expected results.
pub(crate) struct Corpus {
    /// The directory below `corpus`.
    pub(crate) name: &'static str,
    /// Plays a script, with a measurement of the peak allocation. Returns the number of steps that
    /// succeeded.
    pub(crate) play: fn(&[u8], Peak) -> usize,
    /// The minimum number of successful steps in the whole corpus.
    pub(crate) well_min: usize,
    /// The minimum number of random scripts.
    pub(crate) random_min: u64,
}

impl Corpus {
    /// Plays the whole corpus, its mutations and random scripts.
    pub(crate) fn replay(&self) {
        let first = std::env::var("LOLIGO_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
        let scripts = self.scripts();
        let mut well = 0;
        for (seed, (path, script)) in (1..).zip(&scripts) {
            println!("{path} and its mutation {seed}");
            well += self.one(script);
            self.one(&mutated(script.clone(), seed));
        }
        assert!(well >= self.well_min, "{well} steps of the corpus go well");
        let start = Instant::now();
        let seconds = std::env::var("LOLIGO_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
        let long = Duration::from_secs(seconds.unwrap_or(0));
        for seed in first.. {
            if seed - first >= self.random_min && start.elapsed() >= long {
                break;
            }
            // Random bytes, or concatenated pieces of the corpus.
            let pick = |number: u64| &scripts[number as usize % scripts.len()].1[..];
            let script: Vec<u8> = match seed % 2 {
                0 => noise(seed).take(400).map(|number| number as u8).collect(),
                _ => mutated(noise(seed).take(4).map(pick).collect::<Vec<_>>().concat(), seed),
            };
            // Visible if the script fails.
            println!("random script {seed}");
            self.one(&script);
        }
    }

    fn one(&self, script: &[u8]) -> usize {
        (self.play)(script, Peak::from_now())
    }

    /// The names and contents of the scripts, sorted by path.
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

/// Returns pseudo-random numbers that are the same in every run.
fn noise(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
}

/// Returns the script with up to three bytes changed.
fn mutated(mut script: Vec<u8>, seed: u64) -> Vec<u8> {
    let mut noise = noise(seed);
    for _ in 0..3.min(script.len()) {
        let (at, value) = (noise.next().unwrap_or(0), noise.next().unwrap_or(0));
        let at = at as usize % script.len();
        script[at] = value as u8;
    }
    script
}
