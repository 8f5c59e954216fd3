//! The load on stock's clients: what `loligo fs bench` does, by threads that call one after the other. A
//! process of its own, so that its CPU time is known.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::super::measure::process_cpu_us;
use super::scramble::scramble;
use super::through::{LibCephFs, Mounted, Through};
use crate::Result;

/// The arguments of `cargo xtask fs-load`: those of `loligo fs bench`, and the way.
#[derive(clap::Args)]
pub(crate) struct Options {
    seconds: u64,
    #[arg(value_enum)]
    mode: Mode,
    /// A ceph.conf: through libcephfs. Otherwise `--dir` is in a mounted file system.
    #[arg(long)]
    conf: Option<String>,
    #[arg(long)]
    dir: String,
    #[arg(long, default_value_t = 4096)]
    block: usize,
    #[arg(long, default_value_t = 256 << 20)]
    file_size: usize,
    #[arg(long, default_value_t = 10_000)]
    files: u64,
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Everything once before.
    #[arg(long)]
    warm: bool,
    /// Past the caches, with O_DIRECT.
    #[arg(long)]
    direct: bool,
    /// Processes whose CPU time counts as the client's, beside this one's: that of a mount.
    #[arg(long)]
    client_pid: Vec<u32>,
    /// Processes whose CPU time counts as the servers'.
    #[arg(long)]
    server_pid: Vec<u32>,
    /// Ends earlier, when standard input ends.
    #[arg(long)]
    until_told: bool,
    /// The step to do: each has a client of its own, so that what is measured begins with nothing.
    #[arg(long, value_enum)]
    step: Step,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Step {
    Prepare,
    Measure,
    Remove,
}

/// The name of the directory in `--dir`.
const NAME: &str = "load";

/// The operation that is measured. `Take` is the other client of a file that is being written: it opens the
/// file and reads the first byte.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    Write,
    Randwrite,
    Read,
    Randread,
    Create,
    Unlink,
    Stat,
    Readdir,
    Take,
}

/// Where a buffer may begin for O_DIRECT.
const ALIGNED: usize = 4096;
/// The pause between two openings of a file that another client writes.
const PAUSE: Duration = Duration::from_millis(50);
/// Threads that make or remove files, where that is not measured.
const AT_ONCE: u64 = 16;

/// Standard input has ended. Relaxed: it ends the loops some operations later.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.until_told {
        thread::spawn(|| {
            // How it ends does not matter.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            IS_TOLD.store(true, Ordering::Relaxed);
        });
    }
    let through: Box<dyn Through> = match &options.conf {
        Some(conf) => Box::new(LibCephFs::mount(conf)?),
        None => Box::new(Mounted),
    };
    let load = Load { options, dir: format!("{}/{NAME}", options.dir) };
    match (options.step, options.mode) {
        (_, Mode::Take) => load.take(&*through),
        (Step::Prepare, _) => load.prepare(&*through),
        (Step::Measure, _) => load.measure(&*through),
        (Step::Remove, _) => load.remove(&*through),
    }
}

struct Load<'a> {
    options: &'a Options,
    dir: String,
}

/// A buffer for O_DIRECT.
struct Buffer {
    bytes: Vec<u8>,
    from: usize,
}

impl Buffer {
    fn new(len: usize) -> Self {
        let bytes = vec![0x6c; len + ALIGNED];
        let from = bytes.as_ptr().align_offset(ALIGNED);
        Self { bytes, from }
    }

    fn get(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + len]
    }
}

