//! A toy monitor with cephx, toy metadata servers, and a client of them that uses only the public
//! interface of `cluster`.

mod client;
mod mds;
mod monitor;

pub(crate) use client::MdsClient;
pub(crate) use mds::Mds;
pub(crate) use monitor::Monitor;

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loligo_wire::message::{Data, Header, Message};
use loligo_wire::{DecodeError, EntityAddr, Reader, Writer};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Waits for a condition that another task brings about.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), wait).await.is_ok(), "never: {what}");
}

/// The toy MDS map: the server's address. It uses the message number of Ceph's own map.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Map {
    pub(crate) epoch: u32,
    pub(crate) addr: EntityAddr,
}

impl Map {
    /// `CEPH_MSG_MDS_MAP`.
    pub(crate) const MESSAGE: u16 = 21;
}

impl Message for Map {
    const NAME: &'static str = "toy_map";
    const KIND: u16 = Self::MESSAGE;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.u32(self.epoch);
        w.put(&self.addr);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        Ok(Self { epoch: r.u32()?, addr: r.get()? })
    }
}

/// A request to the toy metadata server, or its reply, with the numbers of Ceph's requests and replies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Toy<const NUMBER: u16> {
    pub(crate) number: u64,
}

pub(crate) type Ask = Toy<24>;
pub(crate) type Answer = Toy<26>;

impl<const NUMBER: u16> Message for Toy<NUMBER> {
    const NAME: &'static str = "toy";
    const KIND: u16 = NUMBER;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.u64(self.number);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        Ok(Self { number: r.u64()? })
    }
}
