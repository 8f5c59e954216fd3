//! The monitor of a cluster with a single monitor: maps, authentication, commands.
//!
//! - [`state::State`]: the cluster's state, without clock, socket or file.
//! - [`command`]: the commands of the `ceph` program, with their signatures.
//! - [`Monitor`]: sessions and their messages, without sockets. [`MonService`] connects it to the
//!   network, and [`StateFile`] saves its state.
//! - [`text`]: commands and names that hold arbitrary bytes.
//! - [`output`]: JSON and tables in the shapes that Ceph's tools expect.
//!
//! Out of scope: there is no quorum, because there is a single monitor, and there is no separate
//! manager. This crate also answers the manager's commands, as far as they make sense without one.
// A number from a peer must not be truncated or change its sign unnoticed. Intended conversions are
// explicit (crate `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

pub mod command;
mod failure;
mod file;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod hierarchy;
mod monitor;
mod number;
pub mod output;
mod service;
mod session;
pub mod state;
pub mod text;
mod usage;
mod view;

pub use file::{FileError, StateFile};
pub use monitor::{Effects, Malformed, Monitor, Save, SessionId};
pub use service::{MonConfig, MonService, OnOsdMap, Stopped};
pub use session::Peer;
pub use usage::{Fullness, PgScrubs, PgUsage, Scrub, Space, Usage, UsageSource, has_quotas};