impl Load<'_> {
    fn blocks(&self) -> u64 {
        (self.options.file_size / self.options.block).max(1) as u64
    }

    fn data(&self) -> String {
        format!("{}/data", self.dir)
    }

    fn file(&self, number: u64) -> String {
        format!("{}/f.{number}", self.dir)
    }

    fn is_of_data(&self) -> bool {
        matches!(self.options.mode, Mode::Write | Mode::Randwrite | Mode::Read | Mode::Randread)
    }

    fn prepare(&self, through: &dyn Through) -> Result<()> {
        through.make_dir(&self.dir)?;
        if self.is_of_data() {
            let file = through.open(&self.data(), libc::O_CREAT | libc::O_WRONLY)?;
            let piece = vec![0x6c; 4 << 20];
            let size = self.options.block * usize::try_from(self.blocks())?;
            for at in (0..size).step_by(piece.len()) {
                through.write(file, &piece[..piece.len().min(size - at)], i64::try_from(at)?)?;
            }
            through.sync(file)?;
            through.close(file)?;
        } else if self.options.mode != Mode::Create {
            self.for_each_file(&|name| {
                through.close(through.open(name, libc::O_CREAT | libc::O_WRONLY)?).map_err(Into::into)
            })?;
        }
        Ok(())
    }

    fn remove(&self, through: &dyn Through) -> Result<()> {
        let gone = |name: &str| match through.unlink(name) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => Ok(other?),
        };
        match self.is_of_data() {
            true => gone(&self.data())?,
            false => self.for_each_file(&gone)?,
        }
        Ok(through.remove_dir(&self.dir)?)
    }

    /// Does something with the name of each file, with several at a time.
    fn for_each_file(&self, act: &(dyn Fn(&str) -> Result<()> + Sync)) -> Result<()> {
        let next = AtomicU64::new(0);
        let act_on_some = || -> std::result::Result<(), String> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= self.options.files {
                    return Ok(());
                }
                act(&self.file(number)).map_err(|e| format!("{}: {e}", self.file(number)))?;
            }
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(act_on_some)).collect();
            threads.into_iter().try_for_each(joined)
        })?;
        Ok(())
    }

    fn ops_max(&self) -> u64 {
        match self.options.mode {
            Mode::Create | Mode::Unlink => self.options.files,
            // A second time would find what the first has learnt.
            Mode::Stat if !self.options.warm => self.options.files,
            Mode::Read if !(self.options.warm || self.options.direct) => self.blocks(),
            Mode::Readdir if !self.options.warm => 1,
            _ => u64::MAX,
        }
    }

    fn operate(&self, through: &dyn Through, file: i32, buffer: &mut Buffer, number: u64) -> Result<()> {
        let Options { block, files, .. } = *self.options;
        let at = |number: u64| -> Result<i64> { Ok(i64::try_from(number % self.blocks() * block as u64)?) };
        match self.options.mode {
            Mode::Write => whole(through.write(file, buffer.get(block), at(number)?)?, block)?,
            Mode::Randwrite => whole(through.write(file, buffer.get(block), at(scramble(number))?)?, block)?,
            Mode::Read => whole(through.read(file, buffer.get(block), at(number)?)?, block)?,
            Mode::Randread => whole(through.read(file, buffer.get(block), at(scramble(number))?)?, block)?,
            Mode::Create => {
                let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
                through.close(through.open(&self.file(number), flags)?)?;
            }
            Mode::Unlink => through.unlink(&self.file(number))?,
            Mode::Stat => through.stat(&self.file(number % files))?,
            Mode::Readdir | Mode::Take => {
                let listed = through.list(&self.dir)?;
                if listed < files {
                    return Err(format!("{}: {listed} of {files} names were listed", self.dir).into());
                }
            }
        }
        Ok(())
    }

    /// Prints the figures in the form of `loligo fs bench --format json`.
    fn measure(&self, through: &dyn Through) -> Result<()> {
        let writes = matches!(self.options.mode, Mode::Write | Mode::Randwrite);
        let access = match self.options.mode {
            // What streams into a file does not read it.
            Mode::Write => libc::O_WRONLY,
            Mode::Randwrite => libc::O_RDWR,
            _ => libc::O_RDONLY,
        };
        let flags = if self.options.direct { access | libc::O_DIRECT } else { access };
        let file = if self.is_of_data() { through.open(&self.data(), flags)? } else { -1 };
        if self.options.warm {
            self.warm_up(through, file)?;
        }
        let (before, began) = (self.cpu_us()?, Instant::now());
        let times_ns = self.operate_for_a_time(through, file)?;
        if writes {
            through.sync(file)?;
        }
        let (elapsed, after) = (began.elapsed(), self.cpu_us()?);
        let used = [after[0] - before[0], after[1] - before[1]];
        print(times_ns, elapsed, self.options.block, used);
        if file >= 0 {
            through.close(file)?;
        }
        Ok(())
    }

    /// Does everything once.
    fn warm_up(&self, through: &dyn Through, file: i32) -> Result<()> {
        let once = match self.options.mode {
            Mode::Stat => self.options.files,
            Mode::Readdir => 1,
            _ => self.blocks(),
        };
        let mut buffer = Buffer::new(self.options.block);
        for number in 0..once {
            if self.is_of_data() {
                let at = i64::try_from(number * self.options.block as u64)?;
                through.read(file, buffer.get(self.options.block), at)?;
            } else {
                self.operate(through, file, &mut buffer, number)?;
            }
        }
        Ok(())
    }

    /// Returns the time of each operation.
    fn operate_for_a_time(&self, through: &dyn Through, file: i32) -> Result<Vec<u64>> {
        let jobs = self.options.jobs as u64;
        let until = Instant::now() + Duration::from_secs(self.options.seconds);
        // Threads do not share a counter of operations: it would limit how many they make.
        let one = |job: u64| -> std::result::Result<Vec<u64>, String> {
            let mut buffer = Buffer::new(self.options.block);
            let (mut times_ns, mut now, mut number) = (Vec::new(), Instant::now(), job);
            while now < until && number < self.ops_max() && !IS_TOLD.load(Ordering::Relaxed) {
                self.operate(through, file, &mut buffer, number).map_err(|e| e.to_string())?;
                let ended = Instant::now();
                times_ns.push(u64::try_from((ended - now).as_nanos()).unwrap_or(u64::MAX));
                now = ended;
                number += jobs;
            }
            Ok(times_ns)
        };
        let all = thread::scope(|scope| {
            let threads: Vec<_> = (0..jobs).map(|job| scope.spawn(move || one(job))).collect();
            threads.into_iter().map(joined).collect::<std::result::Result<Vec<Vec<u64>>, String>>()
        })?;
        Ok(all.concat())
    }

    /// CPU time of the client, which is this process and those named, and of the servers.
    fn cpu_us(&self) -> Result<[f64; 2]> {
        let of = |pids: &[u32]| pids.iter().map(|pid| process_cpu_us(*pid)).sum::<Result<f64>>();
        Ok([own_cpu_us() + of(&self.options.client_pid)?, of(&self.options.server_pid)?])
    }

    /// Opens the file that another client writes, again and again, and reads its first byte.
    fn take(&self, through: &dyn Through) -> Result<()> {
        let path = &self.options.dir;
        let (began, mut times_ns) = (Instant::now(), Vec::new());
        while began.elapsed() < Duration::from_secs(self.options.seconds) {
            thread::sleep(PAUSE);
            let asked = Instant::now();
            let file = through.open(path, libc::O_RDONLY).map_err(|e| format!("open {path}: {e}"))?;
            through.read(file, &mut [0], 0)?;
            times_ns.push(u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX));
            through.close(file)?;
        }
        print(times_ns, began.elapsed(), 1, [0.0; 2]);
        Ok(())
    }
}

