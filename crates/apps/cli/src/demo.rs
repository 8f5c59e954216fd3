//! `loligo demo`: shows the main features in some seconds.

use std::path::Path;
use std::time::Instant;

use indicatif::HumanBytes;
use loligo_rados::Builder;
use loligo_server::Server;
use sha2::{Digest, Sha256};

use crate::bench;
use crate::bench::{Bench, Mode};
use crate::client::{self, Client, Pool};
use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::options::Options;
use crate::transfer;

const POOL: &str = "demo";
/// Sizes of the transferred files in bytes.
const FILE_BYTES: [usize; 4] = [0, 4095, 4 << 20, 64 << 20];
const BENCH_SECONDS: u64 = 2;

pub(crate) fn run() -> Result<(), Failure> {
    let began = Instant::now();
    loligo_heap::serve();
    let server = Server::memory().pool(POOL).start().context(|| "start the server".to_owned())?;
    sayln!("A Ceph-compatible server with a pool '{POOL}', ready after {:.1} ms", ms(began));
    sayln!("  monitor {}, cephx on, objects in memory\n", server.mon_addr());

    let conf = server.conf().display().to_string();
    client::runtime(1)?.block_on(async {
        let pool = connect(&conf).await?;
        move_files(&pool).await?;
        measure(&pool).await?;
        pool.rados.shutdown().await;
        Ok(())
    })?;

    sayln!("\nWho waited for whose lock, in this process (client and server):");
    let report = loligo_lockstat::report();
    if report.classes.is_empty() {
        sayln!("  Nobody waited for any lock.\n");
    } else {
        sayln!("{}", indent(&report.to_text()));
    }
    sayln!("To keep a server running and use it from stock Ceph programs:");
    sayln!("  loligo serve --data ~/loligo --pool p");
    sayln!("  rados -c ~/loligo/ceph.conf -p p ls      ceph -c ~/loligo/ceph.conf -s");
    Ok(())
}

async fn connect(conf: &str) -> Result<Pool, Failure> {
    let options = Options { pool: vec![POOL.to_owned()], ..Options::default() };
    Client::new(Builder::new().conf_file(conf), &options)?.pool().await
}

/// Puts and gets local files, and compares each by its SHA-256.
async fn move_files(pool: &Pool) -> Result<(), Failure> {
    sayln!("{:>12}  {:>10}  {:>10}  sha-256 of what came back", "file", "put", "get");
    let dir = std::env::temp_dir().join(format!("loligo-demo.{}", std::process::id()));
    std::fs::create_dir_all(&dir).context(|| format!("make {}", dir.display()))?;
    let moved = move_files_through(pool, &dir).await;
    // If this fails, the system cleans up its temporary files.
    let _ = std::fs::remove_dir_all(&dir);
    moved
}

async fn move_files_through(pool: &Pool, dir: &Path) -> Result<(), Failure> {
    for len in FILE_BYTES {
        let (file, back) = (dir.join("in"), dir.join("out"));
        let content = content(len);
        std::fs::write(&file, &content).context(|| format!("write {}", file.display()))?;
        let object = Name::from(&*format!("file of {len} bytes"));
        let began = Instant::now();
        transfer::put(pool, &object, &file, None).await?;
        let put_ms = ms(began);
        let began = Instant::now();
        transfer::get(pool, &object, &back, 0).await?;
        let get_ms = ms(began);
        let returned = std::fs::read(&back).context(|| format!("read {}", back.display()))?;
        let digest = Sha256::digest(&returned);
        if digest != Sha256::digest(&content) {
            return Err(Failure::new(object.to_string(), "what came back is not what was written"));
        }
        let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let size = HumanBytes(len as u64).to_string();
        sayln!("{size:>12}  {put_ms:>7.1} ms  {get_ms:>7.1} ms  {hex}…  the same");
    }
    sayln!();
    Ok(())
}

async fn measure(pool: &Pool) -> Result<(), Failure> {
    let run_name = Some("demo".to_owned());
    for (what, mode, bytes, depth) in [
        ("4 KiB writes, 64 in flight", Mode::Write, 4096, 64),
        ("4 KiB reads, 64 in flight", Mode::Rand, 4096, 64),
    ] {
        let options = Bench {
            seconds: BENCH_SECONDS,
            mode,
            block_size: bytes,
            depth,
            threads: 1,
            no_cleanup: true,
            run_name: run_name.clone(),
            object_size: None,
            max_objects: 0,
            write_object: false,
            write_omap: false,
            write_xattr: false,
            output: None,
        };
        let measured = bench::measure(pool, &options).await?;
        sayln!(
            "{what:<28} {:>9.0} /s   p50 {:>5.0} µs   p99 {:>5.0} µs",
            measured.ops_per_s(),
            measured.latency_us(0.5),
            measured.latency_us(0.99)
        );
    }
    Ok(())
}

/// Returns pseudo-random bytes, so that misplaced data is detected.
fn content(len: usize) -> Vec<u8> {
    let mut n = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        n ^= n << 13;
        n ^= n >> 7;
        n ^= n << 17;
        n as u8
    };
    (0..len).map(|_| next()).collect()
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
