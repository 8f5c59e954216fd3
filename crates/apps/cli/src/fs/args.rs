//! The command line of `loligo fs`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::bench::BenchArgs;
use super::layout::LayoutCommand;
use super::lock::LockCommand;
use super::quota::QuotaCommand;
use super::snap::SnapCommand;
use crate::args::size;
use crate::name::Name;

const EXAMPLES: &str = "\
Examples:
  loligo fs ls -l /home
  loligo fs put --recursive --parallel 8 /srv /backup/srv
  loligo fs get /backup/srv/film.mkv /tmp/film.mkv --verify
  loligo fs put -r --resume /srv /backup/srv
  loligo fs snap create /home monday
  loligo fs quota set /home/alice --bytes 100G
  loligo fs find / --name '*.log' --type f
  loligo fs bench 10 write -b 64M -t 1";

/// The command line of `loligo fs`: which file system, and what to do in it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FsArgs {
    /// The file system's name, where the cluster has several (also: client_fs in ceph.conf).
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) fs: Option<String>,
    #[command(subcommand)]
    pub(crate) command: FsCommand,
}

/// Commands of `loligo fs`. Paths begin at the file system's root, with or without a slash.
#[derive(Subcommand)]
pub(crate) enum FsCommand {
    /// List directories.
    Ls {
        /// Directories and files; the root if none is named.
        paths: Vec<Name>,
        /// With type and permissions, links, owner, size and time of modification.
        #[arg(short, long)]
        long: bool,
    },
    /// Show what is known of files and directories.
    Stat {
        #[arg(required = true)]
        paths: Vec<Name>,
        /// Show a symbolic link itself instead of what it leads to.
        #[arg(long)]
        link: bool,
    },
    /// Show how much is in directories, as the metadata servers count it: without reading them.
    Du {
        /// Directories; the root if none is named.
        paths: Vec<Name>,
    },
    /// List a directory and all that is below it.
    Find {
        /// The directory.
        path: Name,
        /// Only names that match this pattern: * is any text, ? any character.
        #[arg(long, value_name = "PATTERN")]
        name: Option<Name>,
        /// Only what is of this type.
        #[arg(long = "type", value_enum)]
        kind: Option<Kind>,
    },
    /// Write files to standard output, one after the other.
    Cat {
        #[arg(required = true)]
        paths: Vec<Name>,
    },
    /// Write a local file into the file system. What a file of the name held before is gone.
    Put {
        /// The local file; - is standard input; a directory with --recursive.
        file: PathBuf,
        /// Its path in the file system.
        path: Name,
        #[command(flatten)]
        transfer: Transfer,
    },
    /// Read a file into a local one.
    Get {
        /// Its path in the file system.
        path: Name,
        /// The local file; - is standard output; a directory with --recursive.
        file: PathBuf,
        #[command(flatten)]
        transfer: Transfer,
    },
    /// Copy a file within the file system.
    Cp {
        source: Name,
        destination: Name,
        /// The data under way at a time.
        #[arg(long, value_parser = size, value_name = "BYTES", default_value = "64M")]
        window: u64,
    },
    /// Move or rename a file or directory.
    Mv { source: Name, destination: Name },
    /// Make directories; in a directory's .snap, snapshots of it.
    Mkdir {
        #[arg(required = true)]
        paths: Vec<Name>,
        /// Also those above that do not exist; one that exists is no error.
        #[arg(long)]
        parents: bool,
        /// The permissions, in octal digits.
        #[arg(long, value_parser = octal, default_value = "755")]
        mode: u32,
    },
    /// Remove files.
    Rm {
        #[arg(required = true)]
        paths: Vec<Name>,
        /// Directories, too, with all that is below.
        #[arg(short, long)]
        recursive: bool,
    },
    /// Remove empty directories; in a directory's .snap, snapshots.
    Rmdir {
        #[arg(required = true)]
        paths: Vec<Name>,
    },
    /// Make a second name for a file, or a symbolic link.
    Ln {
        /// The existing file, or with --symbolic any text.
        target: Name,
        /// The new name.
        path: Name,
        /// Make a symbolic link.
        #[arg(long)]
        symbolic: bool,
    },
    /// Set a file's size: cut it off, or extend it by a hole.
    Truncate {
        path: Name,
        #[arg(value_parser = size)]
        size: u64,
    },
    /// Set permissions.
    Chmod {
        /// The permissions, in octal digits.
        #[arg(value_parser = octal)]
        mode: u32,
        #[arg(required = true)]
        paths: Vec<Name>,
    },
    /// Set the owner and the group.
    Chown {
        /// UID, UID:GID or :GID, in numbers.
        #[arg(value_parser = owner)]
        owner: Owner,
        #[arg(required = true)]
        paths: Vec<Name>,
    },
    /// Set an extended attribute; ceph.dir.layout, ceph.quota.max_bytes and their like change what they name.
    Setxattr { path: Name, attribute: Name, value: Name },
    /// Print an extended attribute; also ceph.dir.rbytes, ceph.file.layout and their like.
    Getxattr { path: Name, attribute: Name },
    /// Remove an extended attribute.
    Rmxattr { path: Name, attribute: Name },
    /// List the extended attributes.
    Listxattr { path: Name },
    /// Measure the file system: data, or names and attributes.
    Bench(BenchArgs),
    /// Snapshots of directories.
    #[command(subcommand)]
    Snap(SnapCommand),
    /// Limits on what is below a directory.
    #[command(subcommand)]
    Quota(QuotaCommand),
    /// How the data of files is laid out over objects.
    #[command(subcommand)]
    Layout(LayoutCommand),
    /// Locks on files.
    #[command(subcommand)]
    Lock(LockCommand),
}

/// Options that `put` and `get` share.
#[derive(Args, Clone, Copy)]
pub(crate) struct Transfer {
    /// A directory and all that is below.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Files of a directory that are under way together.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) parallel: u16,
    /// Read again in the end what was written, and compare the SHA-256.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Bytes of one file under way at most.
    #[arg(long, value_parser = size, value_name = "BYTES", default_value = "64M")]
    pub(crate) window: u64,
    /// Note how far a file is carried, and go on from such a note of the same source (same size and time of
    /// modification): put keeps it in the attribute user.loligo.put, get in .FILE.loligo-get. What is whole
    /// already is not carried again; get gives local files the time of modification for that.
    #[arg(long)]
    pub(crate) resume: bool,
}

/// What `find` is to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    #[value(name = "f")]
    File,
    #[value(name = "d")]
    Directory,
    #[value(name = "l")]
    Link,
}

/// An owner, a group, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
}

fn octal(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| "permissions are octal digits, 7777 at most".to_owned())
}

fn owner(text: &str) -> Result<Owner, String> {
    let (uid, gid) = text.split_once(':').unwrap_or((text, ""));
    let number = |text: &str| match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| format!("'{text}' is no number of a user or group")),
    };
    let owner = Owner { uid: number(uid)?, gid: number(gid)? };
    if owner.uid.or(owner.gid).is_none() { Err("no user and no group".to_owned()) } else { Ok(owner) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_and_modes_are_numbers() {
        assert_eq!(owner("5"), Ok(Owner { uid: Some(5), gid: None }));
        assert_eq!(owner("5:6"), Ok(Owner { uid: Some(5), gid: Some(6) }));
        assert_eq!(owner(":6"), Ok(Owner { uid: None, gid: Some(6) }));
        assert!(owner(":").is_err() && owner("root").is_err());
        assert_eq!(octal("1755"), Ok(0o1755));
        assert!(octal("8").is_err() && octal("17777").is_err());
    }
}
