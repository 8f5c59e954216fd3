//! A gateway: any number of block devices over the NBD protocol, of which none feels another.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use loligo_nbd::{Definition, Opener, Registry, Server, Spec};
//!
//! let registry = Registry::new(Opener::local(), tokio::runtime::Handle::current());
//! let spec = Spec::parse("memory:1G")?;
//! registry.add(Definition { name: "disk".to_owned(), description: String::new(), spec, allow: Default::default() }).await?;
//! let mut server = Server::new(registry, None);
//! server.listen("127.0.0.1:10809".parse()?).await?;
//! // … nbdinfo nbd://localhost/disk
//! server.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! - [`proto`] is the protocol without I/O: the handshake, requests, replies.
//! - [`Backend`] is what a device stands on: [`Memory`], a [`LocalFile`], an image ([`Rbd`]) or a [`Striped`]
//!   file, as a [`Spec`] says it.
//! - [`Registry`] is the table of devices. To find one takes no lock, to add or remove one replaces the
//!   table; each device has a lane in which it is opened, resized, suspended and closed, so that a back end
//!   that is stuck delays its own device alone.
//! - [`Server`] listens at sockets, with TLS if it is given [certificates or shared keys](tls).
//! - [`pace`] is how a worker waits for requests where they come densely.
//! - [`Config`] is the file that says what to serve, [`control`] the commands of the control socket.
//! - [`kernel`] attaches exports, ours or others', to this machine's kernel, whose client does the I/O; a
//!   [`Target`] says which.
//!
//! What this crate refuses to do: it does not speak the older handshake (oldstyle), does no I/O as a client,
//! and keeps no data: what it has answered its back end has.
#![forbid(unsafe_code)]

mod access;
mod backend;
mod client;
mod config;
mod connection;
pub mod control;
mod device;
pub mod kernel;
pub mod pace;
mod server;
pub mod tls;

pub use access::{Allowed, Identity};
pub use backend::{
    Access, Backend, BackendError, BackendState, Done, Later, LocalFile, Memory, Opener, Rbd, Spec,
    SpecError, Started, Striped, Work,
};
pub use client::{JoinError, Joined, Target, TargetError};
pub use config::{Config, Export as ConfigExport, Tls as ConfigTls};
pub use device::{Attached, Definition, DeviceError, Info, Phase, Registry};
pub use server::Server;

/// The protocol without I/O, a crate of its own.
pub use loligo_nbd_proto as proto;
