//! Tests of the monitor without sockets: commands, sessions, and saved state.

mod changes;
mod commands;
mod common;
mod config_log;
mod crush;
mod erasure;
mod manager;
mod mutes;
mod osd_new;
mod osd_state;
mod overview;
mod persist;
mod sessions;
