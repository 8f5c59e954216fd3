//! Goal: an image of thousands of snapshots can be opened, read and written, and one of them can be
//! removed. Method: two snapshots are created; the others are copies of the second one's record with
//! other ids and names, stored in the header as the class does, because creating each by a call would
//! take minutes.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_rados::IoCtx;
use loligo_rbd::{Image, Mode, Name};

/// Records in one request.
const AT_ONCE: u64 = 1000;

/// Creates `s00000000`, `s00000001` and so on, `count` in all. The first two are real snapshots, so that
/// they can be removed.
async fn make(io: &IoCtx, image: &Image, count: u64) {
    for name in ["s00000000", "s00000001"] {
        image.create_snapshot(name).await.expect("made");
    }
    let second = image.view().snapshots[1].info.id.0;
    let header = format!("rbd_header.{}", image.id());
    let key = |id: u64| format!("snapshot_{id:016x}").into_bytes();
    let record = io.omap_values(&*header, [key(second)]).await.expect("the record");
    let record = record.into_values().next().expect("the record");
    for from in (2..count).step_by(AT_ONCE as usize) {
        let numbers = from..count.min(from + AT_ONCE);
        let records: BTreeMap<Vec<u8>, Bytes> =
            numbers.map(|n| (key(second + n - 1), renamed(&record, second + n - 1, n))).collect();
        io.set_omap(&*header, records).await.expect("set");
    }
    let newest = Bytes::from((second + count - 2).to_le_bytes().to_vec());
    io.set_omap(&*header, [(b"snap_seq", newest)]).await.expect("set");
    image.refresh().await.expect("read");
}

/// Copies a record with another id and name. The id follows the version and the length, the name follows
/// its own length.
fn renamed(record: &Bytes, id: u64, number: u64) -> Bytes {
    let mut record = record.to_vec();
    record[6..14].copy_from_slice(&id.to_le_bytes());
    assert_eq!(&record[18..27], b"s00000001");
    record[18..27].copy_from_slice(format!("s{number:08}").as_bytes());
    record.into()
}

/// Writes to and reads an image of `count` snapshots, and removes the oldest one; the others remain.
pub(crate) async fn are_kept(io: &IoCtx, name: &str, count: u64) {
    let image = Image::open(io, name, Mode::ReadWrite).await.expect("opens");
    image.write(0, vec![1; 4096].into()).await.expect("written");
    make(io, &image, count).await;
    image.write(0, vec![2; 4096].into()).await.expect("written");
    for snapshot in ["s00000000".to_owned(), format!("s{:08}", count - 1)] {
        let at = Image::open_snapshot(io, name, &snapshot).await.expect("opens");
        assert_eq!(at.read(0, 4096).await.expect("read"), vec![1; 4096]);
    }
    image.remove_snapshot("s00000000").await.expect("removed");
    image.close().await.expect("closes");
    let image = Image::open(io, name, Mode::ReadOnly).await.expect("opens");
    let view = image.view();
    let names: Vec<&Name> = view.snapshots.iter().map(|snap| &snap.info.name).collect();
    let expected: Vec<Name> = (1..count).map(|n| format!("s{n:08}").into()).collect();
    assert_eq!(names, expected.iter().collect::<Vec<_>>());
    assert_eq!(image.read(0, 4096).await.expect("read"), vec![2; 4096]);
}
