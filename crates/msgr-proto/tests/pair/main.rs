//! A client and a server endpoint against each other, without a network.

mod frames;
mod handshake;
mod util;
