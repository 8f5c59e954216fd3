//! A client and a server endpoint against each other, without a network.

mod compression;
mod frames;
mod golden;
mod handshake;
mod util;
mod v1;
