//! Goal: the blocking API has the same functions. Method: file operations on an image and on an array.

use std::io::{Cursor, Read, Seek, SeekFrom, Write};

use loligo_rados::{Builder, blocking};
use loligo_rbd::blocking::{Image, create, list, remove};
use loligo_rbd::diff::Grain;
use loligo_rbd::{CacheOptions, ImageCache, Mode, NewCopy, NewImage, Shrink};
use loligo_server::Server;

#[test]
fn an_image_is_a_file_for_threads_that_wait() {
    let server = Server::memory().pool("images").start().expect("the server starts");
    let builder = Builder::new().conf_file(server.conf().to_str().expect("UTF-8"));
    let rados = blocking::Rados::connect(builder).expect("connects");
    let io = rados.ioctx("images").expect("the pool");
    create(&io, "a", NewImage { order: 16, ..NewImage::of_size(1 << 20) }).expect("made");
    let image = Image::open(&io, "a", Mode::ReadWrite).expect("opens");
    let mut model = Cursor::new(vec![0; 1 << 20]);
    let mut file = image.cursor();
    let mut random = fastrand::Rng::with_seed(7);
    for step in 0..200 {
        let to = match random.u32(0..3) {
            0 => SeekFrom::Start(random.u64(0..1 << 20)),
            1 => SeekFrom::End(-random.i64(0..1 << 20)),
            _ => SeekFrom::Current(random.i64(-5000..5000)),
        };
        match (file.seek(to), model.seek(to)) {
            (Ok(at), Ok(expected)) => assert_eq!(at, expected, "{step}"),
            (Err(e), Err(expected)) => assert_eq!(e.kind(), expected.kind(), "{step}"),
            other => panic!("{step}: {other:?}"),
        }
        let len = random.usize(0..20_000).min((1usize << 20).saturating_sub(model.position() as usize));
        if random.bool() {
            let data: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
            file.write_all(&data).expect("written");
            model.write_all(&data).expect("written");
        } else {
            let (mut here, mut there) = (vec![0; len], vec![0; len]);
            file.read_exact(&mut here).expect("read");
            model.read_exact(&mut there).expect("read");
            assert!(here == there, "{step}");
        }
    }
    file.flush().expect("safe");
    file.seek(SeekFrom::End(-3)).expect("within");
    assert_eq!(file.write(b"12345").expect("as far as it goes"), 3);
    assert_eq!(file.write(b"45").expect("it is the end"), 0);
    assert_eq!(file.read(&mut [0; 9]).expect("it is the end"), 0);
    model.get_mut()[(1 << 20) - 3..].copy_from_slice(b"123");
    image.create_snapshot("s").expect("made");
    image.write(0, vec![9; 10].into()).expect("written");
    let changes: Vec<_> = image
        .diff(Some(&"s".into()), Grain::Bytes)
        .expect("a diff")
        .map(|change| change.expect("one").len)
        .collect();
    assert_eq!(changes, [10]);
    image.resize(2 << 20, Shrink::Refused).expect("resized");
    let at = Image::open_snapshot(&io, "a", "s").expect("opens");
    at.copy(&io, "b", NewCopy::default(), |_, _| {}).expect("copied");
    let mut all = Vec::new();
    let copy = Image::open(&io, "b", Mode::ReadOnly).expect("opens");
    copy.cursor().read_to_end(&mut all).expect("read");
    assert!(all == *model.get_ref());
    assert_eq!(
        copy.cursor().write(b"no").expect_err("it is for reading").kind(),
        std::io::ErrorKind::ReadOnlyFilesystem
    );
    drop(copy);
    // Dropping the image has released the lock.
    assert!(image.is_lock_owner());
    drop(image);
    let again = Image::open(&io, "a", Mode::ReadWrite).expect("opens");
    assert!(again.lock_info().expect("a lock").holders.is_empty());
    again.remove_snapshot("s").expect("removed");
    again.close().expect("closes");
    for name in ["a", "b"] {
        remove(&io, name, |_, _| {}).expect("removed");
    }
    assert!(list(&io).expect("a list").is_empty());
    rados.shutdown();
}

#[test]
fn a_cached_image_is_written_back_by_a_flush_and_when_it_is_closed() {
    let server = Server::memory().pool("images").start().expect("the server starts");
    let builder = Builder::new().conf_file(server.conf().to_str().expect("UTF-8"));
    let rados = blocking::Rados::connect(builder).expect("connects");
    let io = rados.ioctx("images").expect("the pool");
    create(&io, "a", NewImage { order: 16, ..NewImage::of_size(1 << 20) }).expect("made");
    let lazy = CacheOptions { dirty_time: std::time::Duration::from_secs(3600), ..CacheOptions::default() };
    let image = Image::open(&io, "a", Mode::ReadWrite).expect("opens");
    let image = image.cached(&ImageCache::new(lazy)).expect("it has the lock's feature");
    let stored = |len| {
        let stored = Image::open(&io, "a", Mode::ReadOnly).expect("opens");
        stored.read(0, len).expect("read")
    };
    let mut file = image.cursor();
    for byte in 1..4 {
        file.rewind().expect("it begins");
        file.write_all(&[byte; 5000]).expect("written");
        assert_eq!(stored(5000), vec![byte - 1; 5000]);
        file.flush().expect("flushed");
        assert_eq!(stored(5000), vec![byte; 5000]);
    }
    file.write_all(&[9; 10]).expect("written");
    image.close().expect("closes");
    assert_eq!(stored(5010)[5000..], [9; 10]);
    assert!(Image::open(&io, "a", Mode::ReadOnly).expect("opens").cached(&ImageCache::new(lazy)).is_err());
}
