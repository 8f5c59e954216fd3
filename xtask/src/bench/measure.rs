//! Clocks, counters and medians.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::Result;

/// Returns the middle value, or the mean of the two middle ones if their number is even; NaN for no
/// values.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Returns the median, if each of the values is known.
pub(super) fn median_known(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let all: Option<Vec<f64>> = values.collect();
    all.map(|all| median(all.into_iter()))
}

/// Returns the CPU time that a running process has used, in microseconds (`/proc/PID/stat`, fields 14
/// and 15; 10 ms granularity).
pub(super) fn process_cpu_us(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).filter_map(|f| f.parse::<u64>().ok()).sum();
    // SAFETY: sysconf returns a constant and accesses no memory of this process.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Ok(ticks as f64 * 1e6 / ticks_per_s as f64)
}

/// Bounds the memory of all servers and clients of one run: large writes stop at 8 GB, and a part of that
/// is kept twice.
const WARM_MAX: u64 = 12 << 30;

/// Takes as much memory as a run needs, touches it and gives it back: memory that a virtual machine has not
/// had before costs the first side that touches it microseconds a page. `mib`: so much instead.
pub(super) fn warm_memory(mib: Option<u64>) -> Result<()> {
    let available =
        available_bytes(&fs::read_to_string("/proc/meminfo")?).ok_or("no MemAvailable in /proc/meminfo")?;
    // In a container /proc/meminfo is the host's.
    let available = available.min(left_in_cgroup().unwrap_or(u64::MAX));
    // The rest is for what runs beside.
    let bytes = mib.map_or((available / 4 * 3).min(WARM_MAX), |mib| (mib << 20).min(available));
    println!("touching {} MiB of memory first", bytes >> 20);
    let mut touched = vec![0_u8; usize::try_from(bytes)?];
    touched.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    std::hint::black_box(&touched);
    Ok(())
}

/// What the control group of this process may still take, if it has a bound.
fn left_in_cgroup() -> Option<u64> {
    let number =
        |file: &str| fs::read_to_string(Path::new("/sys/fs/cgroup").join(file)).ok()?.trim().parse().ok();
    let (bound, used): (u64, u64) = (number("memory.max")?, number("memory.current")?);
    Some(bound.saturating_sub(used))
}

const PAGE: usize = 4096;

fn available_bytes(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = rest.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// Resident memory of a process in MiB (`/proc/PID/status`, VmRSS).
pub(super) fn resident_mib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok())
        .ok_or("no VmRSS in /proc/PID/status")?;
    Ok(kib / 1024.0)
}

/// Runs a command to its end; returns its output and the CPU time it used, in microseconds.
pub(super) fn run_counting_cpu(command: &mut Command) -> Result<(Output, f64)> {
    let before = children_cpu_us();
    let output = command.output()?;
    let cpu_us = children_cpu_us() - before;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} failed: {}", stderr.trim()).into());
    }
    Ok((output, cpu_us))
}

/// Returns the CPU time of all children that have ended, in microseconds.
pub(super) fn children_cpu_us() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage fills the given struct, and RUSAGE_CHILDREN cannot fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let us = |t: libc::timeval| t.tv_sec as f64 * 1e6 + t.tv_usec as f64;
    us(usage.ru_utime) + us(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read() {
        let meminfo = "MemTotal:       16000 kB\nMemFree:  1 kB\nMemAvailable:    8000 kB\n";
        assert_eq!(available_bytes(meminfo), Some(8000 << 10));
        assert_eq!(available_bytes("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(median(std::iter::empty()).is_nan());
    }
}
