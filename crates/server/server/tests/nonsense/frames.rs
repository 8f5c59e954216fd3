//! The bytes of a valid session, damaged. The server here has no authentication, so the bytes are valid
//! on any new connection.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use loligo_msgr::testing::Random;
use loligo_server::Auth;
use loligo_wire::crc::crc32c;
use loligo_wire::{AddrKind, EntityType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::versions::both_versions;
use crate::victim::{Victim, offer, resident_bytes, soon};

/// The bytes that a client has sent on one connection.
type Recording = Arc<Mutex<Vec<u8>>>;

/// Starts a proxy that records the bytes sent by its first client.
async fn record(to: SocketAddr) -> (SocketAddr, Recording) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (addr, recording) = (listener.local_addr().expect("an address"), Recording::default());
    let kept = Arc::clone(&recording);
    tokio::spawn(async move {
        let (near, _) = listener.accept().await.expect("a client");
        let far = TcpStream::connect(to).await.expect("it listens");
        let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
        tokio::join!(copy(from_near, to_far, Some(kept)), copy(from_far, to_near, None));
    });
    (addr, recording)
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, keep: Option<Recording>) {
    let mut buf = vec![0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut buf).await {
        if let Some(keep) = &keep {
            keep.lock().expect("not poisoned").extend_from_slice(&buf[..n]);
        }
        if to.write_all(&buf[..n]).await.is_err() {
            return;
        }
    }
}

