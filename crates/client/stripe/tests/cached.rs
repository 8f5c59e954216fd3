//! Goal: a striped file with a cache behaves as an array of bytes, also while its server stops and
//! restarts. Method: an embedded server, and an array to compare with.

#[allow(dead_code, reason = "not all tests use all of it")]
mod place;

use std::time::Duration;

use loligo_cache::{Cache, Options};
use loligo_rados::Builder;
use loligo_server::Server;
use loligo_stripe::{CachedFile, Layout, Striper};
use place::{POOL, Place};

const UNIT: u64 = 64 << 10;
const FILE_BYTES: usize = 40 * UNIT as usize;

fn layout() -> Layout {
    Layout::new(UNIT, 3, 2 * UNIT).expect("valid")
}

async fn random_ops(file: &CachedFile, array: &mut [u8], random: &mut fastrand::Rng, ops: usize) {
    for op in 0..ops {
        let at = random.usize(0..array.len());
        let len = random.usize(1..300_000).min(array.len() - at);
        if random.bool() {
            let data: Vec<u8> = (0..len).map(|n| (op + n) as u8).collect();
            file.write(at as u64, &data).await.expect("written");
            array[at..at + len].copy_from_slice(&data);
        } else {
            let read = file.read(at as u64, len as u64).await.expect("read");
            assert!(read == array[at..at + len], "operation {op}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_file_is_an_array() {
    let place = Place::new().await;
    let striper = Striper::new(place.pool().await).with_layout(layout()).expect("stock reads it");
    let cache = Cache::new(Options::of_size(2 << 20));
    let file = striper.create("f").await.expect("made").cached(&cache);
    let mut array = vec![0; FILE_BYTES];
    file.write(FILE_BYTES as u64 - 1, &[0]).await.expect("written");
    random_ops(&file, &mut array, &mut fastrand::Rng::with_seed(1), 300).await;
    file.close().await.expect("closed");
    // Read uncached, then from the beginning with a new cache, in small pieces.
    let file = striper.open("f").await.expect("there");
    assert!(file.read(0, u64::MAX).await.expect("read").into_bytes() == array);
    let file = file.cached(&cache);
    for at in (0..FILE_BYTES).step_by(10_000) {
        let read = file.read(at as u64, 10_000).await.expect("read");
        assert!(read == array[at..FILE_BYTES.min(at + 10_000)], "at {at}");
    }
    assert!(file.read(FILE_BYTES as u64, 10).await.expect("read").is_empty());
    file.close().await.expect("closed");
}

/// The server stops during write-back and restarts: no flushed data is lost, and no failure is reported.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_ends_under_write_back() {
    let dir = std::env::temp_dir().join(format!("loligo-cached-{}", std::process::id()));
    let start = |addr| {
        let server = Server::disk(&dir).pool(POOL);
        match addr {
            Some(addr) => server.mon_addr(addr).start().expect("it comes back"),
            None => server.start().expect("it starts"),
        }
    };
    let mut server = start(None);
    let conf = server.conf().to_str().expect("UTF-8").to_owned();
    let rados = Builder::new().conf_file(&conf).connect().await.expect("connects");
    let pool = rados.ioctx(POOL).await.expect("the pool");
    let striper = Striper::new(pool).with_layout(layout()).expect("stock reads it");
    let cache = Cache::new(Options { dirty_time: Duration::from_millis(5), ..Options::of_size(8 << 20) });
    let file = striper.create("f").await.expect("made").cached(&cache);
    let mut array = vec![0; FILE_BYTES];
    file.write(FILE_BYTES as u64 - 1, &[0]).await.expect("written");
    for round in 0..4 {
        random_ops(&file, &mut array, &mut fastrand::Rng::with_seed(round), 10).await;
        let addr = server.mon_addr();
        drop(server);
        // The server is down, so this stays in the cache: a whole block, for which nothing must be read.
        let at = round as usize * 4096;
        file.write(at as u64, &[round as u8; 4096]).await.expect("in the cache");
        array[at..at + 4096].fill(round as u8);
        server = start(Some(addr));
        file.flush().await.expect("written back");
    }
    file.invalidate().await.expect("nothing is dirty");
    assert!(file.read(0, FILE_BYTES as u64).await.expect("read") == array);
    file.close().await.expect("closed");
    rados.shutdown().await;
    drop(server);
    let _ = std::fs::remove_dir_all(&dir);
}
