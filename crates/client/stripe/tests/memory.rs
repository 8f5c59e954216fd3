//! Goal: striped files behave as arrays of bytes, whatever their layout, and I/Os fail and end as
//! documented. Method: an embedded server, and an array in memory as the oracle of random operations.

mod place;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::{join_all, poll_immediate};
use loligo_msgr::testing::FaultProxy;
use loligo_rados::{Builder, Errno, IoCtx, LockMode, LockOptions};
use loligo_server::Server;
use loligo_stripe::{Direct, Error, File, Layout, ObjectNames, ObjectNo, Segment, StreamOptions, Striper};

use loligo_wire::EntityType;
use place::{POOL, Place};

const UNIT: u64 = 64 << 10;

/// The shortest that there is: tests wait for its end.
const LOCK_TIME: Duration = Duration::from_secs(1);

fn layout(unit: u64, count: u64, units: u64) -> Layout {
    Layout::new(unit * UNIT, count, unit * units * UNIT).expect("valid")
}

fn pattern(len: u64, seed: u64) -> Bytes {
    (0..len).map(|at| ((at * 31 + seed) % 251) as u8 ^ (at >> 14) as u8).collect()
}

fn in_pool(pool: IoCtx, layout: Layout) -> Striper {
    Striper::new(pool).with_layout(layout).expect("stock reads it")
}

