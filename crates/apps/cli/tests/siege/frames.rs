//! Attackers that control the wire: they send messages that no honest client sends.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use loligo_msgr::ConnectAuth as _;
use loligo_server::{Compression, Method};
use loligo_wire::EntityType;
use loligo_wire::crc::crc32c;
use loligo_wire::message::osd::{OsdFlags, OsdOp};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::attacker::{Doors as _, osd_addr};
use crate::attacks::{Means, PATIENCE};
use crate::wire::{Wire, request};

/// The decompressed length of a message; the next constant is the number of messages in a round.
const LEN: usize = 32 << 20;
const BOMBS: usize = 20;
/// Number of connections that each begin a message; the next constants are the bytes sent afterwards,
/// and their interval.
const HALVES: usize = 8;
const DROPS: usize = 20;
const DROP_EVERY: Duration = Duration::from_millis(100);

/// Offset of the last segment's length in a preamble. The next constant is the length of the epilogue: a
/// status, and the checksums of three segments.
const LAST_LEN_AT: usize = 20;
const EPILOGUE_LEN: usize = 13;

fn zeros() -> Bytes {
    static ZEROS: OnceLock<Bytes> = OnceLock::new();
    ZEROS.get_or_init(|| vec![0; LEN].into()).clone()
}

async fn wire(means: &Means, methods: Vec<Method>) -> io::Result<Wire> {
    // This client holds the tickets.
    let first = means.attacker().await;
    let osd = osd_addr(&means.admin, &means.victim).await;
    let auth = Arc::clone(&means.auth).connector(EntityType::OSD);
    let wire = Wire::open(osd, auth, Compression { methods, frame_len_min: 1, secure: false }).await;
    drop(first);
    wire
}

/// A write beyond the maximum size of an object, which is refused after it has arrived.
fn write(wire: &mut Wire, means: &Means, tid: u64) -> Bytes {
    let write = OsdOp::write(u64::MAX / 2, zeros());
    wire.sealed(&request(means.evil, means.admin.map_epoch(), write, OsdFlags::WRITE), tid)
}

pub(crate) async fn bombs(means: Means) -> bool {
    let method = fastrand::choice([Method::Zstd, Method::Zlib, Method::Lz4]).expect("there are some");
    let Ok(mut wire) = wire(&means, vec![method]).await else { return false };
    let bomb = write(&mut wire, &means, 1);
    assert!(bomb.len() < LEN / 200, "{method:?}: {} bytes", bomb.len());
    let last = write(&mut wire, &means, 2);
    let sent = wire.stream.write_all(&[&bomb.repeat(BOMBS)[..], &last].concat()).await;
    if sent.is_ok()
        && let Ok(result) = wire.answer(2).await
    {
        assert!(result < 0, "a write beyond what an object may be came to {result}");
    }
    sent.is_ok()
}

/// Messages whose compressed data claims a larger length than it can have.
pub(crate) async fn claims(means: Means) -> bool {
    let mut claimed = 0;
    for (method, at) in [(Method::Snappy, 0), (Method::Lz4, 4)] {
        let Ok(mut wire) = wire(&means, vec![method]).await else { continue };
        let mut frame = write(&mut wire, &means, 1).to_vec();
        boast(&mut frame, at);
        let sent = wire.stream.write_all(&frame).await;
        // The server closes the connection without a reply; earlier replies are ignored.
        if sent.is_ok() {
            claimed += 1;
            let mut heard = Vec::new();
            let _ = wire.stream.read_to_end(&mut heard).await;
        }
    }
    claimed == 2
}

/// Sets the decompressed length in the last segment to the maximum. The checksum at the frame's end is
/// corrected.
fn boast(frame: &mut [u8], at: usize) {
    let len = u32::from_le_bytes(frame[LAST_LEN_AT..LAST_LEN_AT + 4].try_into().expect("four bytes"));
    let end = frame.len() - EPILOGUE_LEN;
    let begin = end - len as usize;
    frame[begin + at..begin + at + 4].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
    let sum = crc32c(u32::MAX, &frame[begin..end]);
    let sum_at = frame.len() - 4;
    frame[sum_at..].copy_from_slice(&sum.to_le_bytes());
}

/// Each connection begins a message or a greeting, stops in the middle of it, and continues byte by
/// byte.
pub(crate) async fn halves(means: Means) -> bool {
    let mut tasks = JoinSet::new();
    for _ in 0..HALVES {
        tasks.spawn(half_message(means.clone()));
        let greeting = half_greeting(means.clone());
        tasks.spawn(async move {
            greeting.await;
            false
        });
    }
    let begun = tasks.join_all().await;
    begun.contains(&true)
}

async fn half_message(means: Means) -> bool {
    let Ok(mut wire) = wire(&means, Vec::new()).await else { return false };
    let frame = write(&mut wire, &means, 1);
    let cut = Rng::new().usize(1..frame.len());
    let is_begun = wire.stream.write_all(&frame[..cut]).await.is_ok();
    if is_begun {
        drip(&mut wire.stream, &frame[cut..]).await;
    }
    is_begun
}

async fn half_greeting(means: Means) {
    let door = if fastrand::bool() { means.victim.mon_addr() } else { means.victim.osd_addr() };
    // A banner, and the first bytes of a frame.
    let greeting = b"ceph v2\n\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x01";
    if let Ok(mut stream) = TcpStream::connect(door).await {
        drip(&mut stream, greeting).await;
    }
}

async fn drip(stream: &mut TcpStream, rest: &[u8]) {
    let begun = tokio::time::Instant::now();
    for byte in rest.chunks(1).take(DROPS) {
        if stream.write_all(byte).await.is_err() || begun.elapsed() > PATIENCE / 2 {
            return;
        }
        sleep(DROP_EVERY).await;
    }
}
