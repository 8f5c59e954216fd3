//! A program that has started gives back what only its start needed.

use std::ffi::c_void;
use std::ops::Range;
use std::{fs, ptr};

use crate::area;

unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// Gives the kernel the free memory of the calling thread's heap, and the pages of the program's file that
/// are as in it: most of its code ran, and most of its texts were read, for the start alone. What is used
/// again is mapped again, 64 KiB at a time, which takes a microsecond or two.
///
/// To be called by the thread that has started the program, when it has nothing to do but wait.
pub fn rest() {
    // Before: the description of all mappings is long.
    let parts = parts();
    // SAFETY: frees only what is unused.
    unsafe { mi_collect(true) };
    area::rests();
    for part in parts {
        // SAFETY: the pages of the range are as in the program's file, and nobody may write to them. Whoever
        // needs one, this thread at once, gets it from there again.
        unsafe {
            libc::madvise(
                ptr::with_exposed_provenance_mut::<c_void>(part.start),
                part.len(),
                libc::MADV_DONTNEED,
            )
        };
    }
}

/// Returns where the program's file is mapped, as far as it is unchanged.
fn parts() -> Vec<Range<usize>> {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let program = fs::read_link("/proc/self/exe").unwrap_or_default();
    program.to_str().into_iter().flat_map(|program| parts_of(&maps, program)).collect()
}

/// Returns the mappings of a file that nobody may write to, and of which each page is as in the file: not
/// those that the loader has put addresses into, or a debugger its breakpoints. `maps` is as
/// `/proc/PID/smaps`.
fn parts_of<'m>(maps: &'m str, file: &'m str) -> impl Iterator<Item = Range<usize>> + 'm {
    let mut part = None;
    maps.lines().filter_map(move |line| match line.strip_prefix("Anonymous:") {
        Some(changed) => part.take().filter(|_| changed.trim() == "0 kB"),
        None => {
            part = part_at(line, file).or(part.take());
            None
        }
    })
}

/// Returns the addresses of a mapping of a file that is only read or run, from the line that begins its
/// description.
fn part_at(line: &str, file: &str) -> Option<Range<usize>> {
    let (addresses, rest) = line.split_once(' ')?;
    let (start, end) = addresses.split_once('-')?;
    let is_read = rest.starts_with("r-xp ") || rest.starts_with("r--p ");
    let is_part = is_read && rest.split_once('/')?.1 == file.strip_prefix('/')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?).filter(|range| is_part && range.start < range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unchanged_parts_of_the_program_are_dropped() {
        let mapping = |what: &str, changed_kib: u32| {
            format!("{what}\nRss:  64 kB\nAnonymous:  {changed_kib} kB\nVmFlags: rd\n")
        };
        let maps = [
            mapping("55d0a000-55d0b000 r--p 00000000 08:01 17 /usr/bin/loligo", 0),
            mapping("55d0b000-55d0e000 r-xp 00001000 08:01 17 /usr/bin/loligo", 0),
            mapping("55d0e000-55d0f000 r--p 00004000 08:01 17 /usr/bin/loligo", 4),
            mapping("55d0f000-55d10000 rw-p 00005000 08:01 17 /usr/bin/loligo", 4),
            mapping("55d10000-55d11000 r-xp 00006000 08:01 17 /usr/bin/loligo", 4),
            mapping("7f000000-7f001000 r-xp 00000000 08:01 18 /usr/lib/libc.so.6", 0),
            mapping("7f001000-7f002000 r-xp 00000000 00:00 0 [vdso]", 0),
            mapping("7f002000-7f003000 rwxp 00000000 08:01 17 /usr/bin/loligo", 0),
        ]
        .concat();
        let parts: Vec<_> = parts_of(&maps, "/usr/bin/loligo").collect();
        assert_eq!(parts, [0x55d0_a000..0x55d0_b000, 0x55d0_b000..0x55d0_e000]);
        assert_eq!(parts_of("nonsense\n-\nAnonymous: 0 kB\n", "/usr/bin/loligo").count(), 0);
    }

    #[test]
    fn a_program_that_rests_is_smaller_and_goes_on() {
        let code_kib = || -> u64 {
            let smaps = fs::read_to_string("/proc/self/smaps").expect("the kernel tells");
            let program = fs::read_link("/proc/self/exe").expect("a program");
            let mut sum = 0;
            let mut is_code = false;
            for line in smaps.lines() {
                if line.ends_with(program.to_str().expect("UTF-8")) {
                    is_code = line.contains(" r-xp ");
                } else if let Some(rest) = line.strip_prefix("Rss:").filter(|_| is_code) {
                    sum += rest.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
                    is_code = false;
                }
            }
            sum
        };
        let before = code_kib();
        assert!(before > 0);
        rest();
        let after = code_kib();
        assert!(after < before, "{after} of {before} KiB");
        assert_eq!((0..100).map(|n| n.to_string().len()).sum::<usize>(), 190);
    }
}
