//! What it costs to store data in memory that the process has not had before, and in memory that it has
//! freed.
//!
//! `cargo bench -p loligo-heap --bench fill [-- MIB]`: a process that serves and one that does not alternate.
//! Each fills buffers of one size, frees them, waits longer than mimalloc keeps freed memory by default, and
//! fills them again. The figures are the processor's time in µs for each 4 KiB, medians of five. Memory that
//! the machine has not had before is touched first.

use std::env;
use std::process::Command;
use std::time::{Duration, Instant};

#[global_allocator]
static HEAP: loligo_heap::Heap = loligo_heap::Heap;

const ROUNDS: usize = 5;
const PAGE: usize = 4096;
/// Longer than mimalloc's default, which is one second.
const PAUSE: Duration = Duration::from_millis(1500);
/// Frees a little at last: mimalloc returns memory only while it is called.
const STIRRED: usize = 100_000;

fn main() {
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.as_slice() {
        [side, buffer, bytes] => fill(side == "serves", number(buffer), number(bytes)),
        [mib] => compare(number(mib) << 20),
        _ => compare(1 << 30),
    }
}

fn number(word: &str) -> usize {
    word.parse().unwrap_or_else(|_| panic!("{word:?} is no number"))
}

/// One process: prints the costs of the first and of the second time.
fn fill(serves: bool, buffer: usize, bytes: usize) {
    if serves {
        loligo_heap::serve();
    }
    let once = || {
        let (cpu, began) = (cpu_us(), Instant::now());
        let stored: Vec<Vec<u8>> = (0..bytes / buffer).map(|n| vec![n as u8 | 1; buffer]).collect();
        let each = |us: f64| us / (bytes / PAGE) as f64;
        let cost = (each(cpu_us() - cpu), each(began.elapsed().as_secs_f64() * 1e6));
        drop(stored);
        cost
    };
    let first = once();
    std::thread::sleep(PAUSE);
    (0..STIRRED).for_each(|n| drop(std::hint::black_box(vec![1_u8; 16 + n % 60_000])));
    let second = once();
    println!("{} {} {} {}", first.0, first.1, second.0, second.1);
}

/// The processor's time that all threads of this process have used, in µs.
fn cpu_us() -> f64 {
    // SAFETY: all-zero bytes are such a structure.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure may be written.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut used) };
    let us = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    us(used.ru_utime) + us(used.ru_stime)
}

fn compare(bytes: usize) {
    // Touched and given back by a process that ends.
    run("plain", PAGE, bytes + bytes / 4);
    println!("µs of processor time (and µs of time) for each 4 KiB of {} MiB", bytes >> 20);
    for (name, buffer) in [("4 KiB", PAGE), ("4 MiB", 4 << 20)] {
        let mut sides = [("plain", Vec::new()), ("serves", Vec::new())];
        for _ in 0..ROUNDS {
            for (side, figures) in &mut sides {
                figures.push(run(side, buffer, bytes));
            }
        }
        let median = |figures: &[[f64; 4]], at: usize| {
            let mut all: Vec<f64> = figures.iter().map(|figures| figures[at]).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        for (what, at) in [("first", 0), ("again", 2)] {
            let [plain, serves] = [0, 1].map(|side| {
                let figures = &sides[side].1;
                (median(figures, at), median(figures, at + 1))
            });
            println!(
                "buffers of {name}, {what}: {:.3} ({:.3}), by a program that serves {:.3} ({:.3}): 1/{:.2}",
                plain.0,
                plain.1,
                serves.0,
                serves.1,
                plain.0 / serves.0
            );
        }
    }
}

fn run(side: &str, buffer: usize, bytes: usize) -> [f64; 4] {
    let mut process = Command::new(env::current_exe().expect("this program has a path"));
    let output = process.args([side, &buffer.to_string(), &bytes.to_string()]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("it printed {text:?}"))
}
