//! Goal: reads of a file's cached data take no lock of this client's, whether or not somebody writes to the
//! file. Method: count acquisitions, in a process of its own. A few come from what the client does beside.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "toy/cluster.rs"]
mod cluster;
#[path = "toy/monitor.rs"]
mod monitor;
#[path = "toy/server.rs"]
mod server;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "toy/tree.rs"]
mod tree;

use std::sync::Arc;

use loligo_fs::{File, OpenOptions};
use loligo_wire::Caps;
use loligo_wire::message::Msg;
use loligo_wire::message::mds::ClientReply;

use cluster::{Toy, ends};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 256;
const READERS: u64 = 8;
const READS: u64 = 2000;

/// Returns how often locks were taken whose class begins so.
fn acquisitions(of: &str) -> u64 {
    let report = loligo_lockstat::report();
    let classes = report.classes.iter().filter(|class| class.name.starts_with(of));
    classes.map(|class| class.acquisitions).sum()
}

/// Reads from several tasks at once.
async fn read(file: &Arc<File>) {
    let readers: Vec<_> = (0..READERS)
        .map(|seed| {
            let (file, mut random) = (Arc::clone(file), fastrand::Rng::with_seed(seed));
            tokio::spawn(async move {
                for _ in 0..READS {
                    let at = random.u64(0..BLOCKS) * BLOCK as u64;
                    let data = file.read_at(at, BLOCK as u64).await.expect("read");
                    assert!(data.len() == BLOCK && data.iter().all(|byte| *byte == data[0]), "of one write");
                }
            })
        })
        .collect();
    for reader in readers {
        reader.await.expect("no panic");
    }
}

/// Lets the client buffer what it may write.
fn may_buffer(msg: Msg) -> Vec<Msg> {
    let Ok(mut reply) = msg.open::<ClientReply>() else { return vec![msg] };
    if let Some(target) = reply.trace.target.as_mut()
        && target.cap.caps.contains(Caps::FILE_WR)
    {
        target.cap.caps |= Caps::FILE_BUFFER;
    }
    vec![Msg::new(&reply).with_tid(msg.header.tid)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cached_reads_take_no_lock() {
    loligo_lockstat::set_mode(loligo_lockstat::Mode::Full);
    let toy = Toy::start(1).await;
    let fs = toy.mount(&toy.client().await).await;
    toy.twist(may_buffer);
    let options = OpenOptions::new().read().write().create();
    let file = Arc::new(fs.open("f", options).await.expect("made"));
    // It stays in the cache: there is no OSD.
    ends("a write", file.write_at(0, vec![1; BLOCK * BLOCKS as usize])).await.expect("written");
    ends("a read", file.read_at(0, 1)).await.expect("read");

    let before = acquisitions("fs.") + acquisitions("cache.");
    assert!(before > 0, "they are counted");
    ends("reads", read(&file)).await;
    let taken = acquisitions("fs.") + acquisitions("cache.") - before;
    assert!(taken < READERS * READS / 10, "{taken} acquisitions for {} reads", READERS * READS);

    let before = acquisitions("fs.inode");
    let writes = async {
        for n in 0..READS {
            let fill = vec![n as u8; BLOCK];
            file.write_at(n % BLOCKS * BLOCK as u64, fill).await.expect("written");
        }
    };
    ends("reads and writes", async { tokio::join!(read(&file), writes) }).await;
    let taken = acquisitions("fs.inode") - before;
    assert!(taken < READS / 10, "{taken} acquisitions for {READS} writes and {} reads", READERS * READS);
}
