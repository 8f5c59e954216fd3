//! A gateway that serves any number of block devices over the NBD protocol. No device slows down
//! another.
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
//! - [`Backend`] stores a device's data: [`Memory`], a [`LocalFile`], an image ([`Rbd`]) or a
//!   [`Striped`] file. A [`Spec`] names it.
//! - [`Registry`] is the table of devices. A lookup takes no lock; adding or removing a device replaces
//!   the table. Each device has a lane in which it is opened, resized, suspended and closed, so that a
//!   stuck back end delays only its own device.
//! - [`Server`] listens on sockets, with TLS if it is given [certificates or shared keys](tls).
//! - [`pace`] decides how a worker waits for requests when they arrive densely.
//! - [`Config`] is the file that lists the exports; [`control`] holds the commands of the control
//!   socket.
//! - [`kernel`] attaches an export of any NBD server to this machine's kernel, whose client does the
//!   I/O. A [`Target`] names the export.
//!
//! Not supported: the older handshake (oldstyle) and I/O as a client. The gateway keeps no data: whatever it
//! has acknowledged is in the back end.
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
