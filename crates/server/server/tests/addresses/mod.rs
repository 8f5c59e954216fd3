//! Addresses of a server's daemons, for clients that dial by themselves.

use std::net::SocketAddr;

use bytes::Bytes;
use loligo_rados::Rados;
use loligo_wire::{AddrKind, EntityAddr};

/// The address of a daemon that speaks this version.
pub(crate) fn entity(speaks: AddrKind, sock: SocketAddr) -> EntityAddr {
    EntityAddr { kind: speaks, nonce: 0, sock: Some(sock) }
}

/// The address of the first OSD, which is at `sock`, as in the osdmap.
pub(crate) async fn osd_addr(admin: &Rados, speaks: AddrKind, sock: SocketAddr) -> EntityAddr {
    let command = r#"{"prefix": "osd dump", "format": "json"}"#;
    let (dump, _) = admin.mon_command(command, Bytes::new()).await.expect("a dump");
    let dump: serde_json::Value = serde_json::from_slice(&dump).expect("JSON");
    let nonce = &dump["osds"][0]["public_addrs"]["addrvec"][0]["nonce"];
    let nonce = u32::try_from(nonce.as_u64().expect("a number")).expect("32 bits");
    entity(speaks, sock).with_nonce(nonce)
}
