//! Measurements for stores on disk: the cost of a write compared with the disk's own, the bytes written
//! per byte, and the highest write latencies under a mixed load.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::Result;
use crate::process::output_of;
use crate::stock::Cluster;

use super::measure::median;
use super::programs::{FioRun, fio};
use super::sides::{Client, Our, Run, Server, Workload};

/// Returns the time in µs of a 4 KiB write with O_DIRECT and O_DSYNC over blocks that were written
/// before: the median of 2,000.
pub(super) fn own_write_us(dir: &Path) -> Result<f64> {
    const BLOCK: usize = 4096;
    const BLOCKS: u64 = 2_000;
    let path = dir.join("own-writes");
    // Direct I/O needs a block that is aligned to its size.
    let room = vec![0u8; 2 * BLOCK];
    let block = &room[room.as_ptr().align_offset(BLOCK)..][..BLOCK];
    // As in a journal, the blocks exist before they are written.
    std::fs::write(&path, vec![0u8; BLOCK * BLOCKS as usize])?;
    File::open(&path)?.sync_all()?;
    let file = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT | libc::O_DSYNC).open(&path)?;
    let mut took_us = Vec::new();
    for n in 0..BLOCKS {
        let began = Instant::now();
        file.write_all_at(block, n * BLOCK as u64)?;
        took_us.push(began.elapsed().as_secs_f64() * 1e6);
    }
    std::fs::remove_file(&path)?;
    Ok(median(took_us.into_iter()))
}

/// The throughput of the disk itself, in pieces of 4 MiB, 16 at a time.
#[derive(Clone, Copy)]
pub(super) struct OwnLarge {
    pub(super) name: &'static str,
    pub(super) per_s: f64,
}

impl OwnLarge {
    /// Writes or reads each piece of a file once, with O_DIRECT, and finally syncs the file. Its blocks
    /// were written before.
    pub(super) fn measure(dir: &Path, name: &'static str, writes: bool) -> Result<Self> {
        const PIECE: usize = 4 << 20;
        const PIECES: usize = 256;
        const THREADS: usize = 16;
        let path = dir.join("own-large");
        let options = |flags| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).custom_flags(flags);
            options.open(&path)
        };
        let buffered = options(0)?;
        let filled = vec![0x5a; PIECE];
        (0..PIECES).try_for_each(|n| buffered.write_all_at(&filled, (n * PIECE) as u64))?;
        buffered.sync_all()?;
        let file = options(libc::O_DIRECT)?;
        let began = Instant::now();
        std::thread::scope(|scope| -> Result<()> {
            let work = |thread: usize| -> std::io::Result<()> {
                let mut room = vec![0x5a; PIECE + 4096];
                let start = room.as_ptr().align_offset(4096);
                let piece = &mut room[start..start + PIECE];
                for n in (thread..PIECES).step_by(THREADS) {
                    let offset = (n * PIECE) as u64;
                    if writes {
                        file.write_all_at(piece, offset)?
                    } else {
                        file.read_exact_at(piece, offset)?
                    }
                }
                Ok(())
            };
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
            threads
                .into_iter()
                .try_for_each(|thread| Ok(thread.join().map_err(|_| "a thread panicked")??))
        })?;
        file.sync_data()?;
        let per_s = PIECES as f64 / began.elapsed().as_secs_f64();
        std::fs::remove_file(&path)?;
        Ok(Self { name, per_s })
    }
}

/// The bytes that a server writes to the disk per byte it is given.
#[derive(Clone, Copy)]
pub(super) enum Written {
    /// Blocks of 4 KiB, in random order, in objects of 4 MiB (fio).
    Random4KiB,
    /// Whole objects of 4 MiB.
    Whole4MiB,
}

impl Written {
    pub(super) const ALL: [Self; 2] = [Self::Random4KiB, Self::Whole4MiB];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Random4KiB => "bytes written per byte: 4 KiB random",
            Self::Whole4MiB => "bytes written per byte: 4 MiB",
        }
    }

    /// Returns the bytes written to the device per accepted byte, from before the first write until the
    /// server has ended and everything is synced. Other writes to the device are counted too.
    pub(super) fn run(
        self,
        server: Server,
        seconds: u32,
        stock: &Cluster,
        our: &Our<'_>,
        dir: &Path,
    ) -> Result<f64> {
        let serve = our.serve(server, dir)?;
        let conf = serve.as_ref().map_or_else(|| stock.conf(), |serve| serve.conf.clone());
        if let Self::Random4KiB = self {
            // The blocks must exist before they are overwritten.
            output_of(&mut fio(&conf, "write", 3))?;
        }
        output_of(&mut Command::new("sync"))?;
        let before = written_to_device(dir)?;
        let accepted = match self {
            Self::Random4KiB => {
                FioRun::parse(&output_of(&mut fio(&conf, "randwrite", seconds))?, "write")?.ops * 4096.0
            }
            Self::Whole4MiB => {
                let run = Run {
                    client: Client::Loligo,
                    workload: Workload::LARGE_WRITES,
                    conf,
                    server_pid: std::process::id(),
                    loligo: our.program,
                };
                run.ops(seconds)? * f64::from(4 << 20)
            }
        };
        match serve {
            None => stock.restart_osd(0)?,
            Some(mut serve) => serve.stop()?,
        }
        output_of(&mut Command::new("sync"))?;
        Ok((written_to_device(dir)? - before) / accepted)
    }
}

/// Returns the bytes written to the device of a file system since the machine started
/// (`Documentation/block/stat.rst`, field 7).
fn written_to_device(dir: &Path) -> Result<f64> {
    const SECTOR: f64 = 512.0;
    let device = std::fs::metadata(dir)?.dev();
    let path = format!("/sys/dev/block/{}:{}/stat", libc::major(device), libc::minor(device));
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let sectors = text.split_whitespace().nth(6).and_then(|field| field.parse::<f64>().ok());
    Ok(sectors.ok_or_else(|| format!("{path} holds {text:?}"))? * SECTOR)
}

/// Writes of 4 KiB mixed with the same number of reads, 64 in flight.
#[derive(Clone, Copy)]
pub(super) struct Mixed {
    pub(super) writes_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p999_us: f64,
}

pub(super) const MIXED: &str = "mixed 4 KiB reads and writes, 64 in flight";

impl Mixed {
    pub(super) fn run(
        server: Server,
        seconds: u32,
        stock: &Cluster,
        our: &Our<'_>,
        dir: &Path,
    ) -> Result<Self> {
        let serve = our.serve(server, dir)?;
        let conf = serve.as_ref().map_or_else(|| stock.conf(), |serve| serve.conf.clone());
        let of = FioRun::parse(&output_of(&mut fio(&conf, "randrw", seconds))?, "write")?;
        Ok(Self { writes_per_s: of.ops_per_s, p50_us: of.p50_us, p999_us: of.p999_us })
    }
}
