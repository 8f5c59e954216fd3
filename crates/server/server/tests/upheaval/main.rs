//! Goal: under any failure between a client and the server, acknowledged data exists once, complete and
//! in order, and no client waits for ever. Method: clients are killed, the server is restarted,
//! connections are reset at random bytes, with our client and with stock ones. The final content of the
//! server is compared with the acknowledged writes.
//!
//! `LOLIGO_BIN` names the `loligo` program for tests that run it.

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
