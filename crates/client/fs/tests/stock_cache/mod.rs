//! Goal: data that either client has in its cache or buffer is never hidden from the other, belongs into the
//! snapshots of its time, and is read here without a lock. Method: a stock client on the same files; the
//! other side's reads make the server take capabilities back.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use loligo_fs::File;
use loligo_lockstat::{Mode, report, set_mode};

use super::*;

const BLOCK: usize = 4096;

/// Waits for work that must end, however loaded the machine is.
async fn ends<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work).await.expect("it ends")
}

fn both() -> OpenOptions {
    OpenOptions::new().read().write().create()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn buffered_data_of_either_is_seen_by_the_other() {
    let place = Place::new("buffered").await;
    let file = place.fs.open("f", both()).await.expect("opened");
    let path = place.theirs("f");
    for round in 0..3 {
        // Neither synced nor closed: only a revoke brings it to the other client.
        let ours = pattern((3 << 20) + 5, round);
        file.write_at(0, ours.clone()).await.expect("written");
        assert_eq!(sum(&file.read_at(0, 1 << 30).await.expect("read")), sum(&ours), "ours, by us");
        assert_eq!(sum(&ends(theirs_reads(path.clone())).await), sum(&ours), "ours, by them");
        let theirs = pattern((3 << 20) + 5, 100 + round);
        let (at, copy) = (path.clone(), theirs.clone());
        let handle = ends(beside(move || {
            let handle = fs::OpenOptions::new().write(true).open(at).expect("opened");
            handle.write_all_at(&copy, 0).expect("written");
            handle
        }))
        .await;
        assert_eq!(sum(&ends(file.read_at(0, 1 << 30)).await.expect("read")), sum(&theirs), "theirs, by us");
        ends(beside(move || drop(handle))).await;
    }
    file.close().await.expect("closed");
    // A close without a sync: the data is there for whoever opens the file next.
    let last = pattern(1 << 20, 7);
    place.write("g", &last).await;
    assert_eq!(sum(&ends(theirs_reads(place.theirs("g"))).await), sum(&last));
    place.end().await;
}

/// Goal: a task that reads, writes or looks at what is cached, and so waits for nobody, leaves its thread
/// to other tasks now and then: among them are those that answer the servers. Method: one thread for all
/// tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn cached_data_leaves_room_for_other_tasks() {
    let place = Place::new("room").await;
    let file = Arc::new(place.fs.open("f", both()).await.expect("opened"));
    file.write_at(0, pattern(1 << 20, 1)).await.expect("written");
    file.read_at(0, 1 << 20).await.expect("read");
    place.fs.stat("f").await.expect("there");
    for what in ["read", "write", "look"] {
        let (file, fs) = (Arc::clone(&file), place.fs.clone());
        let busy = tokio::spawn(async move {
            let has_run = Arc::new(AtomicBool::new(false));
            let told = Arc::clone(&has_run);
            tokio::spawn(async move { told.store(true, Ordering::Relaxed) });
            for _ in 0..100_000 {
                match what {
                    "read" => drop(file.read_at(0, 4096).await.expect("read")),
                    "write" => file.write_at(0, pattern(BLOCK, 2)).await.expect("written"),
                    _ => drop(fs.stat("f").await.expect("there")),
                }
                if has_run.load(Ordering::Relaxed) {
                    return true;
                }
            }
            false
        });
        assert!(ends(busy).await.expect("it does not panic"), "{what}: no other task has run");
    }
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_truncation_by_the_other_reaches_the_cache() {
    let place = Place::new("cut").await;
    let file = place.fs.open("f", both()).await.expect("opened");
    let data = pattern(100_000, 1);
    file.write_at(0, data.clone()).await.expect("written");
    file.sync().await.expect("durable");
    assert_eq!(file.read_at(0, 1 << 20).await.expect("read").len(), 100_000);
    let path = place.theirs("f");
    ends(beside(move || {
        let theirs = fs::OpenOptions::new().write(true).open(path).expect("opened");
        theirs.set_len(5000).expect("cut");
        theirs.set_len(100_000).expect("extended");
    }))
    .await;
    let mut wanted = data[..5000].to_vec();
    wanted.resize(100_000, 0);
    assert_eq!(sum(&ends(file.read_at(0, 1 << 20)).await.expect("read")), sum(&wanted));
    // The same by this client, with data that is not written yet.
    file.write_at(0, data.clone()).await.expect("written");
    file.truncate(7000).await.expect("cut");
    file.truncate(100_000).await.expect("extended");
    let mut wanted = data[..7000].to_vec();
    wanted.resize(100_000, 0);
    assert_eq!(sum(&file.read_at(0, 1 << 20).await.expect("read")), sum(&wanted));
    assert_eq!(sum(&ends(theirs_reads(place.theirs("f"))).await), sum(&wanted));
    file.close().await.expect("closed");
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn direct_and_buffered_files_see_one_another() {
    let place = Place::new("direct").await;
    let cached = place.fs.open("f", both()).await.expect("opened");
    let direct = place.fs.open("f", both().direct()).await.expect("opened");
    for round in 0..4_u64 {
        let (one, two) = (pattern(9 << 20, round), pattern(70_000, 50 + round));
        cached.write_at(0, one.clone()).await.expect("written");
        assert_eq!(sum(&direct.read_at(0, 1 << 30).await.expect("read")), sum(&one));
        direct.write_at(4100 + round, two.clone()).await.expect("written");
        let mut all = one.to_vec();
        all[4100 + round as usize..][..70_000].copy_from_slice(&two);
        assert_eq!(sum(&cached.read_at(0, 1 << 30).await.expect("read")), sum(&all));
    }
    let synced = place.fs.open("s", both().sync()).await.expect("opened");
    synced.write_at(0, pattern(5000, 3)).await.expect("written");
    assert_eq!(fs::metadata(place.theirs("s")).expect("there").len(), 5000);
    for file in [cached, direct, synced] {
        file.close().await.expect("closed");
    }
    place.end().await;
}

/// Writes rounds of numbered blocks, one after another: block `n` has the number of the round.
async fn rounds(file: &File, blocks: u64, progress: &AtomicU64, ends: &AtomicBool) {
    let mut round = 1_u64;
    while !ends.load(Ordering::Acquire) {
        for block in 0..blocks {
            let data: Vec<u8> = round.to_le_bytes().repeat(BLOCK / 8);
            file.write_at(block * BLOCK as u64, data).await.expect("written");
            progress.store(round * blocks + block, Ordering::Release);
        }
        round += 1;
        tokio::task::yield_now().await;
    }
}

/// Goal: a snapshot has what was written before it was asked for, and is one moment of the file: no block is
/// older than one after it in the order of writing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_snapshot_under_a_buffered_writer_is_one_moment() {
    const BLOCKS: u64 = 64;
    let place = Place::new("moment").await;
    let file = Arc::new(place.fs.open("f", both()).await.expect("opened"));
    let (progress, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let writer = tokio::spawn({
        let (file, progress, ended) = (Arc::clone(&file), Arc::clone(&progress), Arc::clone(&ended));
        async move { rounds(&file, BLOCKS, &progress, &ended).await }
    });
    let mut before = Vec::new();
    for snap in 0..4 {
        ends(async {
            let begun = progress.load(Ordering::Acquire);
            while progress.load(Ordering::Acquire) < begun + 3 * BLOCKS {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        before.push(progress.load(Ordering::Acquire));
        let path = place.theirs(&format!(".snap/s{snap}"));
        match snap % 2 {
            0 => ends(beside(move || fs::create_dir(path).expect("made"))).await,
            _ => {
                let made = place.fs.create_dir(format!(".snap/s{snap}"), 0o755);
                ends(made).await.expect("made");
            }
        }
    }
    ended.store(true, Ordering::Release);
    ends(writer).await.expect("it does not panic");
    ends(file.sync()).await.expect("durable");
    let mut moment = 0;
    for (snap, written) in before.into_iter().enumerate() {
        let path = place.theirs(&format!(".snap/s{snap}/f"));
        let data = ends(theirs_reads(path)).await;
        assert_eq!(sum(&place.read(&format!(".snap/s{snap}/f")).await), sum(&data), "both read the same");
        assert_eq!(data.len(), BLOCKS as usize * BLOCK, "snapshot {snap}");
        let numbers: Vec<u64> = data
            .chunks(BLOCK)
            .map(|block| {
                let first: [u8; 8] = block[..8].try_into().expect("eight bytes");
                assert!(block.chunks(8).all(|part| part == first), "a block is written whole");
                u64::from_le_bytes(first)
            })
            .collect();
        assert!(numbers.is_sorted_by(|one, next| one >= next), "snapshot {snap}: {numbers:?}");
        assert!(numbers[0] <= numbers[numbers.len() - 1] + 1, "snapshot {snap}: {numbers:?}");
        let last = numbers.iter().filter(|number| **number == numbers[0]).count() as u64 - 1;
        let now = numbers[0] * BLOCKS + last;
        assert!(now >= written && now >= moment, "snapshot {snap}: {now} after {written} and {moment}");
        moment = now;
    }
    let newest = progress.load(Ordering::Acquire) / BLOCKS;
    let data = ends(theirs_reads(place.theirs("f"))).await;
    assert_eq!(data[..8], newest.to_le_bytes());
    drop(file);
    for snap in 0..4 {
        place.fs.remove_dir(format!(".snap/s{snap}")).await.expect("removed");
    }
    place.end().await;
}

/// Goal: a revoke is answered while tasks here keep reading and writing the file, and each side sees what the
/// other has written before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_revoke_under_load_is_answered() {
    const TASKS: u64 = 4;
    let place = Place::new("load").await;
    let file = Arc::new(place.fs.open("f", both()).await.expect("opened"));
    file.write_at(0, vec![0; 8 * BLOCK]).await.expect("written");
    let ended = Arc::new(AtomicBool::new(false));
    let counts: Arc<Vec<AtomicU64>> = Arc::new((0..TASKS).map(|_| AtomicU64::new(0)).collect());
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (file, ended, counts) = (Arc::clone(&file), Arc::clone(&ended), Arc::clone(&counts));
            tokio::spawn(async move {
                let at = task * BLOCK as u64;
                let mut count = 0_u64;
                while !ended.load(Ordering::Acquire) {
                    count += 1;
                    file.write_at(at, count.to_le_bytes().to_vec()).await.expect("written");
                    counts[task as usize].store(count, Ordering::Release);
                    let read = file.read_at(at, 8).await.expect("read");
                    assert_eq!(&read[..], count.to_le_bytes(), "own writes are seen");
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let theirs_at = TASKS * BLOCK as u64;
    for round in 1..=15_u64 {
        let written: Vec<u64> = counts.iter().map(|count| count.load(Ordering::Acquire)).collect();
        let path = place.theirs("f");
        let seen = ends(beside(move || {
            let theirs = fs::OpenOptions::new().read(true).write(true).open(path).expect("opened");
            theirs.write_all_at(&round.to_le_bytes(), theirs_at).expect("written");
            let number = |task| {
                let mut number = [0; 8];
                theirs.read_exact_at(&mut number, task * BLOCK as u64).expect("read");
                u64::from_le_bytes(number)
            };
            (0..TASKS).map(number).collect::<Vec<u64>>()
        }))
        .await;
        for (seen, written) in seen.iter().zip(&written) {
            assert!(seen >= written, "round {round}: {seen} is older than {written}");
        }
        let read = ends(file.read_at(theirs_at, 8)).await.expect("read");
        assert_eq!(&read[..], round.to_le_bytes(), "what the other client has written and closed");
    }
    ended.store(true, Ordering::Release);
    for task in tasks {
        ends(task).await.expect("it does not panic");
    }
    let ours = file.read_at(0, 1 << 20).await.expect("read");
    assert_eq!(sum(&ends(theirs_reads(place.theirs("f"))).await), sum(&ours));
    drop(file);
    place.end().await;
}

/// Goal: the data of a removed file does not stay at the OSDs as long as this client is there. Method: the
/// server keeps what is removed as a stray while a client has a capability on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_removed_file_gives_its_room_back() {
    let place = Place::new("removed").await;
    let strays = || {
        let dump = ceph(&["tell", "mds.0", "perf", "dump"]);
        let from = dump.find("\"num_strays\": ").expect("a counter") + 14;
        let digits = dump[from..].chars().take_while(char::is_ascii_digit).collect::<String>();
        digits.parse::<u32>().expect("a number")
    };
    // Other clients may have left some behind.
    let before = strays();
    let data = pattern(1 << 20, 1);
    for name in ["a", "b", "c"] {
        place.write(name, &data).await;
        assert_eq!(sum(&place.read(name).await), sum(&data));
    }
    let open = place.fs.open("c", OpenOptions::new().read()).await.expect("opened");
    for name in ["a", "b", "c"] {
        place.fs.remove_file(name).await.expect("removed");
    }
    let fall_to = |count: u32| {
        ends(async move {
            while strays() > count {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
    };
    fall_to(before + 1).await;
    assert_eq!(sum(&open.read_at(0, 1 << 20).await.expect("read")), sum(&data), "it is open");
    open.close().await.expect("closed");
    fall_to(before).await;
    place.end().await;
}

/// Goal: reads of a cached file take no lock, and wait for none. Method: eight threads read one file while
/// every lock is counted; the mount's own task, once a second, is all that may take some.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn cached_reads_take_no_lock() {
    const READS: u64 = 20_000;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (place, file, data) = runtime.block_on(async {
        let place = Place::new("locks").await;
        let file = place.fs.open("f", both()).await.expect("opened");
        let data = pattern(1 << 20, 1);
        file.write_at(0, data.clone()).await.expect("written");
        file.sync().await.expect("durable");
        assert_eq!(sum(&file.read_at(0, 1 << 20).await.expect("read")), sum(&data));
        (place, Arc::new(file), data)
    });
    set_mode(Mode::Exact);
    let before = report();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (file, data, handle) = (Arc::clone(&file), &data, runtime.handle().clone());
            scope.spawn(move || {
                let mut random = thread * 7919 + 1;
                handle.block_on(async {
                    for _ in 0..READS {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let at = (random >> 33) % 256 * BLOCK as u64;
                        let read = file.read_at(at, BLOCK as u64).await.expect("read");
                        assert_eq!(read, data[at as usize..at as usize + BLOCK]);
                    }
                });
            });
        }
    });
    let taken = report().since(&before);
    set_mode(Mode::default());
    let is_ours = |name: &str| name.starts_with("fs.") || name.starts_with("cache.");
    let ours: Vec<_> = taken.classes.iter().filter(|class| is_ours(class.name)).collect();
    for class in &ours {
        assert_eq!(class.contentions, 0, "{} was waited for", class.name);
        let acquisitions = class.acquisitions;
        assert!(acquisitions < READS / 10, "{} was taken {acquisitions} times", class.name);
    }
    let inode = ours.iter().find(|class| class.name == "fs.inode").map_or(0, |class| class.acquisitions);
    assert!(inode < 1000, "the inodes were locked {inode} times in {} reads", 8 * READS);
    // The measurement sees locks: a write takes that of its object.
    set_mode(Mode::Exact);
    let before = report();
    runtime.block_on(async {
        file.write_at(0, data.clone()).await.expect("written");
        let cache = report().since(&before).class("cache.object").map_or(0, |class| class.acquisitions);
        set_mode(Mode::default());
        assert!(cache > 0, "{cache}");
        drop(file);
        place.end().await;
    });
}