async fn content(file: &File) -> Bytes {
    file.read(0, u64::MAX).await.expect("read").into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_made_written_read_and_removed() {
    let place = Place::new().await;
    let striper = in_pool(place.pool().await, layout(1, 3, 2));
    assert!(striper.open("f").await.expect_err("none yet").is_not_found());
    assert!(striper.remove("f").await.expect_err("none yet").is_not_found());
    let mut file = striper.create("f").await.expect("made");
    let again = striper.create("f").await.expect_err("there is one");
    assert_eq!(again.errno(), Errno::EEXIST);
    assert!(file.read(0, 10).await.expect("read").is_empty(), "empty");
    let data = pattern(20 * UNIT + 7, 1);
    file.write(0, data.clone()).await.expect("written");
    assert_eq!(content(&file).await, data);
    // A vectored write beyond the end, with a hole before it.
    let parts = [pattern(10, 2), pattern(3 * UNIT, 3), pattern(1, 4)];
    file.write(30 * UNIT, parts.clone().into_iter().collect::<loligo_stripe::Buffers>())
        .await
        .expect("written");
    let mut expected = data.to_vec();
    expected.resize(30 * UNIT as usize, 0);
    expected.extend(parts.concat());
    assert_eq!(content(&file).await, expected);
    let holes: u64 = file.read(0, u64::MAX).await.expect("read").parts().iter().map(hole).sum();
    assert!((9 * UNIT - 7..10 * UNIT).contains(&holes), "{holes}");
    assert_eq!(file.append(pattern(100, 5)).await.expect("appended"), 33 * UNIT + 11);
    assert_eq!(file.size().await.expect("a size"), 33 * UNIT + 111);
    assert!(file.read(33 * UNIT + 111, 10).await.expect("read").is_empty(), "behind the end");
    assert_eq!(file.read(33 * UNIT + 100, 500).await.expect("read").len(), 11, "short at the end");
    file.close().await.expect("closed");
    let stat = striper.stat("f").await.expect("there");
    assert_eq!((stat.size, stat.layout), (33 * UNIT + 111, striper.layout()));
    striper.remove("f").await.expect("removed");
    let left = striper.ioctx().objects().next().await.expect("listed");
    assert!(left.is_none(), "{left:?}");
}

fn hole(part: &Segment) -> u64 {
    if let Segment::Hole(len) = part { *len } else { 0 }
}

#[tokio::test(flavor = "multi_thread")]
async fn truncating_leaves_no_object_and_no_old_byte() {
    let place = Place::new().await;
    let striper = in_pool(place.pool().await, layout(1, 3, 2));
    let data = pattern(40 * UNIT, 1);
    for size in [0, 1, UNIT - 1, UNIT, 5 * UNIT + 3, 6 * UNIT, 17 * UNIT + 1, 39 * UNIT, 40 * UNIT] {
        let file = striper.create("f").await.expect("made");
        file.write(0, data.clone()).await.expect("written");
        file.close().await.expect("closed");
        striper.truncate("f", size).await.expect("cut");
        let objects = names(&striper).await;
        assert_eq!(objects.len() as u64, striper.layout().object_count(size).max(1), "{size}: {objects:?}");
        striper.truncate("f", 45 * UNIT).await.expect("extended");
        let file = striper.open("f").await.expect("there");
        let mut expected = data[..size as usize].to_vec();
        expected.resize(45 * UNIT as usize, 0);
        assert!(content(&file).await == expected, "{size}");
        file.close().await.expect("closed");
        striper.remove("f").await.expect("removed");
    }
    let too_long = striper.truncate("f", u64::MAX).await.expect_err("too long");
    assert!(matches!(too_long, Error::TooLong));
}

#[tokio::test(flavor = "multi_thread")]
async fn holes_are_made_told_and_take_no_room() {
    let place = Place::new().await;
    let striper = in_pool(place.pool().await, layout(1, 2, 2));
    let file = striper.create("f").await.expect("made");
    file.write(0, pattern(12 * UNIT, 1)).await.expect("written");
    let told = async |offset, len| {
        let parts = file.parts(offset, len).await.expect("told");
        parts.into_iter().map(|part| (part.len, part.is_hole)).collect::<Vec<_>>()
    };
    assert_eq!(told(0, u64::MAX).await, [(12 * UNIT, false)]);
    assert_eq!(told(12 * UNIT, 7).await, []);
    // Punches a set of two objects in the middle, and one unit of the data before it.
    file.punch(3 * UNIT, 5 * UNIT).await.expect("punched");
    assert_eq!(told(0, u64::MAX).await, [(3 * UNIT, false), (5 * UNIT, true), (4 * UNIT, false)]);
    assert_eq!(told(UNIT, 3 * UNIT).await, [(2 * UNIT, false), (UNIT, true)]);
    let mut all = names(&striper).await;
    all.sort();
    let left: Vec<u64> = (0..8).filter(|n| all.contains(&format!("f.{n:016x}"))).collect();
    assert_eq!(left, [0, 1, 4, 5]);
    // Punches the whole file and more: the first object, which marks the file, stays.
    file.punch(0, u64::MAX).await.expect("punched");
    assert_eq!(told(0, u64::MAX).await, [(12 * UNIT, true)]);
    assert_eq!(content(&file).await, vec![0; 12 * UNIT as usize]);
    file.close().await.expect("closed");
    assert_eq!(names(&striper).await, ["f.0000000000000000"]);
    assert_eq!(striper.stat("f").await.expect("it is there").size, 12 * UNIT);
}

async fn names(striper: &Striper) -> Vec<String> {
    let mut objects = striper.ioctx().objects();
    let mut names = Vec::new();
    while let Some(object) = objects.next().await.expect("listed") {
        names.push(String::from_utf8_lossy(&object.oid).into_owned());
    }
    names
}

/// An open file can be neither truncated nor removed, and a file cannot be opened during either.
#[tokio::test(flavor = "multi_thread")]
async fn the_lock_is_libradosstriper_s() {
    let place = Place::new().await;
    let striper = in_pool(place.pool().await, layout(1, 2, 2));
    let (one, two) = (striper.create("f").await.expect("made"), striper.open("f").await.expect("opened"));
    let first = "f.0000000000000000";
    let info = striper.ioctx().lock_info(first, "striper.lock").await.expect("a lock");
    assert_eq!((info.mode, &info.tag[..], info.holders.len()), (Some(LockMode::Shared), &b"Tag"[..], 2));
    assert!(info.holders.iter().all(|holder| holder.description.is_empty() && holder.cookie.len() == 36));
    for refused in [striper.truncate("f", 1).await, striper.remove("f").await] {
        let refused = refused.expect_err("in use");
        assert!(
            matches!(refused, Error::InUse { .. }) && refused.to_string().contains("client."),
            "{refused}"
        );
    }
    one.close().await.expect("closed");
    two.close().await.expect("closed");
    let options = LockOptions { cookie: "c".into(), ..LockOptions::default() };
    striper.ioctx().lock(first, "striper.lock", LockMode::Exclusive, &options).await.expect("locked");
    assert!(matches!(striper.open("f").await, Err(Error::InUse { .. })));
    striper.ioctx().unlock(first, "striper.lock", "c").await.expect("unlocked");
    // Dropping an open file releases its lock, too.
    drop(striper.open("f").await.expect("opened"));
    let gone = async {
        while striper.remove("f").await.is_err() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("the lock is given up");
}

/// After the loss of its lock a file refuses all I/O. The lock of a program that has died expires.
#[tokio::test(flavor = "multi_thread")]
async fn locks_are_lost_and_end() {
    let place = Place::new().await;
    let striper = in_pool(place.pool().await, layout(1, 2, 2)).with_lock_time(LOCK_TIME);
    let file = striper.create("f").await.expect("made");
    file.write(0, pattern(UNIT, 1)).await.expect("written");
    let first = "f.0000000000000000";
    let info = striper.ioctx().lock_info(first, "striper.lock").await.expect("a lock");
    let [holder] = info.holders.as_slice() else { panic!("{info:?}") };
    striper.ioctx().break_lock(first, "striper.lock", holder.client, &holder.cookie).await.expect("broken");
    let lost = async {
        loop {
            match file.write(0, pattern(UNIT, 1)).await {
                Ok(()) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(e) => break e,
            }
        }
    };
    let lost = tokio::time::timeout(Duration::from_secs(20), lost).await.expect("it is noticed");
    assert!(matches!(lost.source, Error::LockLost(_)), "{lost}");
    assert!(matches!(file.read(0, 1).await.expect_err("lost").source, Error::LockLost(_)));
    assert!(matches!(file.close().await, Err(Error::LockLost(_))));
    // A renewed lock outlasts its duration.
    let file = striper.open("f").await.expect("opened");
    let expires = async || {
        let info = striper.ioctx().lock_info(first, "striper.lock").await.expect("asked");
        info.holders.first().and_then(|holder| holder.expires).expect("a lock that ends")
    };
    let ends = expires().await;
    let outlasted = async {
        while expires().await < ends + 2 * LOCK_TIME {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), outlasted).await.expect("it is renewed");
    assert!(matches!(striper.remove("f").await, Err(Error::InUse { .. })));
    file.close().await.expect("closed");
    // A client that ends without closing its files behaves as one that died.
    let dying = place.connect().await;
    let pool = dying.ioctx(POOL).await.expect("the pool");
    let file = in_pool(pool, striper.layout()).with_lock_time(LOCK_TIME).open("f").await;
    let ends = expires().await;
    dying.shutdown().await;
    let ended = async {
        while let Err(e) = striper.remove("f").await {
            assert!(matches!(e, Error::InUse { .. }), "{e}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("the lock has ended");
    assert!(SystemTime::now() >= ends, "nobody has released the lock");
    drop(file);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_striped_file_is_told_apart() {
    let place = Place::new().await;
    let pool = place.pool().await;
    let striper = Striper::new(pool.clone());
    pool.write_full("plain.0000000000000000", "x".into()).await.expect("written");
    assert!(matches!(striper.open("plain").await, Err(Error::NotStriped(_))));
    let broken = striper.create("broken").await.expect("made");
    broken.close().await.expect("closed");
    pool.set_xattr("broken.0000000000000000", "striper.layout.stripe_unit", "17").await.expect("set");
    assert!(matches!(striper.stat("broken").await, Err(Error::Layout(_))));
    pool.set_xattr("broken.0000000000000000", "striper.size", "much").await.expect("set");
    let said = striper.stat("broken").await.expect_err("no number").to_string();
    assert!(said.contains("much") || said.contains("17"), "{said}");
    // Neither file is left locked.
    for file in ["plain", "broken"] {
        let info = pool.lock_info(format!("{file}.0000000000000000"), "striper.lock").await.expect("asked");
        assert!(info.holders.is_empty(), "{file}: {info:?}");
    }
    let huge = Layout::new(1 << 31, 1, 1 << 31).expect("Ceph has it");
    assert!(matches!(Striper::new(pool).with_layout(huge), Err(Error::NotForStock)));
}

/// All requests of one I/O, one for each object, are in flight when the future has been polled once.
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_an_io_leave_together() {
    let place = Place::of(Server::memory().commit_delay(Duration::from_millis(300))).await;
    let pool = place.pool().await;
    for (layout, units, objects) in
        [(layout(1, 40, 1), 40, 40), (layout(1, 1, 1), 50, 50), (layout(1, 2, 4), 8, 2)]
    {
        let direct = Direct::new(pool.clone(), layout, ObjectNames::CephFs(objects));
        let data = pattern(units * UNIT, objects);
        let mut write = Box::pin(direct.write(0, data.clone()));
        assert!(poll_immediate(&mut write).await.is_none(), "it takes a moment");
        assert_eq!(place.rados.in_flight(), (objects, data.len() as u64), "{layout}");
        write.await.expect("written");
        assert_eq!(direct.read(0, units * UNIT).await.expect("read").into_bytes(), data);
        let last = pool.stat(direct.name(ObjectNo(objects - 1))).await.expect("there");
        assert_eq!(last.size, units * UNIT / objects);
    }
}

/// The server refuses access to some objects: the first error by offset is reported, and the data before
/// it is valid.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_error_by_offset_is_told() {
    let place = Place::new().await;
    let striper = in_pool(place.pool().await, layout(1, 3, 2));
    let data = pattern(24 * UNIT, 1);
    let file = striper.create("f").await.expect("made");
    file.write(0, data.clone()).await.expect("written");
    file.close().await.expect("closed");
    // All but objects 4 and 8: the second object of the second set and the last of the third, which hold
    // units 7 and 10, 14 and 17.
    let allowed = [0, 1, 2, 3, 5, 6, 7, 9].map(|n| format!("allow rwx object_prefix f.{n:016x}")).join(", ");
    let rados = place.restricted("some", &allowed).await;
    let limited = in_pool(rados.ioctx(POOL).await.expect("the pool"), striper.layout());
    let file = limited.open("f").await.expect("opened");
    let failed = file.read(10, u64::MAX).await.expect_err("refused");
    assert_eq!((failed.at, failed.source.errno()), (7 * UNIT, Errno::EPERM));
    assert_eq!(failed.before.into_bytes(), data.slice(10..7 * UNIT as usize));
    assert_eq!(file.read(8 * UNIT, 2 * UNIT).await.expect("allowed").len(), 2 * UNIT);
    let failed = file.read(8 * UNIT + 5, 10 * UNIT).await.expect_err("refused");
    assert_eq!(failed.at, 10 * UNIT);
    let new = pattern(24 * UNIT, 9);
    let failed = file.write(0, new.clone()).await.expect_err("refused");
    assert_eq!((failed.at, failed.source.errno()), (7 * UNIT, Errno::EPERM));
    assert_eq!(file.read(0, 7 * UNIT).await.expect("read").into_bytes(), new.slice(..7 * UNIT as usize));
    // Streams report the error after all valid data, and nothing after it.
    let options = StreamOptions { io_bytes: 2 * UNIT, ..StreamOptions::default() };
    let mut stream = file.read_stream(0, u64::MAX, options).await.expect("a stream");
    let mut read = 0;
    let failed = loop {
        match stream.next().await.expect("an error is due") {
            Ok(part) => read += part.len(),
            Err(e) => break e,
        }
    };
    assert_eq!((read + failed.before.len(), failed.at), (7 * UNIT, 7 * UNIT));
    assert!(stream.next().await.is_none());
    drop(stream);
    let mut stream = file.write_stream(0, options);
    let mut failed = None;
    for at in (0..24 * UNIT).step_by(UNIT as usize) {
        let part = new.slice(at as usize..(at + UNIT) as usize);
        failed = failed.or(stream.write(part).await.err());
    }
    assert_eq!(failed.or(stream.flush().await.err()).expect("refused").at, 7 * UNIT);
    assert_eq!(stream.written(), 7 * UNIT);
    assert!(matches!(stream.write(new).await.expect_err("closed").source, Error::AfterFailure));
    drop(stream);
    file.close().await.expect("closed");
    rados.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_carry_everything_in_order() {
    let place = Place::new().await;
    let striper = in_pool(place.pool().await, layout(1, 3, 4));
    let data = pattern(100 * UNIT + 333, 5);
    for (ends_at, io_bytes) in [(None, 0), (Some(100 * UNIT + 350), 100_000), (None, 3 * UNIT)] {
        let file = striper.create("f").await.expect("made");
        let options = StreamOptions { ends_at, io_bytes, window_max: 20 * UNIT, ..StreamOptions::default() };
        let mut stream = file.write_stream(17, options);
        let mut rest = data.clone();
        while !rest.is_empty() {
            let len = rest.len().min(1 + fastrand::usize(..200_000));
            stream.write(rest.split_to(len)).await.expect("written");
            assert!(stream.window().under_way() <= 20 * UNIT);
        }
        let end = 17 + data.len() as u64;
        assert_eq!(stream.finish().await.expect("written"), end);
        assert_eq!(file.size().await.expect("a size"), end, "not what was reserved");
        for sparse in [false, true] {
            let mut stream =
                file.read_stream(5, u64::MAX, StreamOptions { sparse, ..options }).await.expect("a stream");
            let (mut at, mut read) = (5, Vec::new());
            while let Some(part) = stream.next().await {
                let part = part.expect("read");
                assert_eq!(part.offset(), at);
                at += part.len();
                read.extend(part.into_bytes());
            }
            assert_eq!(at, end);
            assert!(read[..12] == [0; 12] && read[12..] == data, "{sparse}");
        }
        file.close().await.expect("closed");
        striper.remove("f").await.expect("removed");
    }
    assert_eq!(place.rados.in_flight(), (0, 0));
}

/// With slow replies, more than the minimum is kept in flight, and never more than the maximum.
#[tokio::test(flavor = "multi_thread")]
async fn windows_grow_with_the_delay() {
    const IO: u64 = 64 << 10;
    let place = Place::of(Server::memory().commit_delay(Duration::from_millis(20))).await;
    let striper = in_pool(place.pool().await, layout(1, 1, 64));
    let file = striper.create("f").await.expect("made");
    let data = pattern(24 << 20, 1);
    for (window_max, least, most) in [(64 << 20, 8 * IO, 64 << 20), (4 * IO, 4 * IO, 4 * IO)] {
        let len = if window_max > 4 * IO { data.len() as u64 } else { 40 * IO };
        file.extend(len).await.expect("extended");
        let options = StreamOptions { io_bytes: IO, window_max, ..StreamOptions::default() };
        let mut stream = file.write_stream(0, options);
        let mut seen = 0;
        for at in (0..len).step_by(IO as usize) {
            stream.write(data.slice(at as usize..(at + IO) as usize)).await.expect("written");
            seen = seen.max(stream.window().under_way());
        }
        assert!((least..=most).contains(&seen), "{seen}");
        assert_eq!(stream.finish().await.expect("written"), len);
    }
    assert!(content(&file).await == data);
    file.close().await.expect("closed");
}

/// Dropped futures and streams leave no requests in flight, and the file stays usable.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_is_given_up() {
    let place = Place::new().await;
    let striper = in_pool(place.pool().await, layout(1, 4, 4));
    let file = Arc::new(striper.create("f").await.expect("made"));
    let old = pattern(64 * UNIT, 1);
    file.write(0, old.clone()).await.expect("written");
    for round in 0..200_u64 {
        let new = pattern(40 * UNIT, round);
        let mut io: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = match round % 4 {
            0 => Box::pin(async { drop(file.read(0, u64::MAX).await) }),
            1 => Box::pin(async { drop(file.write(round * UNIT, new).await) }),
            2 => Box::pin(async {
                let mut stream =
                    file.write_stream(round * 100, StreamOptions { io_bytes: UNIT, ..Default::default() });
                let _ = stream.write(new).await;
            }),
            _ => Box::pin(async {
                let stream =
                    file.read_stream(0, u64::MAX, StreamOptions { io_bytes: UNIT, ..Default::default() });
                if let Ok(mut stream) = stream.await {
                    while let Some(Ok(_)) = stream.next().await {}
                }
            }),
        };
        for _ in 0..round % 13 {
            if poll_immediate(&mut io).await.is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    let idle = async {
        while place.rados.in_flight() != (0, 0) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), idle).await.expect("nothing is left under way");
    file.write(0, old.clone()).await.expect("written");
    assert_eq!(file.read(0, 64 * UNIT).await.expect("read").into_bytes(), old);
    Arc::into_inner(file).expect("the only one").close().await.expect("closed");
    striper.remove("f").await.expect("removed");
}

/// The data accepted by a cancelled `write` is written by the next call: no data is lost or duplicated.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_after_a_call_was_dropped() {
    let place = Place::new().await;
    let striper = in_pool(place.pool().await, layout(1, 2, 2));
    let file = striper.create("f").await.expect("made");
    let data = pattern(50 * UNIT, 3);
    let options = StreamOptions { io_bytes: UNIT, window_max: 2 * UNIT, ..Default::default() };
    let mut stream = file.write_stream(0, options);
    for at in (0..50 * UNIT).step_by(5 * UNIT as usize) {
        let part = data.slice(at as usize..(at + 5 * UNIT) as usize);
        let _ = poll_immediate(stream.write(part)).await;
    }
    assert_eq!(stream.finish().await.expect("written"), 50 * UNIT);
    assert_eq!(content(&file).await, data);
    file.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_of_several_clients_do_not_overlap() {
    let place = Place::new().await;
    let striper = in_pool(place.pool().await, layout(1, 2, 2));
    striper.create("log").await.expect("made").close().await.expect("closed");
    let appender = |id: u8| {
        let striper = striper.clone();
        async move {
            let mut file = striper.open("log").await.expect("opened");
            for _ in 0..30 {
                let line = vec![id; 1 + fastrand::usize(..9000)];
                let len = line.len() as u64;
                let at = file.append(line).await.expect("appended");
                let read = file.read(at, len).await.expect("read").into_bytes();
                assert!(read.iter().all(|byte| *byte == id), "{id}");
            }
            file.close().await.expect("closed");
        }
    };
    join_all((1..=6).map(appender)).await;
    let file = striper.open("log").await.expect("opened");
    let all = content(&file).await;
    assert!(all.iter().all(|byte| (1..=6).contains(byte)), "no holes between");
    file.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_listed() {
    let place = Place::new().await;
    let pool = place.pool().await;
    let striper = in_pool(pool.clone(), layout(1, 2, 2));
    for name in ["a", "b.c", "b"] {
        let file = striper.create(name).await.expect("made");
        file.write(0, pattern(10 * UNIT, 0)).await.expect("written");
        file.close().await.expect("closed");
    }
    pool.write_full("plain", "x".into()).await.expect("written");
    let (mut list, mut found) = (striper.files(), Vec::new());
    while let Some(name) = list.next().await.expect("listed") {
        found.push(String::from_utf8(name).expect("text"));
    }
    found.sort_unstable();
    assert_eq!(found, ["a", "b", "b.c"]);
}

/// At a snapshot files are read with their old content, without a lock.
#[tokio::test(flavor = "multi_thread")]
async fn files_are_read_at_snapshots() {
    let place = Place::new().await;
    let pool = place.pool().await;
    let striper = in_pool(pool.clone(), layout(1, 2, 2));
    let file = striper.create("f").await.expect("made");
    let old = pattern(9 * UNIT, 1);
    file.write(0, old.clone()).await.expect("written");
    pool.create_snapshot("s").await.expect("made");
    file.write(0, pattern(20 * UNIT, 2)).await.expect("written");
    let id = pool.snapshot("s").expect("there").id;
    let then = in_pool(pool.at_snapshot(id), striper.layout()).open("f").await.expect("opened");
    assert_eq!(content(&then).await, old);
    assert_eq!(then.write(0, old).await.expect_err("past").source.errno(), Errno::EROFS);
    then.close().await.expect("closed");
    file.close().await.expect("closed");
}

/// Random operations on files of random layouts, 16 tasks with a file each, compared with arrays of
/// bytes. LOLIGO_STRIPE_OPS is the number of operations.
#[tokio::test(flavor = "multi_thread")]
async fn random_operations_do_what_they_do_to_an_array() {
    let ops = std::env::var("LOLIGO_STRIPE_OPS").map_or(4_000, |text| text.parse().expect("a number"));
    let seed = std::env::var("LOLIGO_STRIPE_SEED")
        .map_or_else(|_| fastrand::u64(..), |text| text.parse().expect("a number"));
    println!("LOLIGO_STRIPE_SEED={seed}");
    let place = Place::new().await;
    let pool = place.pool().await;
    let files = (0..16).map(|n| tokio::spawn(random_file(pool.clone(), n, seed, ops / 16)));
    for ended in join_all(files).await {
        ended.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    let left = pool.objects().next().await.expect("listed");
    assert!(left.is_none(), "seed {seed}: {left:?}");
}

/// The same while connections are reset at random bytes: requests that are sent again are executed once.
#[tokio::test(flavor = "multi_thread")]
async fn broken_connections_change_nothing() {
    let seed = fastrand::u64(1..);
    println!("seed {seed}");
    let place = Place::new().await;
    let proxy = FaultProxy::start(place.server.osd_addr(), seed, 3 << 20, 100).expect("a proxy");
    let proxied = proxy.addr();
    let reroute = move |kind, addr| if kind == EntityType::OSD { proxied } else { addr };
    let conf = place.server.conf().to_str().expect("UTF-8");
    let rados = Builder::new().conf_file(conf).reroute(reroute).connect().await.expect("connects");
    let pool = rados.ioctx(POOL).await.expect("the pool");
    let files = (0..4).map(|n| tokio::spawn(random_file(pool.clone(), n, seed, 60)));
    for ended in join_all(files).await {
        ended.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    assert!(proxy.faults() > 5, "{} faults", proxy.faults());
    rados.shutdown().await;
}

async fn random_file(pool: IoCtx, number: u64, seed: u64, ops: u64) {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_add(number));
    let layout = layout(random.u64(1..4), random.u64(1..6), random.u64(1..5));
    let striper = in_pool(pool, layout);
    let mut array = Array { striper, name: format!("f{number}"), bytes: Vec::new(), random };
    let mut file = array.striper.create(&array.name).await.expect("made");
    for _ in 0..ops {
        file = array.step(file).await;
    }
    array.check(&file).await;
    file.close().await.expect("closed");
    array.striper.remove(&array.name).await.expect("removed");
}

struct Array {
    striper: Striper,
    name: String,
    bytes: Vec<u8>,
    random: fastrand::Rng,
}

const FILE_MAX: u64 = 40 * UNIT;

impl Array {
    async fn step(&mut self, mut file: File) -> File {
        let offset = self.offset();
        let len = self.random.u64(..self.random.clone().choice([100, 70_000, 1_500_000]).expect("some"));
        match self.random.u8(..100) {
            0..30 => {
                let data = self.data(len);
                file.write(offset, data.clone()).await.expect("written");
                self.put(offset, &data);
            }
            30..45 if self.bytes.len() as u64 <= FILE_MAX => {
                let data = self.data(len.min(100_000));
                assert_eq!(file.append(data.clone()).await.expect("appended"), self.bytes.len() as u64);
                self.bytes.extend_from_slice(&data);
            }
            45..65 => {
                let read = file.read(offset, len).await.expect("read");
                assert!(read.into_bytes() == self.slice(offset, len), "{} {offset} {len}", self.name);
            }
            65..75 => {
                let read = file.read_sparse(offset, len).await.expect("read");
                assert!(read.into_bytes() == self.slice(offset, len), "{} {offset} {len}", self.name);
            }
            75..79 => self.punch(&file, offset, len).await,
            79..83 => self.write_stream(&file, offset).await,
            83..90 => self.check(&file).await,
            _ => {
                file.close().await.expect("closed");
                self.striper.truncate(&self.name, offset).await.expect("truncated");
                self.bytes.resize(offset as usize, 0);
                file = self.striper.open(&self.name).await.expect("opened");
            }
        }
        assert_eq!(file.size().await.expect("a size"), self.bytes.len() as u64, "{}", self.name);
        file
    }

    async fn punch(&mut self, file: &File, offset: u64, len: u64) {
        file.punch(offset, len).await.expect("punched");
        let end = (offset + len).min(self.bytes.len() as u64);
        if offset < end {
            self.bytes[offset as usize..end as usize].fill(0);
        }
        let mut at = 0;
        while at < self.bytes.len() as u64 {
            let parts = file.parts(at, u64::MAX).await.expect("told");
            assert!(!parts.is_empty() && parts.is_sorted_by(|a, b| a.is_hole != b.is_hole), "{parts:?}");
            for part in parts {
                let zeros = self.slice(at, part.len).iter().all(|byte| *byte == 0);
                assert!(!part.is_hole || zeros, "{} {at} {part:?}", self.name);
                at += part.len;
            }
        }
        assert_eq!(at, self.bytes.len() as u64);
    }

    async fn write_stream(&mut self, file: &File, offset: u64) {
        let io_bytes = self.random.choice([0, 1000, UNIT, 5 * UNIT]).expect("some");
        let mut stream = file.write_stream(offset, StreamOptions { io_bytes, ..Default::default() });
        let mut at = offset;
        for _ in 0..self.random.u8(..10) {
            let data = self.data(self.random.clone().u64(..30_000));
            stream.write(data.clone()).await.expect("written");
            self.put(at, &data);
            at += data.len() as u64;
        }
        assert_eq!(stream.finish().await.expect("written"), at);
    }

    async fn check(&mut self, file: &File) {
        let io_bytes = self.random.choice([0, 30_000, UNIT, 5 * UNIT]).expect("some");
        let options = StreamOptions { io_bytes, sparse: self.random.bool(), ..Default::default() };
        let mut stream = file.read_stream(0, u64::MAX, options).await.expect("a stream");
        let mut at = 0;
        while let Some(part) = stream.next().await {
            let part = part.expect("read");
            assert_eq!(part.offset(), at);
            let len = part.len();
            assert!(part.into_bytes() == self.slice(at, len), "{} {at} {len}", self.name);
            at += len;
        }
        assert_eq!(at, self.bytes.len() as u64);
    }

    fn offset(&mut self) -> u64 {
        let near = self.random.u64(..FILE_MAX);
        if self.random.bool() { near / UNIT * UNIT } else { near }
    }

    fn data(&mut self, len: u64) -> Bytes {
        pattern(len, self.random.u64(..1 << 20))
    }

    fn put(&mut self, offset: u64, data: &[u8]) {
        let (begin, end) = (offset as usize, offset as usize + data.len());
        if data.is_empty() {
            return;
        }
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[begin..end].copy_from_slice(data);
    }

    fn slice(&self, offset: u64, len: u64) -> &[u8] {
        let end = (offset + len).min(self.bytes.len() as u64);
        &self.bytes[offset.min(end) as usize..end as usize]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_have_attributes_and_files_their_own() {
    let place = Place::new().await;
    let striper = in_pool(place.pool().await, layout(1, 2, 1));
    for missing in [
        striper.set_xattr("f", "colour", "red").await,
        striper.remove_xattr("f", "colour").await,
        striper.xattr("f", "colour").await.map(drop),
        striper.xattrs("f").await.map(drop),
    ] {
        assert!(missing.expect_err("no such file").is_not_found());
    }
    assert!(striper.stat("f").await.expect_err("it was not made").is_not_found());
    let file = striper.create("f").await.expect("made");
    assert!(striper.xattrs("f").await.expect("listed").is_empty());
    // Attributes can be set while the file is open, and may contain any bytes.
    striper.set_xattr("f", "colour", "red").await.expect("set");
    striper.set_xattr("f", b"\xff\0", b"\0").await.expect("set");
    striper.set_xattr("f", "colour", "blue").await.expect("set");
    file.write(0, pattern(5 * UNIT, 1)).await.expect("written");
    file.close().await.expect("closed");
    let all = striper.xattrs("f").await.expect("listed");
    let expected = [(b"colour".to_vec(), Bytes::from("blue")), (b"\xff\0".to_vec(), Bytes::from("\0"))];
    assert_eq!(all, expected.into());
    assert_eq!(striper.xattr("f", "colour").await.expect("there"), "blue");
    assert_eq!(striper.xattr("f", "striper.size").await.expect("as stock"), (5 * UNIT).to_string());
    for own in ["striper.size", "striper.layout.stripe_unit", "lock.striper.lock"] {
        let set = striper.set_xattr("f", own, "0").await.expect_err("not for users");
        assert!(matches!(&set, Error::OwnAttribute(name) if name == own.as_bytes()), "{set}");
        assert_eq!(striper.remove_xattr("f", own).await.expect_err("not for users").errno(), Errno::EPERM);
    }
    striper.remove_xattr("f", "colour").await.expect("removed");
    assert_eq!(striper.xattr("f", "colour").await.expect_err("gone").errno(), Errno::ENODATA);
    striper.truncate("f", 0).await.expect("cut");
    assert_eq!(striper.xattrs("f").await.expect("listed").len(), 1, "they stay with the file");
    striper.remove("f").await.expect("removed");
    assert!(striper.xattrs("f").await.expect_err("gone").is_not_found());
}
