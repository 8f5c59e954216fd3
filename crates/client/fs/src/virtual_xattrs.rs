//! The virtual extended attributes by which CephFS shows and changes layouts, quotas, pins and
//! statistics. This client knows those that stock clients know; others are asked of the server.

use std::fmt::Write as _;

use loligo_wire::message::mds::Quota;
use loligo_wire::{Caps, PoolId};

use crate::inode::{Attrs, mode};
use crate::mount::FileSystem;

/// The beginning of virtual attributes' names.
pub(crate) const VIRTUAL: &[u8] = b"ceph.";

/// The number that a server says for "no pin", where it does not say −1.
const NO_PIN: i32 = -61;

/// A virtual attribute that this client shows itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Virtual<'a> {
    /// The name without its beginning.
    name: &'a str,
    /// What must be known to show it.
    pub(crate) needs: Caps,
    pub(crate) is_read_only: bool,
}

impl<'a> Virtual<'a> {
    /// Returns the attribute of a name, if what has this mode has such a one.
    pub(crate) fn of(file_mode: u32, name: &'a [u8]) -> Option<Self> {
        let name = str::from_utf8(name.strip_prefix(VIRTUAL)?).ok()?;
        let is_dir = file_mode & mode::TYPE == mode::DIRECTORY;
        let is_file = file_mode & mode::TYPE == mode::REGULAR;
        let here = |needs, is_read_only| Some(Self { name, needs, is_read_only });
        match name {
            "cluster_fsid" | "client_id" => here(Caps::NONE, true),
            "snap.btime" | "caps" if is_dir || is_file => here(Caps::NONE, true),
            "dir.entries" | "dir.files" | "dir.subdirs" if is_dir => here(Caps::FILE_SHARED, true),
            "dir.rentries" | "dir.rfiles" | "dir.rsubdirs" | "dir.rsnaps" | "dir.rbytes" | "dir.rctime"
                if is_dir =>
            {
                here(Caps::STAT_RECURSIVE, true)
            }
            "quota" | "quota.max_bytes" | "quota.max_files" | "dir.pin" | "mirror.info" if is_dir => {
                here(Caps::NONE, false)
            }
            _ => {
                let prefix = if is_dir { "dir.layout" } else { "file.layout" };
                let part = name.strip_prefix(prefix).filter(|_| is_dir || is_file)?;
                is_layout_part(part).then_some(Self { name, needs: Caps::NONE, is_read_only: false })
            }
        }
    }

    /// Returns `true` if setting it may need a pool that the monitors made just now.
    pub(crate) fn names_pool(self) -> bool {
        self.name.ends_with(".layout") || self.name.ends_with(".layout.pool")
    }

    /// Returns `true` for a limit.
    pub(crate) fn is_quota(self) -> bool {
        self.name.starts_with("quota")
    }
}

fn is_layout_part(part: &str) -> bool {
    ["", ".stripe_unit", ".stripe_count", ".object_size", ".pool", ".pool_namespace"].contains(&part)
}

/// What a value is made of.
pub(crate) struct Source<'a> {
    pub(crate) attrs: &'a Attrs,
    /// The capabilities that are held now.
    pub(crate) issued: Caps,
    /// A limit counts: servers that make no realm for it do not tell of what is used.
    pub(crate) has_quota_realm: bool,
}

impl FileSystem {
    /// Returns the value of a virtual attribute; `None` if there is none.
    pub(crate) fn virtual_value(&self, of: Virtual<'_>, source: &Source<'_>) -> Option<String> {
        let attrs = source.attrs;
        match of.name {
            "cluster_fsid" => Some(self.rados().fsid().to_string()),
            "client_id" => Some(format!("client{}", self.rados().instance_id())),
            "caps" => Some(format!("{}/{:#x}", source.issued, source.issued.0)),
            "snap.btime" => {
                let time = attrs.snap_btime;
                (time.sec > 0 || time.nsec > 0).then(|| format!("{}.{:09}", time.sec, time.nsec))
            }
            "mirror.info" => mirror_value(attrs),
            name => {
                if let Some(rest) = name.strip_prefix("quota") {
                    return quota_value(attrs.quota, rest).filter(|_| source.has_quota_realm);
                }
                let layout = name.strip_prefix("dir.layout").or_else(|| name.strip_prefix("file.layout"));
                match layout {
                    Some(part) => layout_value(attrs, &self.pool_name(attrs.layout.pool), part),
                    None => dir_value(attrs, name.strip_prefix("dir.")?),
                }
            }
        }
    }

    /// Returns a pool's name, or its number if it has none any more.
    pub(crate) fn pool_name(&self, pool: PoolId) -> String {
        let pools = self.rados().pools();
        pools.into_iter().find(|(id, _)| *id == pool).map_or_else(|| pool.to_string(), |(_, name)| name)
    }
}

