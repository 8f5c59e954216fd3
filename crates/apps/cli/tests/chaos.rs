//! Goal: writes over NBD to an image of a stock cluster are kept once acknowledged, and all are
//! acknowledged in the end, whichever process dies. Method: OSDs are killed under load and restarted,
//! then the gateway is.
//!
//! LOLIGO_STOCK3_DIR names the directory of a cluster with three OSDs that keep what they acknowledged (not
//! memstore). The test kills them.

#[path = "../../../client/rados/tests/daemons/mod.rs"]
mod daemons;
mod nbd_load;

use std::time::Duration;

use daemons::Daemons;
use nbd_load::{Gateway, Load, SIZE, Writer, read};
use tokio::time::sleep;

/// Number of writes acknowledged before and after each kill.
const STEP: u64 = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn writes_over_nbd_are_answered_and_kept_in_chaos() {
    let daemons = Daemons::of("LOLIGO_STOCK3_DIR");
    let pool = format!("nbd-{}", std::process::id());
    // All copies are required: writes to an OSD that is down wait until it is back.
    daemons.run(&format!("ceph osd pool create {pool} 16"));
    daemons.run(&format!("ceph osd pool set {pool} size 2"));
    daemons.run(&format!("ceph osd pool set {pool} min_size 2"));
    daemons.run(&format!("rbd create {pool}/i --size {}B", SIZE));
    let conf = daemons.conf();

    let mut gateway = Gateway::start(&conf, &pool, "i");
    let load = Load::start(gateway.addr, "i", Writer::all()).await;
    load.progress(STEP).await;
    for osd in daemons.of_kind("osd") {
        daemons.kill(&osd).await;
        // Long enough for operations in flight to be blocked.
        sleep(Duration::from_secs(1)).await;
        daemons.start(&osd);
        load.progress(STEP).await;
    }
    let mut writers = load.finish().await;
    let device = read(gateway.addr, "i").await;
    for writer in &mut writers {
        assert!(!writer.is_cut_off);
        assert_eq!(writer.compare(&device), 0, "all was answered");
    }
    println!("OSDs were killed: all is there");

    let load = Load::start(gateway.addr, "i", writers).await;
    load.progress(STEP).await;
    gateway.kill();
    let mut writers = load.finish().await;
    let gateway = Gateway::start(&conf, &pool, "i");
    let device = read(gateway.addr, "i").await;
    let unanswered: usize = writers.iter_mut().map(|writer| writer.compare(&device)).sum();
    println!("the gateway was killed: {unanswered} blocks are of writes that it had not answered");

    // The lock of the killed gateway is broken, and the stock program reads the data written afterwards.
    let load = Load::start(gateway.addr, "i", writers).await;
    load.progress(STEP).await;
    let mut writers = load.finish().await;
    drop(gateway);
    let file = std::env::temp_dir().join(format!("loligo-nbd-chaos.{}", std::process::id()));
    // Exported to standard output, since the stock program may run in a directory of its own.
    let exported = std::process::Command::new("sh")
        .arg(daemons.exec())
        .args(["rbd", "export", &format!("{pool}/i"), "-", "--no-progress"])
        .stdout(std::fs::File::create(&file).expect("room"))
        .status();
    assert!(exported.expect("it is installed").success());
    let device = std::fs::read(&file).expect("it was written");
    for writer in &mut writers {
        assert_eq!(writer.compare(&device), 0, "all was answered");
    }
    std::fs::remove_file(&file).expect("it is ours");
    daemons.run(&format!("ceph osd pool delete {pool} {pool} --yes-i-really-really-mean-it"));
}
