//! The options that have an effect in this project, and their effects.

/// The options that have an effect, by name, with a description. All other options of Ceph are known and
/// checked by their type, but have no effect.
const ACTS: &[(&str, &str)] = &[
    ("admin_socket", "opens a socket there at which the running program answers 'ceph --admin-daemon'"),
    ("auth_client_required", "says how the client may prove who it is: cephx, none or both"),
    ("auth_supported", "replaces auth_client_required"),
    ("client_acl_type", "if posix_acl, access control lists of CephFS count"),
    ("client_dirsize_rbytes", "says whether a directory's size on a mount is that of all files below it"),
    ("client_fs", "is the file system of 'loligo fs' and 'loligo mount'"),
    ("client_mds_namespace", "is an older name of client_fs"),
    ("client_mount_timeout", "bounds how long connecting to the cluster takes"),
    ("client_mountpoint", "is the directory of the file system that 'loligo mount' mounts"),
    ("client_oc", "if false, 'loligo mount' keeps no data in memory"),
    ("client_oc_size", "bounds the data that 'loligo mount' keeps in memory"),
    ("client_permissions", "says whether the client of CephFS checks permissions"),
    ("client_quota", "says whether the client of CephFS keeps quotas"),
    ("client_quota_df", "says whether a directory's quota is shown as the size of the file system"),
    ("crush_location", "says where this machine is, for reads of the nearest copy"),
    ("debug_asok", LEVEL),
    ("debug_auth", LEVEL),
    ("debug_bluestore", LEVEL),
    ("debug_client", LEVEL),
    ("debug_mon", LEVEL),
    ("debug_monc", LEVEL),
    ("debug_ms", LEVEL),
    ("debug_msgr", LEVEL),
    ("debug_none", LEVEL),
    ("debug_objecter", LEVEL),
    ("debug_osd", LEVEL),
    ("debug_paxos", LEVEL),
    ("debug_store", LEVEL),
    ("err_to_stderr", "sends the log's errors to standard error as well, where the log is a file"),
    ("key", "is the key to prove who the client is"),
    ("keyfile", "names a file with the key"),
    ("keyring", "names the keyrings; the first readable one is used"),
    ("log_file", "names the file of the log; - is standard error"),
    ("log_to_file", "if false, log_file is not written"),
    (
        "log_to_stderr",
        "if true, the log goes to standard error where no file is named; if false, it does not",
    ),
    ("mgr_connect_retry_interval", "is the time between attempts to reach a manager"),
    ("mon_client_hunt_interval", "is the time after which another monitor is tried"),
    ("mon_dns_srv_name", "is the DNS service that lists the monitors where mon_host does not"),
    ("mon_host", "says where the monitors are"),
    ("ms_bind_msgr1", "has 'loligo serve' listen for clients of version 1 of the messenger, too"),
    ("ms_bind_msgr2", "if false, 'loligo serve' listens for version 1 of the messenger alone"),
    ("ms_bind_port_max", "is the last port at which daemons of 'loligo serve' other than the monitor listen"),
    ("ms_bind_port_min", "is the first such port; if neither is set, they listen at any free one"),
    ("ms_client_mode", "says whether connections to OSDs and managers are encrypted: secure, crc or both"),
    ("ms_compress_secure", "compresses encrypted connections, too"),
    ("ms_mon_client_mode", "says whether connections to monitors are encrypted: secure, crc or both"),
    ("ms_osd_compress_min_size", "is the size from which frames are compressed"),
    ("ms_osd_compress_mode", "compresses connections to OSDs if it is 'force'"),
    ("ms_osd_compression_algorithm", "lists the methods of compression, best first"),
    ("no_config_file", "has no configuration file read"),
    ("objecter_inflight_op_bytes", "bounds the bytes of operations in flight"),
    ("objecter_inflight_ops", "bounds the operations in flight"),
    ("rados_mon_op_timeout", "bounds how long a request to the monitors takes; 0: for ever"),
    ("rados_osd_op_timeout", "bounds how long an operation on objects takes; 0: for ever"),
    ("rbd_default_clone_format", "is the version of clones that are made: 1, 2 or auto"),
    ("rbd_default_data_pool", "is the pool for the data of new images"),
    ("rbd_default_features", "are the features of new images: a number, or names"),
    ("rbd_default_format", "is the format of new images; only 2 is made, 1 is refused"),
    ("rbd_default_order", "is the size of new images' objects, as a power of two"),
    ("rbd_default_pool", "is the pool of images where none is named"),
    ("rbd_default_stripe_count", "is over how many objects a stripe of a new image goes"),
    ("rbd_default_stripe_unit", "is the size of a new image's pieces of a stripe"),
    ("rbd_discard_granularity_bytes", "is what a discard of the C libraries releases, at least"),
    (
        "rbd_move_parent_to_trash_on_remove",
        "puts an image into the trash that is to be removed, and whose snapshots have clones",
    ),
    ("rbd_move_to_trash_on_remove", "puts images into the trash that are to be removed"),
    ("rbd_move_to_trash_on_remove_expire_seconds", "is how long such images are kept there"),
    ("rbd_skip_partial_discard", "if false, the C libraries release parts of any size"),
    ("rbd_validate_pool", "looks at a pool before its first image: whether it can be written over"),
    ("setgroup", "is the group that the program becomes before it does anything, if it is root"),
    ("setuser", "is the user that the program becomes before it does anything, if it is root"),
];

const LEVEL: &str = "is how much of this part is logged, and how much is kept for a crash: N or N/M";

/// Returns the effect of an option; `None` if it has none, or if there is no such option.
pub(super) fn of(name: &str) -> Option<&'static str> {
    ACTS.binary_search_by_key(&name, |(name, _)| name).ok().map(|at| ACTS[at].1)
}

/// The names of the options that have an effect.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ACTS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order() {
        assert!(ACTS.is_sorted_by_key(|(name, _)| *name));
        assert!(of("rbd_default_order").is_some() && of("rbd_cache").is_none() && of("nosuch").is_none());
    }
}
