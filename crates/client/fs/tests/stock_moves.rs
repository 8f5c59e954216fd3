//! Goal: a file system that several metadata servers share is one file system: whatever rank has a
//! directory, and whatever moves from one to another, each call has one effect, and what was synced is there.
//! Method: a stock cluster with three metadata servers, two of them with a rank; directories are pinned to
//! ranks, and a rank is taken away and given back, while the client works. Another client of this kind looks
//! at the result.

#[path = "support/cluster.rs"]
mod cluster;
#[path = "support/ranks.rs"]
mod ranks;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use loligo_fs::{Errno, OpenOptions};

use ranks::{Place, failed, set_ranks};

/// Goal: names, files, directories and links go from the directories of one rank to those of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn names_and_files_move_between_the_directories_of_two_ranks() {
    let place = Place::new("two").await;
    let (fs, zero, one) = (&place.fs, place.pinned("zero", 0).await, place.pinned("one", 1).await);
    place.put(&format!("{zero}/a"), "of zero").await;
    place.put(&format!("{one}/b"), "of one").await;
    // Over ranks: a file, a file over another one, a directory with something in it, and a second name.
    fs.rename(format!("{zero}/a"), format!("{one}/a")).await.expect("moved");
    place.put(&format!("{zero}/over"), "what moves").await;
    fs.rename(format!("{zero}/over"), format!("{one}/b")).await.expect("moved over");
    fs.create_dir(format!("{one}/d"), 0o755).await.expect("made");
    place.put(&format!("{one}/d/deep"), "deep").await;
    fs.rename(format!("{one}/d"), format!("{zero}/d")).await.expect("moved");
    fs.link(format!("{one}/a"), format!("{zero}/link")).await.expect("linked");
    assert_eq!(fs.stat(format!("{one}/a")).await.expect("there").nlink, 2);
    fs.remove_file(format!("{one}/a")).await.expect("removed");
    assert_eq!(fs.stat(format!("{zero}/link")).await.expect("there").nlink, 1);
    assert_eq!(place.get(&format!("{zero}/link")).await, "of zero");
    assert_eq!(place.get(&format!("{zero}/d/deep")).await, "deep");
    assert_eq!(failed(fs.stat(format!("{one}/a")).await), Errno::ENOENT);
    fs.sync().await.expect("durable");
    let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    assert_eq!(place.seen_by_another(&zero).await, [pair("d", ""), pair("link", "of zero")]);
    assert_eq!(place.seen_by_another(&one).await, [pair("b", "what moves")]);
    place.end().await;
}

/// Goal: files that are open and being written while their directory moves to and fro lose nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn open_files_go_on_while_their_directory_moves() {
    let place = Place::new("moves").await;
    let dir = place.pinned("dir", 1).await;
    let path = format!("{dir}/log");
    let file = place.fs.open(&path, OpenOptions::new().read().write().create()).await.expect("made");
    let mut text = String::new();
    for round in 0..4 {
        for line in 0..10 {
            let line = format!("{round}.{line}\n");
            file.append(line.clone()).await.expect("appended");
            text.push_str(&line);
            place.fs.make_node(format!("{dir}/{round}-{}", text.len()), 0o644, 0).await.expect("made");
        }
        place.pin(&dir, round % 2).await;
        file.sync().await.expect("durable");
    }
    assert_eq!(file.read_at(0, 1 << 20).await.expect("read"), text);
    file.close().await.expect("closed");
    let seen = place.seen_by_another(&dir).await;
    assert_eq!(seen.len(), 41);
    assert_eq!(seen.iter().find(|(name, _)| name == "log").expect("there").1, text);
    place.end().await;
}

/// Goal: a rank may go and come back: its directories go to the other one, and open files go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_rank_is_taken_away_and_given_back() {
    let place = Place::new("fewer").await;
    let dir = place.pinned("dir", 1).await;
    place.put(&format!("{dir}/before"), "before").await;
    let file = place.fs.open(format!("{dir}/open"), OpenOptions::new().read().write().create()).await;
    let file = file.expect("made");
    file.write_at(0, "first ").await.expect("written");
    let (is_over, made) = (AtomicBool::new(false), AtomicU32::new(0));
    let work = async {
        while !is_over.load(Ordering::Relaxed) {
            let at = made.fetch_add(1, Ordering::Relaxed);
            place.put(&format!("{dir}/{at}"), &at.to_string()).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    let change = async {
        set_ranks(1).await;
        file.write_at(6, "second ").await.expect("written");
        set_ranks(2).await;
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(work, change);
    file.write_at(13, "third").await.expect("written");
    file.sync().await.expect("durable");
    assert_eq!(place.get(&format!("{dir}/open")).await, "first second third");
    let seen = place.seen_by_another(&dir).await;
    let made = made.into_inner();
    assert_eq!(seen.len(), made as usize + 2);
    assert!((0..made).all(|at| seen.contains(&(at.to_string(), at.to_string()))));
    file.close().await.expect("closed");
    place.end().await;
}