/// Runs a session in the pool `junk`. Returns the bytes recorded at both ports.
async fn session(victim: &Victim) -> [Vec<u8>; 2] {
    let [mon, osd] = victim.ports();
    let ((to_mon, mon), (to_osd, osd)) = (record(mon).await, record(osd).await);
    let through = move |kind, _: SocketAddr| if kind == EntityType::MON { to_mon } else { to_osd };
    let rados = victim.builder().reroute(through).connect().await.expect("connects");
    let pool = rados.ioctx("junk").await.expect("the pool");
    pool.write_full("o", Bytes::from(vec![7; 5000])).await.expect("written");
    pool.append("o", "end".into()).await.expect("appended");
    pool.set_xattr("o", "name", "value").await.expect("set");
    assert_eq!(pool.read("o", 4999, 0).await.expect("read"), "\x07end");
    rados.mon_command(r#"{"prefix": "osd dump", "format": "json"}"#, Bytes::new()).await.expect("answered");
    rados.statfs().await.expect("answered");
    rados.shutdown().await;
    [mon, osd].map(|recording| recording.lock().expect("not poisoned").clone())
}

/// Where a version of the messenger has what in a client's recording.
#[derive(Clone, Copy)]
struct Shape {
    speaks: AddrKind,
}

/// Msgr2: the length of a frame's preamble, whose last four bytes are its checksum; and of the epilogue of
/// a frame of several segments.
const PREAMBLE: usize = 32;
const EPILOGUE: usize = 13;

/// Version 1: the length of a message's header, whose last four bytes are its checksum, with the tag in front
/// of it, and of the footer; of all other frames; and the tag of messages.
const HEADER: usize = 54;
const FOOTER: usize = 21;
const CONTROL: usize = 9;
const MSG: u8 = 7;
const CLOSE: u8 = 6;

impl Shape {
    /// The offsets of the frames.
    fn frames(self, session: &[u8]) -> Vec<usize> {
        let mut starts = Vec::new();
        let mut at = self.first_frame(session);
        while at < session.len() {
            starts.push(at);
            at += self.len_of_frame(session, at);
        }
        assert_eq!(at, session.len(), "the session is whole frames");
        starts
    }

    fn first_frame(self, session: &[u8]) -> usize {
        if self.speaks == AddrKind::Msgr2 {
            return 10 + usize::from(u16::from_le_bytes([session[8], session[9]]));
        }
        // Banner, address, request with authorizer, and the number of the newest message received.
        let connect = 9 + 136;
        connect + 33 + u32_at(session, connect + 28..connect + 32) as usize + 8
    }

    fn len_of_frame(self, session: &[u8], frame: usize) -> usize {
        let lens = self.lengths(session, frame);
        let sum: usize = lens.iter().map(|at| u32_at(session, at.clone()) as usize).sum();
        match (self.speaks, session[frame]) {
            (AddrKind::Legacy, MSG) => HEADER + sum + FOOTER,
            (AddrKind::Legacy, CLOSE) => 1,
            (AddrKind::Legacy, _) => CONTROL,
            _ => {
                let first_crc = if u32_at(session, lens[0].clone()) > 0 { 4 } else { 0 };
                PREAMBLE + sum + first_crc + if lens.len() > 1 { EPILOGUE } else { 0 }
            }
        }
    }

    /// Where the lengths of a frame's parts are.
    fn lengths(self, session: &[u8], frame: usize) -> Vec<Range<usize>> {
        let at = |start: usize| start..start + 4;
        match (self.speaks, session[frame]) {
            // Tag, sequence number, tid, kind, priority, version.
            (AddrKind::Legacy, MSG) => (0..3).map(|i| at(frame + 1 + 8 + 8 + 6 + 4 * i)).collect(),
            (AddrKind::Legacy, _) => Vec::new(),
            _ => (0..usize::from(session[frame + 1])).map(|i| at(frame + 2 + 6 * i)).collect(),
        }
    }

    /// Recomputes the checksum of a frame's beginning.
    fn reseal(self, session: &mut [u8], frame: usize) {
        let (start, len) = if self.speaks == AddrKind::Legacy { (1, HEADER) } else { (0, PREAMBLE) };
        let crc = crc32c(0, &session[frame + start..frame + len - 4]);
        session[frame + len - 4..frame + len].copy_from_slice(&crc.to_le_bytes());
    }
}

fn u32_at(bytes: &[u8], at: Range<usize>) -> u32 {
    u32::from_le_bytes(bytes[at].try_into().expect("four bytes"))
}

both_versions!(absurd_lengths_in_good_frames_are_refused);
async fn absurd_lengths_in_good_frames_are_refused(speaks: AddrKind) {
    let victim = Victim::start(speaks, Auth::None).await;
    let sessions = session(&victim).await;
    let (before, shape) = (resident_bytes(), Shape { speaks });
    for (port, good) in victim.ports().into_iter().zip(&sessions) {
        for frame in shape.frames(good) {
            for len in [u32::MAX, 1 << 31, 257 << 20] {
                for at in shape.lengths(good, frame) {
                    let mut bad = good.clone();
                    bad[at].copy_from_slice(&len.to_le_bytes());
                    shape.reseal(&mut bad, frame);
                    offer(port, &bad, false).await;
                }
            }
            // Version 1 has no number of segments.
            let counts: &[u8] = if speaks == AddrKind::Msgr2 { &[0, 5, 255] } else { &[] };
            for segments in counts {
                let mut bad = good.clone();
                bad[frame + 1] = *segments;
                shape.reseal(&mut bad, frame);
                offer(port, &bad, false).await;
            }
        }
    }
    victim.logged(&["bytes, at most"]).await;
    victim.logged(&["misbehaving peer"]).await;
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more in use");
    victim.ends_well().await;
}

/// Damages a session in one randomly chosen way.
fn damaged(shape: Shape, good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut below = |n: usize| random.next() as usize % n;
    let mut bad = good.to_vec();
    match below(6) {
        0 => bad[below(good.len())] ^= 1 << below(8),
        1 => bad.truncate(below(good.len())),
        2 => {
            let (from, len) = (below(good.len()), 1 + below(64));
            bad.drain(from..(from + len).min(good.len()));
        }
        3 => {
            let (from, len) = (below(good.len()), 1 + below(200));
            let twice = good[from..(from + len).min(good.len())].to_vec();
            bad.splice(from..from, twice);
        }
        4 => {
            let starts = shape.frames(good);
            let (from, to) = (starts[below(starts.len())], starts[below(starts.len())]);
            bad.truncate(from);
            bad.extend_from_slice(&good[to..]);
        }
        _ => {
            let len = 1 + below(500);
            bad.extend((0..len).map(|_| below(256) as u8));
        }
    }
    bad
}

both_versions!(damaged_sessions_harm_nobody_but_themselves);
async fn damaged_sessions_harm_nobody_but_themselves(speaks: AddrKind) {
    let victim = Victim::start(speaks, Auth::None).await;
    let sessions = session(&victim).await;
    let rados = victim.builder().connect().await.expect("connects");
    let pool = rados.ioctx("junk").await.expect("the pool");
    let [mon, osd] = victim.ports();
    // An undamaged recording is accepted as a session, so damaged ones get past the handshake.
    pool.remove("o").await.expect("removed");
    offer(osd, &sessions[1], true).await;
    assert_eq!(soon("a read", pool.read("o", 4999, 0)).await.expect("made again"), "\x07end");
    let (_, answer) = offer(mon, &sessions[0], true).await;
    assert!(
        answer.windows(6).any(|bytes| bytes == b"osd.0 " || bytes == b"max_os"),
        "the command was answered"
    );

    for seed in 1..=400 {
        let (port, good) = if seed % 2 == 0 { (mon, &sessions[0]) } else { (osd, &sessions[1]) };
        offer(port, &damaged(Shape { speaks }, good, &mut Random(seed)), true).await;
    }
    victim.logged(&["misbehaving peer"]).await;
    victim.ends_well().await;
}
