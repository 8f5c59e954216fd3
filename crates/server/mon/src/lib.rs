//! The monitor of a cluster of one: maps, authentication, commands.
//!
//! - [`state::State`]: what the monitor knows, without clock, socket or file.
//! - [`command`]: the commands of the `ceph` program, with their signatures.
//! - [`Monitor`]: sessions and their messages, without sockets; [`MonService`] puts it on the network,
//!   and [`StateFile`] keeps its state.
//! - [`text`]: commands and names are any bytes.
//! - [`output`]: JSON and tables in the shapes that Ceph's tools know.
//!
//! What this crate refuses to do: there is no quorum, because there is one monitor, and no manager: the
//! commands that a stock cluster sends to its manager and that make sense without one are answered here.
// Numbers from peers: none is cut off or changes its sign unseen. What must be is written as such (crate
// `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

pub mod command;
mod failure;
mod file;
#[doc(hidden)]
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
