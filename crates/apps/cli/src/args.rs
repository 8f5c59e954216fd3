//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use loligo_server::OsdCount;

use crate::file::FileCommand;
use crate::name::Name;
use crate::nbd::NbdCommand;
use crate::ops::OpsOptions;
use crate::rbd::RbdCommand;
use crate::timeline::TraceOptions;

const SHARED_OPTIONS: &str = "\
Options that all Ceph programs share, and that are read as Ceph reads them:
  -c, --conf FILE      the configuration file (else CEPH_CONF, /etc/ceph/ceph.conf, ~/.ceph/ceph.conf, ./ceph.conf)
  -n, --name TYPE.ID   who to authenticate as (default client.admin);  --id ID  is client.ID
  -k, --keyring FILE   where its key is (else CEPH_KEYRING, the configuration, the default places)
  -m, --mon-host LIST  the monitors
  --log-file FILE      where the log goes (serve: loligo.log in its directory; - is standard error)
  -d                   log to standard error (--log-to-stderr --log-file '')
  --debug-SUBSYS N[/M] log up to level N, keep up to M for a crash: none, msgr, mon, monc, osd, auth, store, client,
                       objecter, asok
  --setuser NAME       become this user first, if root;  --setgroup NAME
  --OPTION VALUE       any option that a Ceph program takes; truth values: --OPTION, --no-OPTION, --OPTION=false
                       ('loligo config help OPTION' says what it does here)
CEPH_ARGS may hold any of them.";

const LOCKSTAT: &str = "\
Show who waits for whose lock in running programs.

Asks at admin sockets: DIR/loligo.asok of `loligo serve --data DIR`, or that of a client with --admin-socket PATH (or `admin socket` \
in ceph.conf), as in `loligo --admin-socket /tmp/c.asok -p p bench 60 write`. Several are shown as one list. Per class of locks: how often and how long \
threads waited and where, and who held the lock; in the columns of Linux's /proc/lock_stat (times in microseconds), as JSON or \
for Prometheus (--format). How long locks were held is measured in the modes full (one in eight) and exact:

  ceph --admin-daemon SOCKET lock_stat mode off|contended|full|exact
  ceph --admin-daemon SOCKET lock_stat reset";

const OPS: &str = "\
Show what operations a running program has in flight, and which of a server's took longest of late.

Asks at an admin socket: DIR/loligo.asok of `loligo serve --data DIR`, or that of a client with --admin-socket PATH (or `admin socket` \
in ceph.conf), as in `loligo --admin-socket /tmp/c.asok -p p bench 60 write`; or at the control socket of `loligo nbd serve`. Those of stock OSDs and clients answer, too. Of a client's \
operations: how old each is, where it goes, how often it was sent, and what it waits for. Of a server's: who asked, how long it \
takes, and how far it has come. --format json has all that the program tells, the events of each operation as well.";

/// Objects in Ceph pools, and a Ceph-compatible server in one process.
#[derive(Parser)]
#[command(name = "loligo", version, after_help = SHARED_OPTIONS, max_term_width = 120)]
pub(crate) struct Cli {
    /// The pool; `serve` makes it, and takes several.
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) pool: Vec<String>,

    /// The namespace within the pool.
    #[arg(short = 'N', long, global = true, default_value = "", hide_default_value = true)]
    pub(crate) namespace: Name,

    /// Read objects as they were at this snapshot of the pool.
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) snap: Option<Name>,

    /// Read objects as they were at the snapshot of this number.
    #[arg(long, global = true, value_name = "NUMBER", conflicts_with = "snap")]
    pub(crate) snapid: Option<u64>,

    /// Make the pool first, which must not be there.
    #[arg(long, global = true)]
    pub(crate) create: bool,

    /// Objects lie where this name would: what `ls` shows behind an object's. For commands on objects.
    #[arg(long, global = true, alias = "object_locator", value_name = "NAME")]
    pub(crate) object_locator: Option<Name>,

    /// How results are printed.
    #[arg(long, global = true, value_enum, default_value_t = FormatName::Plain)]
    pub(crate) format: FormatName,

    /// Values for programs over several lines.
    #[arg(long, global = true)]
    pub(crate) pretty_format: bool,

    /// Write when each operation was new, queued, acked and done into this file, for `loligo trace`, Perfetto
    /// and Chrome.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What `--format` may say.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatName {
    /// For people.
    #[value(aliases = ["text", "table"])]
    Plain,
    /// For programs.
    Json,
    /// The same over several lines.
    JsonPretty,
    /// As Ceph's programs write XML; for commands that talk to a cluster.
    Xml,
    /// The same over several lines.
    XmlPretty,
    /// For Prometheus; only `lockstat` has it.
    Prometheus,
    /// A page with charts; only `contend` has it.
    Html,
}