fn layout_value(attrs: &Attrs, pool: &str, part: &str) -> Option<String> {
    let raw = attrs.layout;
    if raw.object_size == 0 {
        // A directory without a layout of its own.
        return None;
    }
    let namespace = attrs.pool_ns.to_string();
    Some(match part {
        "" => {
            let mut all = format!(
                "stripe_unit={} stripe_count={} object_size={} pool={pool}",
                raw.stripe_unit, raw.stripe_count, raw.object_size
            );
            if !namespace.is_empty() {
                let _ = write!(all, " pool_namespace={namespace}");
            }
            all
        }
        ".stripe_unit" => raw.stripe_unit.to_string(),
        ".stripe_count" => raw.stripe_count.to_string(),
        ".object_size" => raw.object_size.to_string(),
        ".pool" => pool.to_owned(),
        ".pool_namespace" => namespace,
        _ => return None,
    })
}

fn dir_value(attrs: &Attrs, name: &str) -> Option<String> {
    let all = attrs.recursive;
    Some(match name {
        "entries" => attrs.files.saturating_add(attrs.subdirs).to_string(),
        "files" => attrs.files.to_string(),
        "subdirs" => attrs.subdirs.to_string(),
        "rentries" => all.rfiles.saturating_add(all.rsubdirs).to_string(),
        "rfiles" => all.rfiles.to_string(),
        "rsubdirs" => all.rsubdirs.to_string(),
        "rsnaps" => all.rsnaps.to_string(),
        "rbytes" => all.rbytes.to_string(),
        "rctime" => format!("{}.{:09}", all.rctime.sec, all.rctime.nsec),
        "pin" if attrs.dir_pin != NO_PIN => attrs.dir_pin.to_string(),
        _ => return None,
    })
}

fn quota_value(quota: Quota, part: &str) -> Option<String> {
    let Quota { max_bytes, max_files } = quota;
    if max_bytes == 0 && max_files == 0 {
        return None;
    }
    Some(match part {
        "" => format!("max_bytes={max_bytes} max_files={max_files}"),
        ".max_bytes" => max_bytes.to_string(),
        ".max_files" => max_files.to_string(),
        _ => return None,
    })
}

/// Where a directory is mirrored from: two attributes that the server stores as such.
fn mirror_value(attrs: &Attrs) -> Option<String> {
    let of = |name: &str| attrs.xattrs.0.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value));
    let cluster = of("ceph.mirror.info.cluster_id")?;
    let fs = of("ceph.mirror.info.fs_id").unwrap_or_default();
    Some(format!("cluster_id={cluster} fs_id={fs}"))
}

#[cfg(test)]
mod tests {
    use loligo_wire::message::mds::FileLayout;

    use super::*;

    const DIR: u32 = mode::DIRECTORY;
    const FILE: u32 = mode::REGULAR;

    #[test]
    fn each_kind_has_its_attributes() {
        let of = |mode, name: &'static str| Virtual::of(mode, name.as_bytes());
        for (mode, name, read_only) in [
            (DIR, "ceph.dir.rbytes", true),
            (DIR, "ceph.dir.pin", false),
            (DIR, "ceph.dir.layout.pool", false),
            (DIR, "ceph.quota", false),
            (FILE, "ceph.file.layout", false),
            (FILE, "ceph.caps", true),
            (0o120_000, "ceph.client_id", true),
        ] {
            assert_eq!(of(mode, name).expect(name).is_read_only, read_only, "{name}");
        }
        for (mode, name) in [
            (FILE, "ceph.dir.rbytes"),
            (FILE, "ceph.dir.layout"),
            (DIR, "ceph.file.layout"),
            (FILE, "ceph.quota"),
            (DIR, "ceph.dir.layout.json"),
            (DIR, "user.ceph"),
            (0o120_000, "ceph.file.layout"),
        ] {
            assert_eq!(of(mode, name), None, "{name}");
        }
    }

    #[test]
    fn statistics_are_numbers() {
        let attrs = Attrs { files: 3, subdirs: 2, dir_pin: -1, ..Attrs::default() };
        assert_eq!(dir_value(&attrs, "entries").as_deref(), Some("5"));
        assert_eq!(dir_value(&attrs, "pin").as_deref(), Some("-1"));
        assert_eq!(dir_value(&attrs, "nothing"), None);
        assert_eq!(dir_value(&Attrs { dir_pin: NO_PIN, ..attrs }, "pin"), None);
    }

    #[test]
    fn a_directory_without_a_quota_has_no_such_attribute() {
        assert_eq!(quota_value(Quota::default(), ".max_bytes"), None);
        let quota = Quota { max_bytes: 100, max_files: 0 };
        assert_eq!(quota_value(quota, "").as_deref(), Some("max_bytes=100 max_files=0"));
        assert_eq!(quota_value(quota, ".max_files").as_deref(), Some("0"));
    }

    #[test]
    fn layouts_are_shown_whole_and_in_parts() {
        assert_eq!(layout_value(&Attrs::default(), "data", ""), None);
        let layout = FileLayout { stripe_unit: 1, stripe_count: 2, object_size: 3, ..FileLayout::default() };
        let attrs = Attrs { layout, pool_ns: "space".into(), ..Attrs::default() };
        let whole = layout_value(&attrs, "data", "").expect("there");
        assert_eq!(whole, "stripe_unit=1 stripe_count=2 object_size=3 pool=data pool_namespace=space");
        assert_eq!(layout_value(&attrs, "data", ".stripe_count").as_deref(), Some("2"));
        assert_eq!(layout_value(&attrs, "data", ".json"), None);
    }
}
