//! Starts a stock Ceph cluster on loopback, for comparison and interoperability.
//!
//! Needs root and apt. Pacific (16.2) comes from the packages of Debian 12. Reef (18.2) and tentacle
//! (20.2) each have a folder that debootstrap creates once, under `$STOCK_CEPH_ROOTS` (default
//! `/var/tmp/stock-ceph`), and run with chroot.

mod conf;
mod filesystem;
mod link;
mod root;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};

use crate::Result;
use crate::process::{output_of, succeed};
use link::Link;
pub(crate) use link::NoLink;
pub(crate) use root::{Root, debootstrap};

/// The time that the daemons may take to start.
const UP_MAX: Duration = Duration::from_secs(60);
/// The time that daemons have to end.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Creates and starts a cluster in DIR; prints the path of its ceph.conf.
    Up {
        dir: PathBuf,
        #[command(flatten)]
        options: UpOptions,
    },
    /// Runs a program of the cluster's release against it.
    Exec {
        dir: PathBuf,
        #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Prints the process id of a daemon: osd.0, mon.a, mgr.x, mds.a.
    Pid { dir: PathBuf, daemon: String },
    /// Stops the cluster's daemons.
    Down { dir: PathBuf },
}

#[derive(Args, Clone)]
pub(crate) struct UpOptions {
    /// The object store of the OSDs.
    #[arg(long, value_enum, default_value_t = Store::Memstore)]
    pub(crate) store: Store,
    #[arg(long, default_value_t = 1)]
    pub(crate) osds: u32,
    /// Number of monitors: mon.a, mon.b and so on.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=7))]
    pub(crate) mons: u8,
    /// Number of metadata servers: mds.a, mds.b and so on. If there is one, a file system `fs` is created,
    /// and the servers beyond `--max-mds` stand by.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=9))]
    pub(crate) mds: u8,
    /// Number of metadata servers that serve, each with a rank.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub(crate) max_mds: u8,
    #[arg(long, value_enum, default_value_t = Release::Pacific)]
    pub(crate) release: Release,
    #[arg(long, value_enum, default_value_t = Auth::Cephx)]
    pub(crate) auth: Auth,
    /// Runs the daemons in their own network namespace. DIR/link names the interface that leads to it:
    /// cut it with `ip link set NAME down`.
    #[arg(long)]
    pub(crate) apart: bool,
    /// Runs daemons without msgr2: they listen for version 1 of the messenger alone.
    #[arg(long)]
    pub(crate) without_msgr2: bool,
}

