//! `loligo serve`: runs the server until it is told to stop.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Instant;

use clap::ValueEnum;
use loligo_conf::{Conf, ConfError};
use loligo_rados::{Builder as ConfBuilder, Errno};
use loligo_server::{Auth, Handle, KeyType, OsdCount, Server, prepare_dir};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::client;
use crate::contents::{self, Contents, Plan};
use crate::failure::{Context, Failure};
use crate::log;
use crate::values::size;

/// The server's settings.
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// Where the cluster's id, keys, pools and settings are kept, and ceph.conf and keyring for clients are
    /// written.
    #[arg(long, value_name = "DIR", env = "LOLIGO_DATA")]
    pub(crate) data: PathBuf,
    /// Pools to create if they do not exist, separated by commas, as -p does one.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', env = "LOLIGO_POOLS")]
    pub(crate) pools: Vec<String>,
    /// The store that keeps the objects.
    #[arg(long, value_enum, default_value_t = Store::Disk, env = "LOLIGO_STORE")]
    pub(crate) store: Store,
    /// Where the monitor listens; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:3300", env = "LOLIGO_MON_ADDR")]
    pub(crate) mon_addr: SocketAddr,
    /// Serve clients of version 1 of the messenger too: where the monitor listens for them (stock: port 6789;
    /// port 0 takes a free one). Kernel clients speak it by default, and `mon host = v1:…`. The options
    /// `ms_bind_msgr1` and `ms_bind_msgr2` say the same without an address: true for the first also serves
    /// version 1, false for the second serves nothing else.
    #[arg(long, value_name = "ADDR", env = "LOLIGO_MON_ADDR_V1")]
    pub(crate) mon_addr_v1: Option<SocketAddr>,
    /// The IP address that clients are told (default: where the monitor listens; if that is 0.0.0.0 or ::,
    /// the address from which this machine reaches others). The ports are those of --mon-addr and, for
    /// OSDs, of the options `ms_bind_port_min` and `ms_bind_port_max`, if these are set.
    #[arg(long, value_name = "IP", env = "LOLIGO_ANNOUNCE")]
    pub(crate) announce: Option<IpAddr>,
    /// How clients prove who they are.
    #[arg(long, value_enum, default_value_t = AuthMethod::Cephx, env = "LOLIGO_AUTH")]
    pub(crate) auth: AuthMethod,
    /// The type of keys that are made from now on (default: what the cluster has had; aes in a new one).
    #[arg(long, value_enum)]
    pub(crate) auth_cipher: Option<AuthCipher>,
    /// Bytes that objects may take (default: 8G in memory, but at most half of the machine's or the
    /// container's; most of what is free on disk, where only a new store asks).
    #[arg(long, value_parser = size, env = "LOLIGO_CAPACITY")]
    pub(crate) capacity: Option<u64>,
    /// Bytes of memory that objects and the bookkeeping for them may take: --capacity of a store in memory.
    /// At the bound the cluster is full, as `ceph -s` says: writes wait, or fail with ENOSPC.
    #[arg(long, value_name = "BYTES", value_parser = size, conflicts_with = "capacity")]
    pub(crate) memory: Option<u64>,
    /// Bytes of memory that keep data which was read from disk or written there (default: 64M, taken as it is
    /// needed; 0: none).
    #[arg(long, value_parser = size)]
    pub(crate) cache: Option<u64>,
    /// OSDs that clients see, all over one store: for pools of several copies, and erasure-coded ones
    /// (default: what the cluster has had; 1 in a new one; at most 64).
    #[arg(long, value_parser = osd_count, env = "LOLIGO_OSDS")]
    pub(crate) osds: Option<OsdCount>,
    /// Threads that serve connections (default: one for each processor).
    #[arg(long)]
    pub(crate) workers: Option<usize>,
    #[command(flatten)]
    contents: Contents,
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
    if options.memory.is_some() && options.store == Store::Disk {
        let why = "it bounds a store in memory; use --capacity, or --store memory";
        return Err(Failure::of(Errno::EINVAL, "serve --memory", why));
    }
    let data = &options.data;
    let configuration = || "configuration".to_owned();
    let conf = load(conf).context(configuration)?;
    client::prepare(&conf)?;
    let pools: Vec<String> = pools.iter().chain(&options.pools).cloned().collect();
    let plan = options.contents.plan(&pools)?;
    let admin_key = contents::admin_key()?;
    // Created before the log is opened in it.
    prepare_dir(data).context(|| format!("serve {}", data.display()))?;
    let _log = log::of_server(&conf, data.join("loligo.log"))?;
    let mut builder = match options.store {
        Store::Disk => Server::disk(&options.data),
        Store::Memory => {
            loligo_heap::serve();
            Server::memory().data_dir(&options.data)
        }
    };
    builder = builder.mon_addr(options.mon_addr).auth(match options.auth {
        AuthMethod::Cephx => Auth::Cephx,
        AuthMethod::None => Auth::None,
    });
    let versions = Versions::of(options, &conf).context(configuration)?;
    builder = builder.msgr2(versions.msgr2);
    if let Some(addr) = versions.mon_addr_v1 {
        builder = builder.mon_addr_v1(addr);
    }
    if let Some(ip) = options.announce {
        builder = builder.public_ip(ip);
    }
    if let Some(ports) = ports(&conf).context(configuration)? {
        builder = builder.ports(ports);
    }
    match options.auth_cipher {
        Some(AuthCipher::Aes) => builder = builder.auth_cipher(KeyType::Aes),
        Some(AuthCipher::Aes256k) => builder = builder.auth_cipher(KeyType::Aes256k),
        None => {}
    }
    if let Some(compression) = conf.compression().context(configuration)? {
        builder = builder.compression(compression);
    }
    builder = options.contents.given_to(builder, &pools, &plan);
    if let Some(key) = admin_key {
        builder = builder.admin_key(key);
    }
    if let Some(bytes) = options.capacity.or(options.memory) {
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
    let runtime = client::runtime(if plan.is_empty() { 1 } else { contents::WORKERS })?;
    let signals = runtime.block_on(async { Signals::new() }).context(|| "signals".to_owned())?;
    let server = builder.start().context(|| format!("serve {}", options.data.display()))?;
    runtime.block_on(async {
        let served = serve(&server, signals, &plan, began).await;
        server.shutdown().await;
        served
    })
}

