//! Bytes that are not Ceph's protocol, or only begin like it.

use loligo_msgr::testing::Random;
use loligo_server::Auth;
use loligo_wire::AddrKind;

use crate::versions::both_versions;
use crate::victim::{Victim, offer};

/// Msgr2's banner, with its payload of 16 bytes of features.
const BANNER: &[u8] = b"ceph v2\n\x10\x00\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// The banner of version 1, with an address of 136 bytes.
const BANNER_V1: &[u8] = &{
    let mut bytes = [0; 9 + 136];
    let (start, _) = bytes.split_at_mut(9);
    start.copy_from_slice(b"ceph v027");
    bytes
};

both_versions!(noise_is_hung_up_on_and_logged_with_peer_and_reason);
async fn noise_is_hung_up_on_and_logged_with_peer_and_reason(speaks: AddrKind) {
    let victim = Victim::start(speaks, Auth::Cephx).await;
    let mut random = Random(31);
    let mut noise = |len: usize| (0..len).map(|_| random.next() as u8).collect::<Vec<u8>>();
    for port in victim.ports() {
        let http = b"GET / HTTP/1.1\r\nHost: ceph\r\n\r\n".to_vec();
        let cases: Vec<(Vec<u8>, &str)> = match speaks {
            AddrKind::Legacy => vec![
                (noise(4096), "it does not speak the messenger of version 1"),
                (http, "it does not speak the messenger of version 1"),
                ([BANNER, &noise(64)].concat(), "but msgr2 (v2)"),
                ([BANNER_V1, &[0xff; 33]].concat(), "an authorizer of 4294967295 bytes, at most"),
                ([BANNER_V1, &noise(4096)].concat(), "misbehaving peer: "),
            ],
            _ => vec![
                (noise(4096), "it does not speak msgr2"),
                (http, "it does not speak msgr2"),
                // The first bytes of kernel clients and old clients.
                ([&b"ceph v027"[..], &[0; 272]].concat(), "but the one before it (v1)"),
                (
                    [&b"ceph v2\n\xff\xff"[..], &noise(65_535)].concat(),
                    "a banner with a payload of 65535 bytes",
                ),
                ([BANNER, &noise(64)].concat(), "misbehaving peer: "),
            ],
        };
        for (bytes, reason) in cases {
            let (ours, _) = offer(port, &bytes, false).await;
            victim.logged(&[&ours.to_string(), reason]).await;
        }
    }
    victim.ends_well().await;
}

both_versions!(a_flood_of_noise_does_not_flood_the_log);
async fn a_flood_of_noise_does_not_flood_the_log(speaks: AddrKind) {
    let victim = Victim::start(speaks, Auth::Cephx).await;
    let mut random = Random(32);
    for i in 0..600 {
        let len = 1 + random.next() as usize % 300;
        let banner = if speaks == AddrKind::Legacy { BANNER_V1 } else { BANNER };
        let banner = if i % 2 == 0 { banner } else { &[] };
        let bytes: Vec<u8> = banner.iter().copied().chain((0..len).map(|_| random.next() as u8)).collect();
        offer(victim.ports()[i % 2], &bytes, true).await;
    }
    let lines = victim.errors().len();
    assert!((20..300).contains(&lines), "{lines} lines");
    victim.ends_well().await;
}
