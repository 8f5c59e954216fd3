//! `loligo serve`: runs the server until it is told to stop.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use clap::ValueEnum;
use loligo_conf::{Conf, ConfError};
use loligo_rados::Builder as ConfBuilder;
use loligo_server::{Auth, KeyType, OsdCount, Server, prepare_dir};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::client;
use crate::failure::{Context, Failure};
use crate::log;
use crate::values::size;

/// The server's settings.
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// Where the cluster's id, keys, pools and settings are kept, and ceph.conf and keyring for clients are
    /// written.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// The store that keeps the objects.
    #[arg(long, value_enum, default_value_t = Store::Disk)]
    pub(crate) store: Store,
    /// Where the monitor listens; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:3300")]
    pub(crate) mon_addr: SocketAddr,
    /// Serve clients of version 1 of the messenger too: where the monitor listens for them (stock: port 6789;
    /// port 0 takes a free one). Kernel clients speak it by default, and `mon host = v1:…`.
    #[arg(long, value_name = "ADDR")]
    pub(crate) mon_addr_v1: Option<SocketAddr>,
    /// How clients prove who they are.
    #[arg(long, value_enum, default_value_t = AuthMethod::Cephx)]
    pub(crate) auth: AuthMethod,
    /// The type of keys that are made from now on (default: what the cluster has had; aes in a new one).
    #[arg(long, value_enum)]
    pub(crate) auth_cipher: Option<AuthCipher>,
    /// Bytes that objects may take (default: 8G in memory; most of what is free on disk, where only a new
    /// store asks).
    #[arg(long, value_parser = size)]
    pub(crate) capacity: Option<u64>,
    /// Bytes of memory that keep data which was read from disk or written there (default: 64M, taken as it is
    /// needed; 0: none).
    #[arg(long, value_parser = size)]
    pub(crate) cache: Option<u64>,
    /// OSDs that clients see, all over one store: for pools of several copies, and erasure-coded ones
    /// (default: what the cluster has had; 1 in a new one; at most 64).
    #[arg(long, value_parser = osd_count)]
    pub(crate) osds: Option<OsdCount>,
    /// Threads that serve connections (default: one for each processor).
    #[arg(long)]
    pub(crate) workers: Option<usize>,
}

/// Stores for objects.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// On disk, in the same directory.
    Disk,
    /// In memory: gone when the server stops.
    Memory,
}

/// Authentication methods.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthMethod {
    /// By a key.
    Cephx,
    /// Not at all.
    None,
}

/// Types of keys.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthCipher {
    /// AES-128: all releases of Ceph know it.
    Aes,
    /// AES-256 with HMAC-SHA-384: what 19.2.6, 20.2.4 and later make; older programs cannot read it.
    Aes256k,
}

fn osd_count(text: &str) -> Result<OsdCount, String> {
    let count = text.parse().ok().and_then(OsdCount::new);
    count.ok_or_else(|| format!("a number from 1 to {} is needed", OsdCount::MAX))
}

pub(crate) fn run(options: &Serve, pools: &[String], conf: &ConfBuilder) -> Result<(), Failure> {
    let began = Instant::now();
    let data = &options.data;
    let configuration = || "configuration".to_owned();
    let conf = load(conf).context(configuration)?;
    client::prepare(&conf)?;
    // Created before the log is opened in it.
    prepare_dir(data).context(|| format!("serve {}", data.display()))?;
    let _log = log::of_server(&conf, data.join("loligo.log"))?;
    let mut builder = match options.store {
        Store::Disk => Server::disk(&options.data),
        Store::Memory => Server::memory().data_dir(&options.data),
    };
    builder = builder.mon_addr(options.mon_addr).auth(match options.auth {
        AuthMethod::Cephx => Auth::Cephx,
        AuthMethod::None => Auth::None,
    });
    if let Some(addr) = options.mon_addr_v1 {
        builder = builder.mon_addr_v1(addr);
    }
    match options.auth_cipher {
        Some(AuthCipher::Aes) => builder = builder.auth_cipher(KeyType::Aes),
        Some(AuthCipher::Aes256k) => builder = builder.auth_cipher(KeyType::Aes256k),
        None => {}
    }
    if let Some(compression) = conf.compression().context(configuration)? {
        builder = builder.compression(compression);
    }
    for pool in pools {
        builder = builder.pool(pool);
    }
    if let Some(bytes) = options.capacity {
        builder = builder.capacity_bytes(bytes);
    }
    if let Some(bytes) = options.cache {
        builder = builder.cache_bytes(bytes);
    }
    if let Some(osds) = options.osds {
        builder = builder.osds(osds);
    }
    if let Some(workers) = options.workers {
        builder = builder.threads(workers);
    }
    // A program that reads the `ready` line may send a signal at once. From here on signals are queued
    // until they are read.
    let runtime = client::runtime(1)?;
    let signals = runtime.block_on(async { Signals::new() }).context(|| "signals".to_owned())?;
    let server = builder.start().context(|| format!("serve {}", options.data.display()))?;
    sayln!(
        "ready conf={} mon={} startup_ms={:.1}",
        server.conf().display(),
        server.mon_addr(),
        began.elapsed().as_secs_f64() * 1e3
    );
    runtime.block_on(async {
        let failure = tokio::select! {
            () = signals.follow() => None,
            why = server.failed() => Some(Failure::new("serve", why)),
        };
        server.shutdown().await;
        failure.map_or(Ok(()), Err)
    })
}

/// Loads the configuration, which says where the log goes and which data is compressed.
fn load(conf: &ConfBuilder) -> Result<Conf, ConfError> {
    match conf.load() {
        // CEPH_CONF may name the file that the server is about to write.
        Err(ConfError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            let mut no_file = vec!["--no-config-file".to_owned()];
            conf.clone().args(&mut no_file).and_then(|conf| conf.load())
        }
        loaded => loaded,
    }
}

/// The signals that end a server, and SIGHUP, which reopens its log. Signals are queued from the moment
/// this is created.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Creates the listeners; must be called within a runtime.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for SIGTERM or SIGINT. Each SIGHUP reopens the log.
    pub(crate) async fn follow(mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => drop(tokio::task::spawn_blocking(loligo_logring::reopen).await),
            }
        }
    }
}
