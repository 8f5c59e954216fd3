//! Goal: data that `loligo serve --store disk` acknowledged is kept after its machine loses power:
//! objects, their attributes and keys, and pools. Method: the server's directory is on a disk whose
//! power can be cut (`loligo-powercut`). Clients write, the server is stopped (SIGSTOP), and the next
//! server starts from a random state of the disk that the cut allows. The content is compared with the
//! record of this process.
//!
//! The store's own tests use simulated disks. Here the key-value library, the monitor's state and the
//! directories are real. One cut in five comes late enough for a checkpoint.
//!
//! `LOLIGO_POWER_CUTS` is the number of cuts (10), `LOLIGO_POWER_SEED` the seed (1).
//! `cargo xtask torture` runs it for a long time.

mod server_process;
mod writers;

use std::env;
use std::fs;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use loligo_powercut::{Disk, Mount};
use server_process::{Scratch, ServerProcess};
use writers::{Writers, connect};

/// The store makes a checkpoint every ten seconds.
const LATE: Duration = Duration::from_secs(11);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_power_fails() {
    if !loligo_powercut::is_available() {
        return skipped("/dev/fuse cannot be opened here");
    }
    let (cuts, seed) = (setting("LOLIGO_POWER_CUTS", 10), setting("LOLIGO_POWER_SEED", 1));
    let mut rng = Rng::with_seed(seed);
    let scratch = Scratch::new("power");
    let dir = scratch.0.join("disk");
    fs::create_dir(&dir).expect("a directory");
    let (mut mount, mut server) = start(Disk::new(), &dir);
    let (survivor, survivors_pool) = connect(&dir, "survivors").await;
    let (mut survivors, mut mourners) = (Writers::new(), Writers::new());
    let mut pools = Vec::new();
    for cut in 0..cuts {
        let (mourner, mourners_pool) = connect(&dir, "mourners").await;
        mourners.verify(&mourners_pool, cut).await;
        let known: Vec<String> = mourner.pools().into_iter().map(|(_, name)| name).collect();
        assert!(
            pools.iter().all(|pool| known.contains(pool)),
            "after cut {cut}: {known:?}, made were {pools:?}"
        );
        mourners.start(&mourners_pool, &mut rng);
        survivors.start(&survivors_pool, &mut rng);
        let name = format!("made before cut {cut}");
        mourner.create_pool(&name).await.expect("made");
        pools.push(name);
        let wait = if cut % 5 == 4 { LATE } else { Duration::from_millis(5) };
        tokio::time::sleep(wait + Duration::from_millis(rng.u64(..300))).await;

        stop(&server);
        let disk = mount.after_power_cut(&mut rng);
        mourners.abandon().await;
        survivors.stop();
        server.kill();
        mourner.shutdown().await;
        mount.end().expect("nobody uses it");
        (mount, server) = start(disk, &dir);
        survivors.finish().await;
        survivors.verify(&survivors_pool, cut).await;
    }
    let (mourner, pool) = connect(&dir, "mourners").await;
    mourners.verify(&pool, cuts).await;
    let (done, unanswered) = mourners.totals();
    println!(
        "seed {seed}: {cuts} cuts; survivors' operations {}; mourners' {done}, of which {unanswered} unanswered",
        survivors.totals().0
    );
    assert!(survivors.totals().0 > cuts && done > cuts, "there was something to lose");
    mourner.shutdown().await;
    survivor.shutdown().await;
    drop(server);
    mount.end().expect("nobody uses it");
}

/// Checks that the test above can fail: if syncs do nothing, acknowledged data is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_does_not_sync_is_found_out() {
    if !loligo_powercut::is_available() {
        return skipped("/dev/fuse cannot be opened here");
    }
    let mut rng = Rng::with_seed(setting("LOLIGO_POWER_SEED", 1));
    let scratch = Scratch::new("power-unsynced");
    let dir = scratch.0.join("disk");
    fs::create_dir(&dir).expect("a directory");
    // One cut in five loses nothing.
    for cut in 0..20 {
        let (mount, mut server) = start(Disk::new(), &dir);
        let (client, pool) = connect(&dir, "mourners").await;
        mount.ignore_syncs();
        let mut writers = Writers::new();
        writers.start(&pool, &mut rng);
        while writers.totals().0 < 20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop(&server);
        let disk = mount.after_power_cut(&mut rng);
        writers.abandon().await;
        server.kill();
        client.shutdown().await;
        mount.end().expect("nobody uses it");
        let at = dir.clone();
        let looks = tokio::spawn(async move {
            let (mount, server) = start(disk, &at);
            let (client, pool) = connect(&at, "mourners").await;
            writers.verify(&pool, cut).await;
            client.shutdown().await;
            drop(server);
            mount.end().expect("nobody uses it");
        });
        let Err(error) = looks.await else { continue };
        let panic = error.into_panic();
        let said = panic.downcast_ref::<String>().expect("it says what is missed");
        // An object has other content, or the server reports a damaged store and does not start.
        assert!(said.contains("after kill") || said.contains("loligo.log"), "{said}");
        return;
    }
    panic!("nothing was missed");
}

/// Stops all threads of a server. Everything that they acknowledged by then was on the disk before.
fn stop(server: &ServerProcess) {
    let pid = server.0.id();
    // SAFETY: kill sends a signal to a process that has not been waited for.
    let sent = unsafe { libc::kill(pid.cast_signed(), libc::SIGSTOP) };
    assert_eq!(sent, 0, "the server runs");
    while !fs::read_dir(format!("/proc/{pid}/task"))
        .expect("it runs")
        .flatten()
        .all(|thread| is_stopped(&thread.path()))
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns `true` if a thread is stopped, or in a system call on the file system, after which it stops.
fn is_stopped(thread: &Path) -> bool {
    let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
    // The name may contain any character; the state follows its bracket.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 'D']))
}

fn start(disk: Disk, dir: &Path) -> (Mount, ServerProcess) {
    let mount = Mount::new(disk, dir).expect("mounted");
    (mount, ServerProcess::start(dir))
}

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Prints why a test was skipped. It does not use `eprintln!`, whose output is hidden for tests that
/// pass: `cargo xtask test` counts such lines.
fn skipped(why: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {why}\n").as_bytes());
}
