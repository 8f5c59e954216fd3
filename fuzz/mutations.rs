//! Mutates a fuzz target's corpus; included in the tests that replay it. Method: each input is a file of the
//! corpus with a few changes: bytes, numbers at limits, parts that are missing, repeated or from another
//! file.
//!
//! Without settings the same few hundred inputs are tried each time. `LOLIGO_FUZZ_SECONDS` tries further ones
//! for that long, and `LOLIGO_FUZZ_SEED` chooses others. An input that fails is kept in a file, whose name is
//! printed: it belongs into the corpus once the fault is mended. Coverage does not guide this search:
//! `cargo xtask fuzz` does that, with libFuzzer.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Inputs that are tried however long it takes.
const INPUTS_MIN: u64 = 300;

/// Tries mutations of the corpus with this name.
pub(crate) fn mutations(name: &str, target: impl Fn(&[u8])) {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(name));
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let lasting = Duration::from_secs(setting("LOLIGO_FUZZ_SECONDS").unwrap_or(0));
    let seed = setting("LOLIGO_FUZZ_SEED").unwrap_or(1);
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (began, mut tried) = (Instant::now(), 0);
    while tried < INPUTS_MIN || began.elapsed() < lasting {
        let input = Input { name, bytes: mutated(&files, &mut random) };
        target(&input.bytes);
        tried += 1;
    }
    println!("{name}: {tried} inputs, LOLIGO_FUZZ_SEED={seed}");
}

/// The files of a corpus, in the order of their names.
fn files(folder: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("the corpus is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() > 1, "{} has files", folder.display());
    paths.iter().map(|path| std::fs::read(path).expect("a readable file")).collect()
}

/// An input that is being tried. If the target panics, it is kept.
struct Input<'a> {
    name: &'a str,
    bytes: Vec<u8>,
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = std::env::temp_dir().join(format!("loligo-fuzz.{}.{}", self.name, std::process::id()));
            match std::fs::write(&path, &self.bytes) {
                Ok(()) => println!("the input is in {}", path.display()),
                Err(e) => println!("{e}; the input is {:02x?}", self.bytes),
            }
        }
    }
}

/// Pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`; 0 if that is 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// A part of `bytes`, which may be empty.
    fn part<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let start = self.below(bytes.len());
        &bytes[start..start + self.below(bytes.len() - start + 1).min(64)]
    }
}

fn mutated(files: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = files[random.below(files.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => {
                let end = bytes.len().min(at + random.below(64));
                bytes.drain(at..end);
            }
            2 => {
                let part = random.part(&bytes).to_vec();
                bytes.splice(at..at, part);
            }
            3 => {
                let other = &files[random.below(files.len())];
                let part = random.part(other).to_vec();
                bytes.splice(at..at, part);
            }
            4 => {
                let numbers =
                    [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, random.next()];
                let number = numbers[random.below(numbers.len())].to_le_bytes();
                let width = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&number[..width]);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
    bytes
}