/// How all commands but `lockstat` and `contend` print their results.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Plain,
    Json,
    JsonPretty,
    Xml,
    XmlPretty,
}

impl FormatName {
    /// For commands that talk to a cluster; `None` for what only other commands have.
    pub(crate) fn of_client(self, pretty: bool) -> Option<Format> {
        Some(match (self, pretty) {
            (Self::Plain, _) => Format::Plain,
            (Self::Json, false) => Format::Json,
            (Self::Json | Self::JsonPretty, _) => Format::JsonPretty,
            (Self::Xml, false) => Format::Xml,
            (Self::Xml | Self::XmlPretty, _) => Format::XmlPretty,
            (Self::Prometheus | Self::Html, _) => return None,
        })
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start a server, move files in and out, measure, and show who waited for whose lock.
    Demo,
    /// Run a Ceph-compatible server: monitor and OSD in one process.
    Serve(Serve),
    /// Look for damage in the directory of a server that does not run. Status 1 if there is any, or any is
    /// left.
    Fsck {
        /// Where its data is: what `serve --data` was told.
        dir: PathBuf,
        /// Mend what can be mended without inventing data, and take out what nobody can read, into
        /// DIR/lost+found.
        #[arg(long)]
        repair: bool,
    },
    /// List the pools.
    Lspools,
    /// Show how much the cluster and its pools hold, or one pool (-p); or what a directory holds whose server
    /// does not run.
    Df {
        /// Where its data is: what `serve --data` was told.
        dir: Option<PathBuf>,
    },
    /// List the objects of a pool.
    Ls {
        /// In all namespaces.
        #[arg(long)]
        all: bool,
    },
    /// List the placement groups of a pool in which scrubs have found damage.
    ListInconsistentPg {
        #[arg(value_name = "POOL")]
        scrubbed: String,
    },
    /// List the objects of a placement group that scrubs have found damaged.
    ListInconsistentObj { pgid: String },
    /// List the objects of a placement group whose snapshots scrubs have found damaged.
    ListInconsistentSnapset { pgid: String },
    /// Remove all objects of a pool, of all namespaces; the pool stays.
    Purge {
        #[arg(value_name = "POOL")]
        purged: String,
        /// Nothing brings them back.
        #[arg(long)]
        yes_i_really_really_mean_it: bool,
    },
    /// Copy all objects of a pool, of all namespaces, into another pool: data, attributes, maps and locators.
    ///
    /// Not copied are snapshots, watches, times of modification, allocation hints, and what the pool itself
    /// is set to. Objects that are written meanwhile may be copied in a state between.
    Cppool {
        #[arg(value_name = "POOL")]
        copied: String,
        #[arg(value_name = "DESTINATION")]
        destination: String,
        /// Copy a pool with snapshots of its clients' own (images, for one), which the copy lacks.
        #[arg(long)]
        yes_i_really_mean_it: bool,
    },
    /// Write all objects of the pool, of all namespaces, into a file, in the format of `rados export`.
    Export {
        /// The file; - or none is standard output.
        file: Option<PathBuf>,
    },
    /// Read what `export` wrote into the pool.
    Import {
        /// The file; - is standard input.
        file: PathBuf,
        /// Only say what would be written.
        #[arg(long)]
        dry_run: bool,
        /// Leave objects alone that are there already.
        #[arg(long)]
        no_overwrite: bool,
    },
    /// Write a file as an object.
    Put {
        object: Name,
        /// The file; - is standard input.
        file: PathBuf,
        /// Write from this byte on, and leave the rest of the object as it is.
        #[arg(long, value_parser = size)]
        offset: Option<u64>,
        /// Write though the pool or the cluster is full; not everybody may.
        #[arg(long)]
        force_full: bool,
    },
    /// Read an object into a file.
    Get {
        object: Name,
        /// The file; - is standard output.
        file: PathBuf,
        /// Read from this byte on.
        #[arg(long, value_parser = size, default_value = "0")]
        offset: u64,
    },
    /// Write a file at the end of an object.
    Append {
        object: Name,
        /// The file; - is standard input.
        file: PathBuf,
    },
    /// Make an empty object, which must not exist.
    Create { object: Name },
    /// Remove objects.
    Rm {
        #[arg(required = true)]
        objects: Vec<Name>,
        /// Remove though the pool or the cluster is full; not everybody may.
        #[arg(long)]
        force_full: bool,
    },
    /// Show an object's size and modification time.
    #[command(alias = "stat2")]
    Stat { object: Name },
    /// Set an object's time of modification, to now, or to a number of seconds since 1970; the object is made
    /// if there is none.
    Touch { object: Name, timestamp: Option<u64> },
    /// Show which parts of an object hold something: offset and length, in hexadecimal.
    Mapext { object: Name },
    /// Tell the store how large an object and writes to it will be.
    SetAllocHint {
        object: Name,
        #[arg(value_parser = size)]
        expected_object_size: u64,
        #[arg(value_parser = size)]
        expected_write_size: u64,
    },
    /// Set an object's size.
    Truncate { object: Name, size: u64 },
    /// Set an extended attribute; without VALUE it is read from standard input.
    Setxattr { object: Name, name: Name, value: Option<Name> },
    /// Print an extended attribute.
    Getxattr { object: Name, name: Name },
    /// Remove an extended attribute.
    Rmxattr { object: Name, name: Name },
    /// List the extended attributes.
    Listxattr { object: Name },
    /// Make an object what another one is, with its attributes and its map.
    Cp {
        source: Name,
        destination: Name,
        /// The pool of the destination, if it is another one.
        #[arg(long, value_name = "POOL")]
        target_pool: Option<String>,
    },
    /// List the keys of an object's map.
    Listomapkeys { object: Name },
    /// Show the keys and values of an object's map.
    Listomapvals { object: Name },
    /// Show the value of a key of an object's map.
    Getomapval {
        object: Name,
        /// A key, and a file to which its value is written; - is standard output.
        #[arg(value_names = ["KEY", "FILE"], num_args = 0..=2)]
        words: Vec<Name>,
        /// Read the key from this file, and not from the command line.
        #[arg(long, value_name = "FILE")]
        omap_key_file: Option<PathBuf>,
    },
    /// Set a key of an object's map; without VALUE it is read from standard input.
    Setomapval {
        object: Name,
        /// A key, and its value.
        #[arg(value_names = ["KEY", "VALUE"], num_args = 0..=2)]
        words: Vec<Name>,
        /// Read the key from this file, and not from the command line.
        #[arg(long, value_name = "FILE")]
        omap_key_file: Option<PathBuf>,
        /// Read the value from this file.
        #[arg(long, value_name = "FILE")]
        input_file: Option<PathBuf>,
    },
    /// Remove keys of an object's map.
    Rmomapkey {
        object: Name,
        #[arg(required_unless_present = "omap_key_file")]
        keys: Vec<Name>,
        /// Read a key from this file.
        #[arg(long, value_name = "FILE")]
        omap_key_file: Option<PathBuf>,
    },
    /// Show the header of an object's map.
    Getomapheader {
        object: Name,
        /// Write it to this file; - is standard output.
        file: Option<PathBuf>,
    },
    /// Set the header of an object's map; without VALUE it is read from standard input.
    Setomapheader { object: Name, value: Option<Name> },
    /// Remove all keys and the header of an object's map.
    Clearomap { object: Name },
    /// List the pool's snapshots.
    Lssnap,
    /// Make a snapshot of the pool.
    Mksnap { name: String },
    /// Remove a snapshot of the pool.
    Rmsnap { name: String },
    /// Show what an object was at its snapshots.
    Listsnaps { object: Name },
    /// Make an object what it was at a snapshot of the pool.
    Rollback { object: Name, name: Name },
    /// Watch an object, which must exist: show what is notified on it, and answer with the same, until a line
    /// is entered.
    Watch { object: Name },
    /// Notify those who watch an object, and show what they answer.
    Notify { object: Name, message: Name },
    /// List who watches an object.
    Listwatchers { object: Name },
    /// Advisory locks on objects.
    #[command(subcommand)]
    Lock(Lock),
    /// Files of any size, striped over objects as `rados --striper` does it.
    #[command(subcommand)]
    File(FileCommand),
    /// Images of block devices, as `rbd` has them.
    #[command(subcommand)]
    Rbd(RbdCommand),
    /// Block devices over the NBD protocol.
    #[command(subcommand)]
    Nbd(NbdCommand),
    /// Measure the pool.
    Bench(Bench),
    /// Remove what a bench left behind; that of one that was interrupted, too.
    ///
    /// A run that ended with --no-cleanup has told which objects it wrote. Where none has, all objects of
    /// this machine's runs are looked for and removed.
    Cleanup {
        /// The run's name.
        #[arg(long)]
        run_name: Option<String>,
        /// Look for objects whose names begin so, and remove them; it must begin with benchmark_data.
        #[arg(long, conflicts_with = "run_name")]
        prefix: Option<String>,
        /// In all namespaces, where this machine's objects are looked for.
        #[arg(long)]
        all: bool,
    },
    /// Read and write at random, at a given rate, in objects of random size, which are removed in the end.
    LoadGen(LoadGen),
    /// Show who waits for whose lock in running programs.
    #[command(long_about = LOCKSTAT)]
    Lockstat(Lockstat),
    /// Show what operations a running program has in flight, and which of a server's took longest of late.
    #[command(long_about = OPS)]
    Ops(OpsOptions),
    /// Show what the operations of a command waited for that had --trace, or draw how they overlap.
    Trace(TraceOptions),
    /// Ask about options of the configuration.
    #[command(subcommand, disable_help_subcommand = true)]
    Config(ConfigCommand),
    /// Measure published contention cases, before and after, on this machine.
    Contend(Contend),
    /// Print a completion script for a shell.
    Completions { shell: Shell },
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show an option's type, default and bounds, and whether it acts in this program.
    Help {
        /// As in ceph.conf or on the command line.
        option: String,
    },
    /// List the options that act in this program, or all that are known.
    Ls {
        /// Those without effect, too.
        #[arg(long)]
        all: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum Lock {
    /// List an object's locks.
    List { object: Name },
    /// Show who holds a lock.
    Info { object: Name, name: Name },
    /// Take a lock. It is kept when this program ends.
    Get {
        object: Name,
        name: Name,
        /// Exclusive, or shared with whoever names the same tag.
        #[arg(long, value_parser = PossibleValuesParser::new(["exclusive", "shared"]), default_value = "exclusive")]
        lock_type: String,
        /// Tells one holding of a client from another.
        #[arg(long, default_value = "", hide_default_value = true)]
        lock_cookie: Name,
        /// What who shares the lock must name.
        #[arg(long, default_value = "", hide_default_value = true)]
        lock_tag: Name,
        /// For people.
        #[arg(long, default_value = "", hide_default_value = true)]
        lock_description: Name,
        /// Seconds for which it is held; 0: until it is given up.
        #[arg(long, default_value_t = 0)]
        lock_duration: u32,
    },
    /// Take a lock away from whoever holds it.
    Break {
        object: Name,
        name: Name,
        /// Whoever holds it, as `info` names it: client.NUMBER.
        locker: String,
        /// Its cookie.
        #[arg(long, default_value = "", hide_default_value = true)]
        lock_cookie: Name,
    },
}

#[derive(clap::Args)]
pub(crate) struct Serve {
    /// Where the cluster's id, keys, pools and settings are kept, and ceph.conf and keyring for clients are
    /// written.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// What keeps the objects.
    #[arg(long, value_enum, default_value_t = Store::Disk)]
    pub(crate) store: Store,
    /// Where the monitor listens; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:3300")]
    pub(crate) mon_addr: SocketAddr,
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

#[derive(clap::Args)]
pub(crate) struct Lockstat {
    /// Admin sockets, of servers or clients; the locks of several processes are shown as one list.
    #[arg(required = true)]
    pub(crate) sockets: Vec<PathBuf>,
    /// Show it each second, those who waited longest in total first.
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// On disk, in the same directory.
    Disk,
    /// In memory: gone when the server stops.
    Memory,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthMethod {
    /// By a key.
    Cephx,
    /// Not at all.
    None,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthCipher {
    /// AES-128: all releases of Ceph know it.
    Aes,
    /// AES-256 with HMAC-SHA-384: what 19.2.6, 20.2.4 and later make; older programs cannot read it.
    Aes256k,
}

#[derive(clap::Args)]
pub(crate) struct Bench {
    /// How long.
    pub(crate) seconds: u64,
    /// What to do: write new objects, read back the objects of the last write run in order or at random.
    #[arg(value_enum)]
    pub(crate) mode: Mode,
    /// Bytes of an operation.
    #[arg(short, long, value_parser = size, default_value = "4M")]
    pub(crate) block_size: u64,
    /// Bytes of an object, if not those of an operation; reads take what the write run had.
    #[arg(short = 'O', long, value_parser = size)]
    pub(crate) object_size: Option<u64>,
    /// Write no more objects than so many; 0 is no limit.
    #[arg(long, default_value_t = 0)]
    pub(crate) max_objects: u64,
    /// Write into the objects' data; the default, if neither of the following is given.
    #[arg(long)]
    pub(crate) write_object: bool,
    /// Write into the objects' maps.
    #[arg(long)]
    pub(crate) write_omap: bool,
    /// Write into the objects' extended attributes.
    #[arg(long)]
    pub(crate) write_xattr: bool,
    /// Operations in flight.
    #[arg(short = 't', long = "concurrent-ios", default_value_t = 16)]
    pub(crate) depth: usize,
    /// Threads that submit them.
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// Leave the written objects for a later read run.
    #[arg(long)]
    pub(crate) no_cleanup: bool,
    /// Names the run, so that several can be kept apart.
    #[arg(long)]
    pub(crate) run_name: Option<String>,
    /// Write the results into this file. Needs --format json.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct LoadGen {
    /// Objects.
    #[arg(long, default_value_t = 200)]
    pub(crate) num_objects: u32,
    /// Bytes of an object at least.
    #[arg(long, value_parser = size, default_value = "1K")]
    pub(crate) min_object_size: u64,
    /// Bytes of an object at most.
    #[arg(long, value_parser = size, default_value = "64M")]
    pub(crate) max_object_size: u64,
    /// Bytes of an operation at least.
    #[arg(long, value_parser = size, default_value = "1K")]
    pub(crate) min_op_len: u64,
    /// Bytes of an operation at most.
    #[arg(long, value_parser = size, default_value = "2M")]
    pub(crate) max_op_len: u64,
    /// Operations under way at most.
    #[arg(long, default_value_t = 16)]
    pub(crate) max_ops: usize,
    /// Bytes under way at most.
    #[arg(long, value_parser = size, default_value = "10M")]
    pub(crate) max_backlog: u64,
    /// How many in a hundred operations read.
    #[arg(long, default_value_t = 50)]
    pub(crate) read_percent: u64,
    /// Bytes a second at most.
    #[arg(long, value_parser = size, default_value = "5M")]
    pub(crate) target_throughput: u64,
    /// Seconds.
    #[arg(long, default_value_t = 60)]
    pub(crate) run_length: u64,
    /// Operations begin at multiples of this.
    #[arg(long, value_parser = size, default_value = "1")]
    pub(crate) offset_align: u64,
}

#[derive(clap::Args)]
pub(crate) struct Contend {
    /// Which ones (default: all).
    #[arg(value_name = "CASE", value_parser = PossibleValuesParser::new(case_names()))]
    pub(crate) cases: Vec<String>,
    /// Rounds; a figure is their median.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
    /// How long each run of either form takes.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// Write to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

fn case_names() -> Vec<&'static str> {
    loligo_contend::cases().iter().map(|case| case.name()).collect()
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    Write,
    Seq,
    Rand,
}

/// A number of bytes: `4096`, `4K`, `16M`, `1G`.
fn osd_count(text: &str) -> Result<OsdCount, String> {
    let count = text.parse().ok().and_then(OsdCount::new);
    count.ok_or_else(|| format!("a number from 1 to {} is needed", OsdCount::MAX))
}

pub(crate) fn size(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let unit_at = upper.find(|c: char| !c.is_ascii_digit()).unwrap_or(upper.len());
    let (number, unit) = upper.split_at(unit_at);
    let shift = match unit {
        "" | "B" => Some(0),
        _ => {
            let power = unit.chars().next().and_then(|letter| "KMGT".find(letter));
            let is_whole = matches!(unit.get(1..), Some("" | "B" | "IB"));
            power.filter(|_| is_whole).map(|power| 10 * (power + 1))
        }
    };
    let bytes = number.parse::<u64>().ok().zip(shift).and_then(|(n, shift)| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("'{text}' is not a size such as 4096, 4K, 16M or 1G"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4K", 4096),
            ("4kib", 4096),
            ("2MB", 2 << 20),
            ("7b", 7),
            ("3G", 3 << 30),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "4X", "-1", "+4K", "1.5M", "4IB", "4KI", "4KBB", "4KIIB", "4 K", "99999999T"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn contend_takes_its_cases_and_three_formats() {
        for (format, style) in
            [("table", FormatName::Plain), ("json", FormatName::Json), ("html", FormatName::Html)]
        {
            let words =
                ["loligo", "contend", "out-queue", "--format", format, "--rounds", "2", "--seconds", "0.5"];
            let cli = Cli::try_parse_from(words).unwrap_or_else(|e| panic!("{e}"));
            assert!(cli.format == style);
            let Command::Contend(options) = cli.command else { panic!("not contend") };
            assert_eq!(
                (options.cases, options.rounds, options.seconds),
                (vec!["out-queue".to_owned()], 2, 0.5)
            );
        }
        assert!(Cli::try_parse_from(["loligo", "contend", "no-such"]).is_err());
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
