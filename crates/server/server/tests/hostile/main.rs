//! Goal: malicious clients neither block other clients nor get access to data of others, and nothing
//! grows beyond its bound. Method: each attack runs beside an honest client; bytes, sockets and
//! operations are counted.

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
