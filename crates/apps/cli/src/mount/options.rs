//! What `-o` means.

use crate::failure::Failure;

/// What the mount options ask for. What they leave open is decided elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) fs: Option<String>,
    /// The client's name without its type.
    pub(super) name: Option<String>,
    pub(super) conf: Option<String>,
    /// Options of ceph.conf and their values.
    pub(super) settings: Vec<(String, String)>,
    pub(super) read_only: bool,
    pub(super) no_atime: bool,
    pub(super) no_exec: bool,
    pub(super) devices: bool,
    pub(super) suid: bool,
    pub(super) allow_other: Option<bool>,
    pub(super) kernel_checks: Option<bool>,
    pub(super) acls: Option<bool>,
    pub(super) recursive_sizes: Option<bool>,
    pub(super) no_kernel_cache: bool,
}

/// Options that every mount may have, and that ask for nothing, or for what is always so.
const NOTHING: [&str; 19] = [
    "_netdev",
    "async",
    "atime",
    "auto",
    "big_writes",
    "defaults",
    "exec",
    "noauto",
    "nodev",
    "nodiratime",
    "nofail",
    "nonempty",
    "nosuid",
    "nouser",
    "owner",
    "relatime",
    "strictatime",
    "user",
    "users",
];

/// Options of the kernel's client, or of ceph-fuse, that have no counterpart here.
const OF_OTHERS: [&str; 32] = [
    "abort_on_full",
    "cap_release_safety",
    "caps_max",
    "caps_wanted_delay_max",
    "caps_wanted_delay_min",
    "copyfrom",
    "crc",
    "crush_location",
    "fsc",
    "ino32",
    "ip",
    "mds_max_readdir",
    "noasyncreaddir",
    "nocopyfrom",
    "nocrc",
    "nopagecache",
    "noshare",
    "nowsync",
    "osd_idle_ttl",
    "osdkeepalive",
    "queue_depth",
    "rasize",
    "read_from_replica",
    "readdir_max_bytes",
    "readdir_max_entries",
    "rsize",
    "share",
    "snapdirname",
    "sync",
    "tcp_nodelay",
    "wsize",
    "wsync",
];

impl Chosen {
    /// Reads lists of options.
    pub(super) fn of(lists: &[String]) -> Result<Self, Failure> {
        let mut chosen = Self::default();
        for option in lists.iter().flat_map(|list| list.split(',')).filter(|option| !option.is_empty()) {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            chosen.take(name, value).map_err(|why| Failure::new(format!("-o {name}"), why))?;
        }
        Ok(chosen)
    }

    fn take(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        if name.starts_with("x-") || name == "comment" || NOTHING.contains(&name) {
            return Ok(());
        }
        if OF_OTHERS.contains(&name) {
            return Err("has no effect in this program; leave it out".to_owned());
        }
        if let Some(option) = name.strip_prefix("ceph.") {
            return self.take_conf(option, value.unwrap_or("true"));
        }
        match value {
            Some(value) => self.take_value(name, value),
            None => self.take_switch(name),
        }
    }

    fn take_switch(&mut self, name: &str) -> Result<(), String> {
        match name {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "noatime" => self.no_atime = true,
            "noexec" => self.no_exec = true,
            "dev" => self.devices = true,
            "suid" => self.suid = true,
            "allow_other" => self.allow_other = Some(true),
            "noallow_other" => self.allow_other = Some(false),
            "default_permissions" => self.kernel_checks = Some(true),
            "nodefault_permissions" => self.kernel_checks = Some(false),
            "acl" => self.acls = Some(true),
            "noacl" => self.acls = Some(false),
            "rbytes" => self.recursive_sizes = Some(true),
            "norbytes" => self.recursive_sizes = Some(false),
            "dcache" => self.no_kernel_cache = false,
            "nodcache" => self.no_kernel_cache = true,
            _ => return Err("is no option of this program; see 'loligo mount --help'".to_owned()),
        }
        Ok(())
    }

    fn take_value(&mut self, name: &str, value: &str) -> Result<(), String> {
        let mut set = |option: &str, value: &str| self.settings.push((option.to_owned(), value.to_owned()));
        match name {
            "fs" | "mds_namespace" => self.fs = Some(value.to_owned()),
            "name" | "id" => self.name = Some(value.strip_prefix("client.").unwrap_or(value).to_owned()),
            "conf" => self.conf = Some(value.to_owned()),
            // Gone from the command line, and known by then.
            "secret" => set("key", value),
            "secretfile" => set("keyfile", value),
            "mon_addr" => set("mon_host", &value.replace('/', ",")),
            "ms_mode" => set("ms_client_mode", mode(value)?),
            "mount_timeout" => match value.parse::<u32>() {
                Ok(_) => set("client_mount_timeout", value),
                Err(_) => return Err(format!("'{value}' is no number of seconds")),
            },
            _ => return Err("is no option of this program; see 'loligo mount --help'".to_owned()),
        }
        Ok(())
    }