/// Fills the server and tells that it is ready. Returns when a signal ends it, or a failure.
async fn serve(server: &Handle, signals: Signals, plan: &Plan<'_>, began: Instant) -> Result<(), Failure> {
    let mut end = pin!(async {
        tokio::select! {
            () = signals.follow() => Ok(()),
            why = server.failed() => Err(Failure::new("serve", why)),
        }
    });
    if !plan.is_empty() {
        tokio::select! {
            ended = &mut end => return ended,
            written = plan.write(server) => written?,
        }
        server.mark().await.context(|| "serve".to_owned())?;
        server.write_conf().context(|| "serve".to_owned())?;
    }
    sayln!(
        "ready conf={} mon={} startup_ms={:.1}",
        server.conf().display(),
        server.mon_addr(),
        began.elapsed().as_secs_f64() * 1e3
    );
    loligo_heap::rest();
    end.await
}

/// The ports of OSDs, if an option says so. Stock daemons have a range by default; of servers for tests many
/// run on one machine, and any free port is found sooner.
fn ports(conf: &Conf) -> Result<Option<RangeInclusive<u16>>, ConfError> {
    const STOCK: RangeInclusive<u16> = 6800..=7300;
    if conf.text("ms_bind_port_min").is_none() && conf.text("ms_bind_port_max").is_none() {
        return Ok(None);
    }
    let port = |option: &str, default: u16| {
        let value = conf.u64(option, default.into())?;
        u16::try_from(value).map_err(|_| ConfError::Value {
            option: option.to_owned(),
            value: value.to_string(),
            expected: "a port, at most 65535,",
        })
    };
    Ok(Some(port("ms_bind_port_min", *STOCK.start())?..=port("ms_bind_port_max", *STOCK.end())?))
}

/// The versions of the messenger that are served.
#[derive(Debug, PartialEq, Eq)]
struct Versions {
    msgr2: bool,
    mon_addr_v1: Option<SocketAddr>,
}

impl Versions {
    /// Ceph's own ports of a monitor.
    const PORTS: (u16, u16) = (3300, 6789);

    /// Version 1 is served if its address is given or an option says so. Stock daemons serve it by default,
    /// but at a server for one machine few clients speak it, and it can neither encrypt nor use keys of
    /// newer ciphers.
    fn of(options: &Serve, conf: &Conf) -> Result<Self, ConfError> {
        let msgr2 = conf.bool("ms_bind_msgr2", true)?;
        let is_asked = conf.bool("ms_bind_msgr1", false)? || !msgr2;
        let mon_addr_v1 = options.mon_addr_v1.or_else(|| is_asked.then(|| Self::beside(options.mon_addr)));
        Ok(Self { msgr2, mon_addr_v1 })
    }

    /// Ceph's own port for version 1 beside its own for msgr2, and any free one beside another.
    fn beside(mon_addr: SocketAddr) -> SocketAddr {
        let port = if mon_addr.port() == Self::PORTS.0 { Self::PORTS.1 } else { 0 };
        SocketAddr::new(mon_addr.ip(), port)
    }
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use loligo_conf::Environment;
    use loligo_wire::EntityName;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        serve: Serve,
    }

    fn versions(args: &[&str], conf: &str) -> Versions {
        let args = ["loligo", "--data", "/nowhere"].iter().chain(args);
        let line = Line::try_parse_from(args).unwrap_or_else(|e| panic!("{e}"));
        let conf = Conf::parse(conf, EntityName::client("admin"), Environment::default());
        Versions::of(&line.serve, &conf.expect("a configuration")).expect("words of ceph.conf")
    }

    #[test]
    fn version_1_is_served_where_it_is_asked_for() {
        let of = |msgr2, addr: Option<&str>| Versions {
            msgr2,
            mon_addr_v1: addr.map(|addr| addr.parse().expect("an address")),
        };
        let v1 = "ms bind msgr1 = true\n";
        assert_eq!(versions(&[], ""), of(true, None));
        assert_eq!(versions(&["--mon-addr-v1", "127.0.0.1:7000"], ""), of(true, Some("127.0.0.1:7000")));
        assert_eq!(versions(&[], &format!("[global]\n{v1}")), of(true, Some("127.0.0.1:6789")));
        let elsewhere = ["--mon-addr", "127.0.0.2:0"];
        assert_eq!(versions(&elsewhere, &format!("[global]\n{v1}")), of(true, Some("127.0.0.2:0")));
        let alone = "[global]\nms bind msgr2 = false\n";
        assert_eq!(versions(&[], alone), of(false, Some("127.0.0.1:6789")));
        assert_eq!(versions(&["--mon-addr-v1", "127.0.0.1:1"], alone), of(false, Some("127.0.0.1:1")));
    }
}
