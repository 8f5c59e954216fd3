//! The command line of `loligo nbd`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use loligo_nbd::ConfigTls;
use loligo_nbd::kernel::BlockSize;

use crate::name::Name;
use crate::values::size;

const SPECS: &str = "\
SPEC says what a device stands on, and ends with ,ro if it shall only be read:
  memory:SIZE                               memory, sparse, gone with the device
  file:PATH                                 a file or block device of this machine
  rbd:[POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]   an image, or a snapshot of one; with ,cache=SIZE behind a cache of so much memory
  striped:[POOL/]FILE                       a striped file, as `loligo file` has them

  loligo nbd serve --unix /run/nbd.sock --control /run/nbd.asok --export disk=memory:1G
  nbdinfo 'nbd+unix:///disk?socket=/run/nbd.sock'";

const ATTACH: &str = "\
  loligo nbd attach auto --unix /run/nbd.sock disk
  loligo nbd attach /dev/nbd0 nbd://localhost/disk
  loligo nbd detach /dev/nbd0

The kernel's module nbd must be loaded (modprobe nbd). TLS is not spoken.";

#[derive(Subcommand)]
pub(crate) enum NbdCommand {
    /// Serve block devices until told to stop.
    #[command(after_help = SPECS)]
    Serve(Box<ServeOptions>),
    /// Add a device.
    #[command(after_help = SPECS)]
    Add {
        /// The control socket of the server.
        socket: PathBuf,
        name: String,
        spec: String,
        /// Its description for clients.
        #[arg(long, default_value = "", hide_default_value = true)]
        description: String,
    },
    /// Remove a device.
    Rm {
        /// The control socket of the server.
        socket: PathBuf,
        name: String,
        /// Also if clients use it: they are told, and disconnected.
        #[arg(long)]
        force: bool,
    },
    /// List devices.
    Ls {
        /// The control socket of the server.
        socket: PathBuf,
    },
    /// Set a device's size; clients learn of it when they connect again.
    Resize {
        /// The control socket of the server.
        socket: PathBuf,
        name: String,
        #[arg(value_parser = size)]
        size: u64,
    },
    /// Let requests to a device wait; returns when none is under way.
    Suspend {
        /// The control socket of the server.
        socket: PathBuf,
        name: String,
    },
    /// Let requests to a device go on.
    Resume {
        /// The control socket of the server.
        socket: PathBuf,
        name: String,
    },
    /// Attach an export, of this program or any other server, to this machine's kernel: prints which
    /// /dev/nbdN it is.
    ///
    /// The kernel does all I/O from there on, and keeps the device when its server goes: reads and writes
    /// fail then.
    #[command(after_help = ATTACH)]
    Attach {
        /// /dev/nbdN, or auto for any that is free.
        device: String,
        /// nbd://HOST/NAME, nbd://HOST:PORT/NAME or nbd+unix:///NAME?socket=PATH; with --unix the export's
        /// name alone.
        export: String,
        /// The Unix socket at which the server listens.
        #[arg(long, value_name = "PATH")]
        unix: Option<PathBuf>,
        /// Connections, if the export allows more than one; 64 at most.
        #[arg(long, value_name = "N", default_value = "4")]
        connections: NonZeroU32,
        /// Bytes of the device's sectors, in which partition tables count: 512, 1024, 2048 or 4096.
        #[arg(long, value_name = "BYTES", default_value_t, value_parser = block_size)]
        block_size: BlockSize,
    },
    /// Detach /dev/nbdN from its export.
    Detach {
        /// /dev/nbdN.
        device: String,
        /// Also if it is mounted or part of another device; what is not written yet is lost.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Args)]
pub(crate) struct ServeOptions {
    /// An address to listen at, usually with port 10809; port 0 takes a free one. Any client that
    /// reaches it is let in, unless TLS asks for keys or certificates.
    #[arg(long, value_name = "ADDR")]
    pub(super) listen: Vec<SocketAddr>,
    /// A Unix socket to listen at, which only its owner may use. [default: loligo-nbd.sock in
    /// XDG_RUNTIME_DIR, or for root in /run; if no --listen is named]
    #[arg(long, value_name = "PATH")]
    pub(super) unix: Vec<PathBuf>,
    /// A device, as NAME=SPEC.
    #[arg(long, value_name = "NAME=SPEC")]
    pub(super) export: Vec<Name>,
    /// Addresses, sockets and devices, in TOML; what is named on the command line comes in addition.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// The socket at which devices are added, removed and so on: an admin socket.
    #[arg(long, value_name = "PATH")]
    pub(super) control: Option<PathBuf>,
    /// The server's certificate, in PEM: clients must speak TLS then.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,
    /// The certificate's key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,
    /// The authority that signs clients' certificates, which they need then.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_client_ca: Option<PathBuf>,
    /// Keys of clients, as psktool writes them (USER:KEY in hexadecimal), of mode 0600: clients with a key
    /// need no certificate, and must speak TLS 1.3.
    #[arg(long, value_name = "FILE")]
    pub(super) tls_psk: Option<PathBuf>,
    /// Threads that serve clients (default: one for each two processors, the others being the clients' and
    /// the cluster's).
    #[arg(long)]
    pub(super) workers: Option<usize>,
    /// Where requests come densely, a thread looks for them after a pause instead of being woken by each; so
    /// many microseconds at most, 0 for never.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(..=1000))]
    pub(super) gather_us: u64,
}

/// Parses a sector size that the kernel supports.
fn block_size(text: &str) -> Result<BlockSize, String> {
    let found = BlockSize::new(size(text)?);
    found.ok_or_else(|| format!("'{text}' is not 512, 1024, 2048 or 4096, the sectors that the kernel has"))
}

impl ServeOptions {
    /// Returns the TLS files that the command line names.
    pub(super) fn tls(&self) -> ConfigTls {
        ConfigTls {
            certificate: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            client_authority: self.tls_client_ca.clone(),
            psk: self.tls_psk.clone(),
        }
    }
}
