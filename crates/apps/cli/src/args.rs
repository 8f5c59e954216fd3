//! The command line: each family of commands has its own words, and this lists the families.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::bench::{Bench, Cleanup, LoadGen};
use crate::config::ConfigCommand;
use crate::contend::Contend;
use crate::damage::DamageCommand;
use crate::df::Df;
use crate::file::FileCommand;
use crate::fs::FsArgs;
use crate::fsck::Fsck;
use crate::locks::Lock;
use crate::lockstat::Lockstat;
use crate::mount::MountArgs;
use crate::nbd::NbdCommand;
use crate::object::ObjectCommand;
use crate::omap::OmapCommand;
use crate::ops::OpsOptions;
use crate::options::Options;
use crate::ping::Ping;
use crate::pool::PoolCommand;
use crate::rbd::RbdCommand;
use crate::run::Run;
use crate::serve::Serve;
use crate::server::ServerCommand;
use crate::snaps::SnapCommand;
use crate::timeline::TraceOptions;
use crate::watch::WatchCommand;

// Re-exported for the families of commands.
pub(crate) use crate::format::Format;
pub(crate) use crate::values::size;

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

/// Read and write objects, files and disk images in a Ceph cluster, or run a server that Ceph's programs use.
#[derive(Parser)]
#[command(name = "loligo", version, after_help = SHARED_OPTIONS, max_term_width = 120)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Object(ObjectCommand),
    #[command(flatten)]
    Omap(OmapCommand),
    #[command(flatten)]
    Snap(SnapCommand),
    #[command(flatten)]
    Watch(WatchCommand),
    /// Advisory locks on objects.
    #[command(subcommand)]
    Lock(Lock),
    #[command(flatten)]
    Pool(PoolCommand),
    #[command(flatten)]
    Damage(DamageCommand),
    /// Show how much the cluster and its pools hold, or one pool (-p); or what a directory holds whose server
    /// does not run.
    Df(Df),
    /// Files of any size, striped over objects as `rados --striper` does it.
    #[command(subcommand)]
    File(FileCommand),
    /// Files and directories of CephFS, without a mount.
    Fs(FsArgs),
    Mount(MountArgs),
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
    Cleanup(Cleanup),
    /// Read and write at random, at a given rate, in objects of random size, which are removed in the end.
    LoadGen(LoadGen),
    /// Ask a monitor and an OSD of the cluster, and show how long their answers take. Status 1 if one of them
    /// does not answer.
    Ping(Ping),
    /// Run a Ceph-compatible server: monitor and OSD in one process.
    Serve(Serve),
    /// Save, restore or reset the whole state of a running server in memory.
    #[command(subcommand)]
    Server(ServerCommand),
    /// Look for damage in the directory of a server that does not run. Status 1 if there is any, or any is
    /// left.
    Fsck(Fsck),
    /// Start a server, move files in and out, measure, and show who waited for whose lock.
    Demo,
    /// Run a program on Loligo's own librados, librbd and libradosstriper, instead of Ceph's.
    Run(Run),
    /// Show who waits for whose lock in running programs.
    #[command(long_about = LOCKSTAT)]
    Lockstat(Lockstat),
    /// Show what operations a running program has in flight, and which of a server's took longest of late.
    #[command(long_about = OPS)]
    Ops(OpsOptions),
    /// Show what the operations of a command waited for that had --trace, or draw how they overlap.
    Trace(TraceOptions),
    /// Measure published contention cases, before and after, on this machine.
    Contend(Contend),
    /// Ask about options of the configuration.
    #[command(subcommand, disable_help_subcommand = true)]
    Config(ConfigCommand),
    /// Print a completion script for a shell.
    Completions {
        shell: Shell,
    },
    /// Write the manual pages, one for each command, into a folder that exists.
    Manual {
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::format::FormatName;

    #[test]
    fn contend_takes_its_cases_and_three_formats() {
        for (format, style) in
            [("table", FormatName::Plain), ("json", FormatName::Json), ("html", FormatName::Html)]
        {
            let words =
                ["loligo", "contend", "out-queue", "--format", format, "--rounds", "2", "--seconds", "0.5"];
            let cli = Cli::try_parse_from(words).unwrap_or_else(|e| panic!("{e}"));
            assert!(cli.options.format == style);
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