impl Default for UpOptions {
    fn default() -> Self {
        Self {
            store: Store::Memstore,
            osds: 1,
            mons: 1,
            mds: 0,
            max_mds: 1,
            release: Release::Pacific,
            auth: Auth::Cephx,
            apart: false,
            without_msgr2: false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    Memstore,
    Filestore,
    Bluestore,
}

impl Store {
    /// The name in `osd objectstore`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memstore => "memstore",
            Self::Filestore => "filestore",
            Self::Bluestore => "bluestore",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Release {
    Pacific,
    Reef,
    Tentacle,
}

impl Release {
    /// The installed version.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Pacific => "16.2.15",
            Self::Reef => "18.2.7",
            Self::Tentacle => "20.2.4",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Auth {
    Cephx,
    None,
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Up { dir, options } => {
            let cluster = Cluster::up(dir, options)?;
            println!("{}", cluster.conf().display());
            cluster.keep();
            Ok(())
        }
        Command::Exec { dir, command } => {
            let cluster = Cluster::of(dir)?;
            let done = succeed(cluster.program(&command[0]).args(&command[1..]));
            cluster.keep();
            done
        }
        Command::Pid { dir, daemon } => {
            let cluster = Cluster::of(dir)?;
            println!("{}", cluster.pid(daemon)?);
            cluster.keep();
            Ok(())
        }
        Command::Down { dir } => Cluster::of(dir)?.down(),
    }
}

/// A running cluster; its daemons end when this is dropped.
pub(crate) struct Cluster {
    dir: PathBuf,
    root: Root,
    link: Option<Link>,
}

impl Cluster {
    /// Creates a cluster in `dir`, which must not contain one, and waits until it serves a pool `p` of
    /// 32 placement groups.
    pub(crate) fn up(dir: &Path, options: &UpOptions) -> Result<Self> {
        if dir.join("root").exists() {
            return Err(format!("{} already holds a cluster", dir.display()).into());
        }
        let (ranks, servers) = (options.max_mds, options.mds);
        if ranks > servers.max(1) {
            return Err(format!("--max-mds {ranks} needs more metadata servers than --mds {servers}").into());
        }
        let root = Root::prepare(options.release)?;
        let link = if options.apart { Some(Link::make()?) } else { None };
        root.make_dir(dir)?;
        fs::write(dir.join("root"), root.path().as_os_str().as_encoded_bytes())?;
        let cluster = Self { dir: dir.to_owned(), root, link };
        cluster.write_exec()?;
        cluster.start(options)?;
        Ok(cluster)
    }

    /// Returns the cluster in `dir`.
    pub(crate) fn of(dir: &Path) -> Result<Self> {
        let root = fs::read_to_string(dir.join("root"))
            .map_err(|_| format!("{} holds no cluster", dir.display()))?;
        let link = fs::read_to_string(dir.join("link")).ok().map(|name| Link::named(name.trim()));
        Ok(Self { dir: dir.to_owned(), root: Root::at(PathBuf::from(root)), link })
    }

    /// Writes `DIR/exec`: `DIR/exec PROGRAM ARGUMENTS` runs a program of the cluster's release in the
    /// daemons' environment, with the cluster's configuration.
    fn write_exec(&self) -> Result<()> {
        if let Some(link) = &self.link {
            fs::write(self.dir.join("link"), link.name())?;
        }
        let apart = self.link.as_ref().map(Link::enter).unwrap_or_default();
        let enter = format!("{apart}{}env CEPH_CONF='{}'", self.root.enter(), self.conf().display());
        Ok(fs::write(self.dir.join("exec"), format!("#!/bin/sh\nexec {enter} \"$@\"\n"))?)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    /// Returns a command for a program of the cluster's release, with the cluster's configuration.
    pub(crate) fn program(&self, name: &str) -> std::process::Command {
        let mut command = std::process::Command::new("sh");
        command.arg(self.dir.join("exec")).arg(name);
        command
    }

    /// Returns the process id of a daemon.
    pub(crate) fn pid(&self, daemon: &str) -> Result<u32> {
        let file = self.dir.join("run").join(format!("{daemon}.pid"));
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(text.trim().parse()?)
    }

    /// Lets the daemons continue after this value is gone.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }

    /// Stops the daemons and removes their files.
    pub(crate) fn down(self) -> Result<()> {
        self.stop();
        if let Some(link) = &self.link {
            link.remove();
        }
        self.root.remove_dir(&self.dir)?;
        self.keep();
        Ok(())
    }

    /// Ends the daemons, and kills those that are late: a metadata server that is asked to end when the
    /// monitors have ended already may try for ever to tell them, and occupy a processor.
    fn stop(&self) {
        let Ok(files) = fs::read_dir(self.dir.join("run")) else { return };
        let names = files.flatten().filter_map(|f| f.file_name().into_string().ok());
        let daemons = names.filter_map(|name| name.strip_suffix(".pid").map(str::to_owned));
        let mut left: Vec<u32> = daemons.filter_map(|daemon| self.pid(&daemon).ok()).collect();
        let signalled = |pid: &u32, signal| {
            // SAFETY: kill takes two numbers and accesses no memory of this process.
            unsafe { libc::kill(pid.cast_signed(), signal) == 0 }
        };
        left.retain(|pid| signalled(pid, libc::SIGTERM));
        let deadline = Instant::now() + STOP_PATIENCE;
        while !left.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
            left.retain(|pid| signalled(pid, 0));
        }
        left.retain(|pid| signalled(pid, libc::SIGKILL));
    }

    fn start(&self, options: &UpOptions) -> Result<()> {
        for sub in ["run", "log", "mgr.x"] {
            fs::create_dir_all(self.dir.join(sub))?;
        }
        let fsid = fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned();
        let ip = self.link.as_ref().map_or(Ipv4Addr::LOCALHOST, Link::inside);
        let addrs: Vec<String> = (0..options.mons).map(|_| mon_addrs(ip, options)).collect::<Result<_>>()?;
        fs::write(self.conf(), conf::text(options, &self.dir, &fsid, &addrs.join(",")))?;
        self.make_keys(options)?;
        self.start_mons(&fsid, &addrs)?;
        self.quiet("ceph-mgr", &["-i", "x"])?;
        for osd in 0..options.osds {
            self.start_osd(osd, options.store)?;
        }
        self.wait_for("OSDs up", &["osd", "stat", "-f", "json"], |text| {
            text.contains(&format!("\"num_up_osds\":{}", options.osds))
        })?;
        self.quiet("ceph", &["osd", "pool", "create", "p", "32", "32"])?;
        self.quiet("ceph", &["osd", "pool", "set", "p", "size", "1", "--yes-i-really-mean-it"])?;
        self.quiet("ceph", &["osd", "pool", "application", "enable", "p", "rados"])?;
        self.wait_until_clean()?;
        if options.mds > 0 { self.start_fs(options.mds, options.max_mds) } else { Ok(()) }
    }

    fn start_mons(&self, fsid: &str, addrs: &[String]) -> Result<()> {
        let mons: Vec<(String, &String)> = ('a'..='z').map(String::from).zip(addrs).collect();
        let (monmap, keyring) = (self.path("monmap"), self.path("keyring"));
        let mut create = vec!["--create", "--fsid", fsid];
        create.extend(mons.iter().flat_map(|(id, addrs)| ["--addv", id, addrs]));
        create.push(&monmap);
        self.quiet("monmaptool", &create)?;
        for (id, _) in &mons {
            self.quiet("ceph-mon", &["--mkfs", "-i", id, "--monmap", &monmap, "--keyring", &keyring])?;
        }
        mons.iter().try_for_each(|(id, _)| self.quiet("ceph-mon", &["-i", id]))
    }

    fn start_osd(&self, osd: u32, store: Store) -> Result<()> {
        let id = osd.to_string();
        let data = self.dir.join(format!("osd.{osd}"));
        fs::create_dir_all(&data)?;
        if store == Store::Bluestore {
            fs::File::create(data.join("block"))?.set_len(20 << 30)?;
        }
        let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned();
        self.quiet("ceph", &["osd", "new", &uuid])?;
        self.quiet("ceph-osd", &["-i", &id, "--mkfs", "--osd-uuid", &uuid])?;
        self.quiet("ceph-osd", &["-i", &id])
    }

    /// Ends an OSD in an orderly way, and starts it again with empty caches.
    pub(crate) fn restart_osd(&self, osd: u32) -> Result<()> {
        let pid = self.pid(&format!("osd.{osd}"))?;
        // SAFETY: kill takes two numbers and accesses no memory of this process.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGTERM) };
        let deadline = Instant::now() + UP_MAX;
        while Path::new(&format!("/proc/{pid}")).exists() {
            if Instant::now() > deadline {
                return Err(format!("osd.{osd} does not end; see {}", self.path("log")).into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let id = osd.to_string();
        // The OSD may have ended without telling the monitors.
        self.quiet("ceph", &["osd", "down", &id])?;
        self.quiet("ceph-osd", &["-i", &id])?;
        self.wait_for("OSD up again", &["osd", "stat", "-f", "json"], |text| {
            text.contains("\"num_up_osds\":1")
        })?;
        self.wait_until_clean()
    }

    fn wait_until_clean(&self) -> Result<()> {
        self.wait_for("clean placement groups", &["pg", "stat"], |text| {
            let pgs = text.split_whitespace().next().unwrap_or_default();
            text.contains(&format!("{pgs} active+clean"))
        })
    }

    fn make_keys(&self, options: &UpOptions) -> Result<()> {
        let keyring = self.path("keyring");
        let mut keys = vec![
            ("mon.".to_owned(), vec!["mon", "allow *"]),
            (
                "client.admin".to_owned(),
                vec!["mon", "allow *", "osd", "allow *", "mds", "allow *", "mgr", "allow *"],
            ),
            ("mgr.x".to_owned(), vec!["mon", "allow profile mgr", "osd", "allow *", "mds", "allow *"]),
        ];
        let osd_caps = ["mon", "allow profile osd", "osd", "allow *", "mgr", "allow profile osd"];
        keys.extend((0..options.osds).map(|osd| (format!("osd.{osd}"), osd_caps.to_vec())));
        let mds_caps =
            ["mon", "allow profile mds", "osd", "allow *", "mds", "allow *", "mgr", "allow profile mds"];
        keys.extend(filesystem::ids(options.mds).map(|id| (format!("mds.{id}"), mds_caps.to_vec())));
        for (i, (name, caps)) in keys.iter().enumerate() {
            let mut args = if i == 0 { vec!["--create-keyring"] } else { vec![] };
            args.extend([keyring.as_str(), "--gen-key", "-n", name]);
            args.extend(caps.chunks(2).flat_map(|cap| ["--cap", cap[0], cap[1]]));
            self.quiet("ceph-authtool", &args)?;
        }
        Ok(())
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn quiet(&self, program: &str, args: &[&str]) -> Result<()> {
        output_of(self.program(program).args(args)).map(drop)
    }

    fn wait_for(&self, what: &str, ceph_args: &[&str], done: impl Fn(&str) -> bool) -> Result<()> {
        let deadline = Instant::now() + UP_MAX;
        while Instant::now() < deadline {
            if output_of(self.program("ceph").args(ceph_args)).is_ok_and(|text| done(&text)) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(300));
        }
        Err(format!("no {what} after {} s; see {}", UP_MAX.as_secs(), self.path("log")).into())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
        if let Some(link) = &self.link {
            link.remove();
        }
    }
}

/// Returns the addresses of a new monitor, in the form of `mon host`.
fn mon_addrs(ip: Ipv4Addr, options: &UpOptions) -> Result<String> {
    if options.without_msgr2 {
        return Ok(format!("[v1:{ip}:{}]", free_port()?));
    }
    Ok(format!("[v2:{ip}:{},v1:{ip}:{}]", free_port()?, free_port()?))
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