    /// Takes an option in the form in which ceph-fuse has them in /etc/fstab.
    fn take_conf(&mut self, option: &str, value: &str) -> Result<(), String> {
        match option {
            "name" | "id" | "conf" => self.take_value(option, value),
            _ => {
                self.settings.push((option.to_owned(), value.to_owned()));
                Ok(())
            }
        }
    }
}

/// Returns the value of `ms_client_mode` that means the same.
fn mode(value: &str) -> Result<&'static str, String> {
    Ok(match value {
        "crc" => "crc",
        "secure" => "secure",
        "prefer-crc" => "crc secure",
        "prefer-secure" => "secure crc",
        _ => return Err(format!("'{value}' is none of crc, secure, prefer-crc and prefer-secure")),
    })
}

/// What is mounted: a file system's name, if one is named, and a directory in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) fs: Option<String>,
    pub(super) name: Option<String>,
    pub(super) path: Option<String>,
}

impl Source {
    /// Reads `FS:/PATH`, `/PATH`, or `NAME@FSID.FS=/PATH` as mount.ceph has it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some((who, path)) = text.split_once('=').filter(|(who, _)| who.contains('@')) {
            let (name, place) = who.split_once('@').unwrap_or((who, ""));
            // The configuration says which cluster it is.
            let fs = place.rsplit('.').next().filter(|fs| !fs.is_empty());
            return Ok(Self { fs: fs.map(str::to_owned), name: named(name), path: named(path) });
        }
        if text.starts_with('/') {
            return Ok(Self { path: named(text), ..Self::default() });
        }
        let Some((fs, path)) = text.split_once(':') else {
            return Ok(Self { fs: named(text), ..Self::default() });
        };
        let is_monitors = fs.contains(['.', ',', '[']) || path.starts_with(|c: char| c.is_ascii_digit());
        if is_monitors {
            return Err("monitors are named with -o mon_addr=…, or in ceph.conf".to_owned());
        }
        Ok(Self { fs: named(fs), name: None, path: named(path) })
    }
}

fn named(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Chosen, String> {
        Chosen::of(&[text.to_owned()]).map_err(|e| e.to_string())
    }

    #[test]
    fn options_are_those_of_stock_programs() {
        let chosen =
            of("name=alice,secretfile=/k,fs=home,ro,_netdev,x-systemd.automount,noatime").expect("read");
        assert_eq!((chosen.name.as_deref(), chosen.fs.as_deref()), (Some("alice"), Some("home")));
        assert!(chosen.read_only && chosen.no_atime && !chosen.no_kernel_cache);
        assert_eq!(chosen.settings, [("keyfile".to_owned(), "/k".to_owned())]);
        let chosen = of("ceph.id=bob,ceph.conf=/c,ceph.client_mountpoint=/d,defaults").expect("read");
        assert_eq!((chosen.name.as_deref(), chosen.conf.as_deref()), (Some("bob"), Some("/c")));
        assert_eq!(chosen.settings, [("client_mountpoint".to_owned(), "/d".to_owned())]);
        assert!(!of("ro,rw").expect("read").read_only, "the last one counts");
        let chosen =
            of("mon_addr=1.2.3.4:3300/1.2.3.5:3300,ms_mode=prefer-secure,mount_timeout=7").expect("read");
        let settings: Vec<(&str, &str)> =
            chosen.settings.iter().map(|(option, value)| (option.as_str(), value.as_str())).collect();
        let expected = [
            ("mon_host", "1.2.3.4:3300,1.2.3.5:3300"),
            ("ms_client_mode", "secure crc"),
            ("client_mount_timeout", "7"),
        ];
        assert_eq!(settings, expected);
    }

    #[test]
    fn what_does_not_act_is_refused_by_name() {
        for (option, why) in [
            ("wsize=65536", "-o wsize: has no effect"),
            ("nonsense", "-o nonsense: is no option"),
            ("nonsense=1", "-o nonsense: is no option"),
            ("ms_mode=legacy", "-o ms_mode: 'legacy' is none of"),
            ("mount_timeout=soon", "-o mount_timeout: 'soon' is no number"),
        ] {
            let refused = of(option).expect_err(option);
            assert!(refused.starts_with(why), "{refused}");
        }
        assert!(NOTHING.is_sorted() && OF_OTHERS.is_sorted());
    }

    #[test]
    fn sources_name_a_file_system_and_a_directory() {
        let source =
            |fs: &str, name: &str, path: &str| Source { fs: named(fs), name: named(name), path: named(path) };
        for (text, is) in [
            ("home:/alice", source("home", "", "/alice")),
            ("home:", source("home", "", "")),
            ("home", source("home", "", "")),
            (":/", source("", "", "/")),
            ("/alice", source("", "", "/alice")),
            ("alice@.home=/d", source("home", "alice", "/d")),
            ("alice@0c7e-11.home=/d", source("home", "alice", "/d")),
        ] {
            assert_eq!(Source::parse(text), Ok(is), "{text}");
        }
        for text in ["10.0.0.1:6789:/", "10.0.0.1,10.0.0.2:/", "[::1]:3300:/", "mon:6789:/"] {
            assert!(Source::parse(text).is_err(), "{text}");
        }
    }
}
