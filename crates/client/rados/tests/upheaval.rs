//! A stock cluster in upheaval under a running client.
//!
//! Goal: the client recovers by itself, every append is executed exactly once, and appends to one object
//! are executed in the order of submission. Method: writers keep several appends in flight on each of
//! several objects while OSDs are marked down, restarted, paused and moved, placement groups split and
//! the monitor restarts. At the end each object must contain exactly the appended data, in order.
//!
//! LOLIGO_STOCK_DIR names the cluster's directory. Its daemons are restarted.

mod daemons;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use loligo_rados::{Builder, IoCtx, Rados};

use daemons::Daemons;

const OBJECTS: usize = 24;
/// Appends in flight on each object.
const WINDOW: usize = 4;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn appends_happen_once_and_in_order_whatever_happens_to_the_cluster() {
    let daemons = Daemons::of("LOLIGO_STOCK_DIR");
    let conf = daemons.conf();
    let admin = Builder::new().conf_file(&conf).connect().await.expect("connects");
    let pool_name = format!("upheaval-{}", admin.instance_id());
    admin.create_pool(&pool_name).await.expect("created");
    let rados = Builder::new().conf_file(&conf).connect().await.expect("connects");
    let pool = rados.ioctx(&pool_name).await.expect("opened");
    // Keeps acknowledged writes across a restart if objects are stored in memory.
    say(&admin, r#""prefix": "config set", "who": "osd", "name": "osd_fast_shutdown", "value": "false""#)
        .await;

    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..OBJECTS)
        .map(|i| tokio::spawn(write(pool.clone(), format!("o{i}"), Arc::clone(&stop), Arc::clone(&done))))
        .collect();
    let progress = Progress { done };

    progress.wait("from the start").await;
    say(&admin, r#""prefix": "osd down", "ids": ["0"]"#).await;
    progress.wait("after osd.0 was marked down").await;
    say(&admin, r#""prefix": "osd pause""#).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    say(&admin, r#""prefix": "osd unpause""#).await;
    progress.wait("after a pause").await;
    let split = format!(r#""prefix": "osd pool set", "pool": "{pool_name}", "var": "pg_num", "val": "64""#);
    say(&admin, &split).await;
    progress.wait("after a split").await;
    if daemons.of_kind("osd").len() > 1 {
        say(&admin, r#""prefix": "osd out", "ids": ["1"]"#).await;
        progress.wait("after osd.1 was taken out").await;
        say(&admin, r#""prefix": "osd in", "ids": ["1"]"#).await;
        progress.wait("after osd.1 was put back").await;
    }
    daemons.restart("osd.0").await;
    progress.wait("after osd.0 was restarted").await;
    daemons.restart("mon.a").await;
    progress.wait("after the monitor was restarted").await;
    say(&admin, r#""prefix": "osd down", "ids": ["0"]"#).await;
    progress.wait("after osd.0 was marked down by the new monitor").await;

    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        let (name, count) = writer.await.expect("no panic");
        let got = pool.read(name.as_str(), 0, 0).await.expect("read");
        let expected: String = (0..count).map(token).collect();
        assert!(got == expected.as_bytes(), "{name}: {} bytes, expected {}", got.len(), expected.len());
    }
    admin.delete_pool(&pool_name).await.expect("deleted");
}

fn token(i: usize) -> String {
    format!("{i:07}|")
}

/// Appends until told to stop, several at once, in order. Returns the number of appends.
async fn write(pool: IoCtx, name: String, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) -> (String, usize) {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let window = (count..count + WINDOW).map(|i| pool.append(name.as_str(), token(i).into()));
        for appended in join_all(window).await {
            appended.expect("appended");
        }
        count += WINDOW;
        done.fetch_add(WINDOW as u64, Ordering::Relaxed);
    }
    (name, count)
}

struct Progress {
    done: Arc<AtomicU64>,
}

impl Progress {
    /// Waits until every writer has made progress.
    async fn wait(&self, when: &str) {
        let goal = self.done.load(Ordering::Relaxed) + 40 * (OBJECTS * WINDOW) as u64;
        let reached = async {
            while self.done.load(Ordering::Relaxed) < goal {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let limit = Duration::from_secs(120);
        assert!(tokio::time::timeout(limit, reached).await.is_ok(), "no progress {when}");
    }
}

async fn say(admin: &Rados, command: &str) {
    let command = format!("{{{command}}}");
    admin.mon_command(&command, Bytes::new()).await.unwrap_or_else(|e| panic!("{command}: {e}"));
}
