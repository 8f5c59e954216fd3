//! Admin sockets: what a running program tells about itself, and lets be changed.
//!
//! - [`Admin`] is a table of commands and settings. [`Admin::new`] has those that every program has: its
//!   version, `config show|get|set`, `lock_stat` and the log's levels. Each part of a program adds its own.
//! - [`AdminSocket`] answers at a Unix socket, in Ceph's protocol, so that stock `ceph --admin-daemon SOCKET
//!   COMMAND` asks there. It has a thread of its own: who asks why a program is stuck must get an answer
//!   while it is.
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
//! What this crate refuses to do: it knows neither servers nor clients, nothing of what it shows is computed
//! here, and it listens to the user who runs the program alone.
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
