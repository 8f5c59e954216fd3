//! Bytes that are not Ceph's protocol, or only begin like it.

use loligo_msgr::testing::Random;
use loligo_server::Auth;

use crate::victim::{Victim, offer};

/// Msgr2's banner, with its payload of 16 bytes of features.
const BANNER: &[u8] = b"ceph v2\n\x10\x00\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

#[tokio::test(flavor = "multi_thread")]
async fn noise_is_hung_up_on_and_logged_with_peer_and_reason() {
    let victim = Victim::start(Auth::Cephx).await;
    let mut random = Random(31);
    let mut noise = |len: usize| (0..len).map(|_| random.next() as u8).collect::<Vec<u8>>();
    for port in victim.ports() {
        let cases: [(Vec<u8>, &str); 5] = [
            (noise(4096), "it does not speak msgr2"),
            (b"GET / HTTP/1.1\r\nHost: ceph\r\n\r\n".to_vec(), "it does not speak msgr2"),
            // The first bytes of kernel clients and old clients.
            ([&b"ceph v027"[..], &[0; 272]].concat(), "it does not speak msgr2"),
            ([&b"ceph v2\n\xff\xff"[..], &noise(65_535)].concat(), "a banner with a payload of 65535 bytes"),
            ([BANNER, &noise(64)].concat(), "misbehaving peer: "),
        ];
        for (bytes, reason) in cases {
            let (ours, _) = offer(port, &bytes, false).await;
            victim.logged(&[&ours.to_string(), reason]).await;
        }
    }
    victim.ends_well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_noise_does_not_flood_the_log() {
    let victim = Victim::start(Auth::Cephx).await;
    let mut random = Random(32);
    for i in 0..600 {
        let len = 1 + random.next() as usize % 300;
        let banner = if i % 2 == 0 { BANNER } else { &[] };
        let bytes: Vec<u8> = banner.iter().copied().chain((0..len).map(|_| random.next() as u8)).collect();
        offer(victim.ports()[i % 2], &bytes, true).await;
    }
    let lines = victim.errors().len();
    assert!((20..300).contains(&lines), "{lines} lines");
    victim.ends_well().await;
}
