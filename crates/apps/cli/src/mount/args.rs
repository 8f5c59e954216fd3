//! The command line of `loligo mount`.

use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "\
Options of -o, as mount.ceph and ceph-fuse name them:
  fs=NAME, mds_namespace=NAME   the file system, where the cluster has several
  name=ID                       mount as client.ID (default: admin)
  secret=KEY, secretfile=FILE   its key (else the keyring); the former goes from the list of processes at once
  conf=FILE                     the configuration file;  ceph.OPTION=VALUE  any option in it
  mon_addr=LIST                 the monitors, separated by '/'
  ms_mode=crc|secure|prefer-crc|prefer-secure
  mount_timeout=SECONDS         how long to wait for monitors and metadata servers
  ro, rw, noatime, noexec, dev, suid
  allow_other, noallow_other    other users are let in, or not (default: if root mounts)
  default_permissions, nodefault_permissions
                                the kernel checks permissions (default), or this program
  acl, noacl                    access control lists count, or not (default: client_acl_type)
  rbytes, norbytes              a directory's size is that of all files below it (default), or the number of
                                its entries
  dcache, nodcache              the kernel keeps names, attributes and data as long as the metadata servers
                                allow (default), or never

Examples:
  loligo mount /mnt
  loligo mount home:/alice /home/alice -o name=alice,ro
  umount /home/alice

In /etc/fstab, with a link /sbin/mount.fuse.loligo to this program:
  home:/alice  /home/alice  fuse.loligo  name=alice,_netdev  0 0";

/// Mount a directory of CephFS.
///
/// Returns when it is mounted. `umount DIR` ends it and makes durable what is not yet.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MountArgs {
    /// FS:/PATH or /PATH in the cluster (default: the root of the default file system), and a directory.
    #[arg(required = true, num_args = 1..=2, value_names = ["[FS:/PATH] DIR"])]
    pub(crate) places: Vec<PathBuf>,
    /// Mount options, separated by commas; see below.
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub(crate) options: Vec<String>,
    /// Stay in the foreground; SIGINT and SIGTERM unmount.
    #[arg(short = 'f', long)]
    pub(crate) foreground: bool,
}
