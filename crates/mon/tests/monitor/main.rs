//! The monitor without sockets: commands, sessions, and what is saved.

mod commands;
mod common;
mod crush;
mod erasure;
mod osd_state;
mod persist;
mod sessions;
