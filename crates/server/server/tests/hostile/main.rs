//! Goal: clients that mean harm neither keep others out nor get what is not theirs, and nothing grows beyond
//! its bound. Method: each attack beside an honest client; counted are bytes, sockets and operations.

#[allow(dead_code, reason = "other tests use the rest")]
mod attacker;
mod bombs;
mod claims;
mod copies;
#[path = "../../../../../fuzz/counting.rs"]
mod counting;
mod crowd;
mod late;
mod wire;
mod work;