/// Returns an error if only a part was read or written.
fn whole(done: usize, asked: usize) -> Result<()> {
    if done == asked { Ok(()) } else { Err(format!("{done} of {asked} bytes were read or written").into()) }
}

/// Waits for a thread; its panic goes on here.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// `cpu_us`: the client's and the servers'.
fn print(mut times_ns: Vec<u64>, elapsed: Duration, block: usize, cpu_us: [f64; 2]) {
    times_ns.sort_unstable();
    let ops = times_ns.len().max(1) as f64;
    let quantile = |part: f64| {
        let at = (part * ops).ceil() as usize;
        times_ns.get(at.saturating_sub(1)).copied().map_or(0.0, |ns| ns as f64) / 1e3
    };
    let mean = times_ns.iter().map(|ns| *ns as f64).sum::<f64>() / ops / 1e3;
    let told = json!({
        "ops": times_ns.len(),
        "iops": times_ns.len() as f64 / elapsed.as_secs_f64(),
        "bytes_per_s": (times_ns.len() * block) as f64 / elapsed.as_secs_f64(),
        "lat_us": {"mean": mean, "p50": quantile(0.5), "p99": quantile(0.99), "max": quantile(1.0)},
        "cpu_us_per_op": cpu_us[0] / ops,
        "server_cpu_us_per_op": cpu_us[1] / ops,
    });
    println!("{told}");
}

/// CPU time of this process.
fn own_cpu_us() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage fills the given struct, and RUSAGE_SELF cannot fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let us = |t: libc::timeval| t.tv_sec as f64 * 1e6 + t.tv_usec as f64;
    us(usage.ru_utime) + us(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_begin_where_direct_io_wants() {
        let mut buffer = Buffer::new(8192);
        assert_eq!((buffer.get(8192).as_ptr() as usize % ALIGNED, buffer.get(8192).len()), (0, 8192));
    }
}
