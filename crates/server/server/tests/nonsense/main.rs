//! Goal: if the server receives invalid bytes at either port, it closes that connection and logs the
//! peer and the reason; other connections are not affected, and memory does not grow. Method: noise,
//! recorded sessions damaged in many ways, frames with absurd lengths, and, after a proper handshake,
//! damaged messages. Meanwhile another client reads and writes through a proxy that counts its
//! connections. All of it happens with both versions of the messenger.

#[path = "../addresses/mod.rs"]
mod addresses;
mod frames;
mod messages;
mod noise;
#[path = "../versions/mod.rs"]
mod versions;
mod victim;
