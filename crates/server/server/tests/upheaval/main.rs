//! Goal: whatever happens between a client and the server, what was acknowledged is there, once, whole and in
//! order, and nobody waits for ever. Method: clients are killed, the server is restarted, connections are
//! reset at random bytes, with our client and with stock ones; what the server holds in the end is compared
//! with what was acknowledged.
//!
//! `LOLIGO_BIN` names the `loligo` program, where a test runs it.

mod common;
mod crowd;
mod full;
mod kept;
mod kills;
mod lost_files;
mod owners;
mod regrouped;
mod resets;
mod restarts;
mod watched;
