//! Goal: whatever bytes come to the server's two ports, the connection that they come on is closed, the log
//! says who it was and why, no other connection notices, and memory does not grow. Method: noise, recorded
//! sessions that are damaged in all ways, frames with absurd lengths, and, after a proper handshake, damaged
//! messages; meanwhile another client reads and writes through a proxy that counts its connections.

mod frames;
mod messages;
mod noise;
mod victim;
