//! Admin sockets: commands that inspect a running program and change its settings.
//!
//! - [`Admin`] is a table of commands and settings. [`Admin::new`] has those of every program: the
//!   version, `config show|get|set`, `lock_stat` and the log's levels. Each part of a program adds its
//!   own.
//! - [`AdminSocket`] serves a Unix socket with Ceph's protocol, so that the stock command `ceph
//!   --admin-daemon SOCKET COMMAND` can use it. It has a thread of its own, so that it answers even
//!   while the rest of the program is stuck.
//!
//! ```
//! use loligo_admin::{Admin, AdminSocket, Command};
//!
//! let admin = Admin::new();
//! admin.command(Command::new("greet", "Say hello.", |_| Ok("hello\n".to_owned())));
//! let path = std::env::temp_dir().join(format!("greeter.{}.asok", std::process::id()));
//! let socket = AdminSocket::open(&path, admin)?;
//! # drop(socket);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! This crate depends on neither servers nor clients, computes nothing that it shows, and its socket
//! accepts only the user who runs the program.
#![forbid(unsafe_code)]

mod builtin;
mod command;
mod failure;
mod log;
mod option;
mod protocol;
mod request;
mod socket;
mod table;

pub use command::{Answer, Command, LastingAnswer};
pub use failure::{Failure, Refusal};
pub use option::ConfigOption;
pub use request::Request;
pub use socket::{AdminSocket, listen_private};
pub use table::{Admin, WeakAdmin};

#[cfg(test)]
mod tests;
