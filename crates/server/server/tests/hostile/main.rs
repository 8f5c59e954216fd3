//! Goal: malicious clients neither block other clients nor get access to data of others, and nothing
//! grows beyond its bound. Method: each attack runs beside an honest client; bytes, sockets and
//! operations are counted. What depends on the messenger's version runs with both.

#[path = "../addresses/mod.rs"]
mod addresses;
#[allow(dead_code, reason = "other tests use the rest")]
mod attacker;
mod bombs;
mod claims;
mod copies;
#[path = "../../../../../fuzz/counting.rs"]
mod counting;
mod crowd;
mod late;
mod v1;
#[path = "../versions/mod.rs"]
mod versions;
mod wire;
mod work;
