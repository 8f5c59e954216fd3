//! Goal: data that `loligo serve --store disk` acknowledged is complete after the server is killed, and
//! nothing else is there. Method: clients write, the server is killed (SIGKILL) at random moments and
//! restarted, and its content is compared with the record of this process, which is not killed.
//!
//! There are two kinds of writers. *Survivors* have a client that lives through all kills and resends
//! unacknowledged operations: each of their operations happens exactly once. *Mourners* have a client
//! that ends with the server: an unacknowledged operation has happened completely or not at all.
//!
//! `LOLIGO_TORTURE_KILLS` is the number of kills (10), `LOLIGO_TORTURE_SEED` the seed (1).
//! `cargo xtask torture` runs it for a long time.

mod server_process;
mod writers;

use std::env;
use std::time::Duration;

use fastrand::Rng;
use server_process::{Scratch, ServerProcess};
use writers::{Writers, connect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let (kills, seed) = (setting("LOLIGO_TORTURE_KILLS", 10), setting("LOLIGO_TORTURE_SEED", 1));
    let mut rng = Rng::with_seed(seed);
    let dir = Scratch::new("torture");
    let mut server = ServerProcess::start(&dir.0);
    let (survivor, survivors_pool) = connect(&dir.0, "survivors").await;
    let mut survivors = Writers::new();
    let mut mourners = Writers::new();
    for kill in 0..kills {
        let (mourner, mourners_pool) = connect(&dir.0, "mourners").await;
        mourners.verify(&mourners_pool, kill).await;
        mourners.start(&mourners_pool, &mut rng);
        survivors.start(&survivors_pool, &mut rng);
        tokio::time::sleep(Duration::from_millis(5 + rng.u64(..300))).await;
        server.kill();
        mourners.abandon().await;
        mourner.shutdown().await;
        // Only the operations in flight are completed, by the next server.
        survivors.stop();
        server = ServerProcess::start(&dir.0);
        survivors.finish().await;
        survivors.verify(&survivors_pool, kill).await;
    }
    let (_mourner, pool) = connect(&dir.0, "mourners").await;
    mourners.verify(&pool, kills).await;
    let (done, unanswered) = mourners.totals();
    println!(
        "seed {seed}: {kills} kills; survivors' operations {}; mourners' {done}, of which {unanswered} unanswered",
        survivors.totals().0
    );
    assert!(survivors.totals().0 > kills && done > kills, "there was something to lose");
    survivor.shutdown().await;
    drop(server);
}

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}
