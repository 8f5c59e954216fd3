//! What a program is told when it starts: the options that all of Ceph's programs share, and the environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

use loligo_wire::{EntityName, EntityType};

use super::ConfError;
use super::ini::normalize;
use super::table;

/// Options of ceph.conf that this project looks at, besides `debug_` and a subsystem. On the command line they are taken
/// as `--option value`.
const KNOWN: &[&str] = &[
    "admin_socket",
    "auth_client_required",
    "auth_cluster_required",
    "auth_service_required",
    "auth_supported",
    "client_mount_timeout",
    "fsid",
    "key",
    "keyfile",
    "keyring",
    "log_file",
    "mgr_connect_retry_interval",
    "mon_client_hunt_interval",
    "mon_client_ping_interval",
    "mon_client_ping_timeout",
    "mon_dns_srv_name",
    "mon_host",
    "ms_client_mode",
    "ms_compress_secure",
    "ms_crc_data",
    "ms_mon_client_mode",
    "ms_mon_service_mode",
    "ms_osd_compress_min_size",
    "ms_osd_compress_mode",
    "ms_osd_compression_algorithm",
    "ms_service_mode",
    "objecter_inflight_op_bytes",
    "objecter_inflight_ops",
    "rados_mon_op_timeout",
    "rados_osd_op_timeout",
    "rbd_default_clone_format",
    "rbd_default_data_pool",
    "rbd_default_features",
    "rbd_default_format",
    "rbd_default_order",
    "rbd_default_pool",
    "rbd_default_stripe_count",
    "rbd_default_stripe_unit",
];

/// The names of the options that stock programs of 18.2.7 and 20.2.4 take (`ceph-conf --show-config`) and
/// those of 16.2.15, which the [table] has, do not; a line each, with ` bool` behind those that are true or
/// false.
const LATER: &str = include_str!("later.txt");

/// What the environment says.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `CEPH_CONF`.
    pub conf: Option<String>,
    /// `CEPH_ARGS`.
    pub args: Option<String>,
    /// `CEPH_KEYRING`.
    pub keyring: Option<String>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// This machine's short name.
    pub host: String,
    /// This process.
    pub pid: u32,
}

impl Environment {
    /// This process's environment.
    pub fn current() -> Self {
        let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            conf: env::var("CEPH_CONF").ok(),
            args: env::var("CEPH_ARGS").ok(),
            keyring: env::var("CEPH_KEYRING").ok(),
            home: env::var_os("HOME").map(PathBuf::from),
            host: hostname.trim().split('.').next().unwrap_or_default().to_owned(),
            pid: process::id(),
        }
    }

    /// The words of `CEPH_ARGS`; only spaces part them, quotes are characters like others.
    fn words(&self) -> Vec<String> {
        self.args.iter().flat_map(|args| args.split_whitespace()).map(str::to_owned).collect()
    }

    /// The words of `CEPH_ARGS`, which say nothing more from now on: the program reads them among its own.
    pub fn take_args(&mut self) -> Vec<String> {
        let words = self.words();
        self.args = None;
        words
    }
}

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-c`, `--conf`: files, the first that exists is read.
    pub conf_file: Option<String>,
    /// `--cluster`.
    pub cluster: Option<String>,
    /// `-n`, `--name`, `--id`, `--user`.
    pub name: Option<EntityName>,
    /// `--no-config-file`.
    pub no_config_file: bool,
    /// Values of options, which win over every file. Names are normalized.
    pub settings: BTreeMap<String, String>,
}

impl Options {
    /// Sets an option's value.
    pub fn set(&mut self, option: &str, value: &str) {
        self.settings.insert(normalize(option), value.to_owned());
    }

    /// Takes the options that all of Ceph's programs share out of `args` and leaves the rest, in order.
    ///
    /// `--` ends the options. The program's own options must not be named like one of these.
    pub fn take(&mut self, args: &mut Vec<String>) -> Result<(), ConfError> {
        self.take_some(args, |option| KNOWN.contains(&option) || option.starts_with("debug_"))
    }

    /// Takes the options of every stock program out of the words of `CEPH_ARGS` and leaves the rest, in order.
    ///
    /// More options than on the command line: a `CEPH_ARGS` that is meant for stock programs may set what we have no
    /// use for, as ceph.conf may.
    pub fn take_stock(&mut self, args: &mut Vec<String>) -> Result<(), ConfError> {
        self.take_some(args, |option| StockOption::find(option).is_some() || KNOWN.contains(&option))
    }

    /// What the environment says but for `CEPH_CONF`, which may name no file. Words of `CEPH_ARGS` that are
    /// no options of the configuration are left to the program ([`Environment::take_args`]); where none
    /// asked, they mean nothing, as to stock's librados.
    pub(super) fn from_environment(environment: &Environment) -> Result<Self, ConfError> {
        let mut options = Self::default();
        if let Some(keyring) = &environment.keyring {
            options.set("keyring", keyring);
        }
        options.take_stock(&mut environment.words())?;
        Ok(options)
    }

    /// These options, with `over` winning where both say something.
    pub(super) fn overlaid(mut self, over: &Self) -> Self {
        self.conf_file = over.conf_file.clone().or(self.conf_file);
        self.cluster = over.cluster.clone().or(self.cluster);
        self.name = over.name.clone().or(self.name);
        self.no_config_file |= over.no_config_file;
        self.settings.extend(over.settings.clone());
        self
    }

    /// The cluster's name: what was said, else what the configuration file is called, else `ceph`.
    pub(super) fn cluster_name(&self) -> String {
        let of_file = || {
            let path = Path::new(self.conf_file.as_deref()?);
            (path.extension()? == "conf").then(|| path.file_stem()?.to_str().map(str::to_owned))?
        };
        self.cluster.clone().or_else(of_file).unwrap_or_else(|| "ceph".to_owned())
    }

    fn take_some(&mut self, args: &mut Vec<String>, known: impl Fn(&str) -> bool) -> Result<(), ConfError> {
        let mut rest = Vec::with_capacity(args.len());
        let mut words = std::mem::take(args).into_iter().peekable();
        while let Some(word) = words.next() {
            if word == "--" {
                rest.push(word);
                rest.extend(words.by_ref());
                break;
            }
            let (flag, inline) = match word.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            let taken = |option: &String| is_shared(option) || known(option);
            let Some(option) = option_of(flag).filter(taken) else {
                let negated = flag.strip_prefix("--no-").map(normalize);
                match negated.filter(|option| inline.is_none() && is_bool(option) && taken(option)) {
                    Some(option) => self.apply(&option, "false".to_owned())?,
                    None => rest.push(word),
                }
                continue;
            };
            let value = match inline {
                Some(value) => value,
                // The word after it is never its value.
                None if is_bool(&option) => "true".to_owned(),
                None => words.next().ok_or(ConfError::MissingValue(word))?,
            };
            self.apply(&option, value)?;
        }
        *args = rest;
        Ok(())
    }

    fn apply(&mut self, option: &str, value: String) -> Result<(), ConfError> {
        match option {
            "conf" => self.conf_file = Some(value),
            "cluster" => self.cluster = Some(value),
            "name" => self.name = Some(value.parse()?),
            "id" => self.name = Some(EntityName { kind: EntityType::CLIENT, id: value }),
            "no_config_file" => self.no_config_file = true,
            _ => self.set(option, &value),
        }
        Ok(())
    }
}

/// The option behind a word of the command line; several words may mean the same.
fn option_of(flag: &str) -> Option<String> {
    Some(match flag {
        "-c" | "--conf" => "conf".to_owned(),
        "-n" | "--name" => "name".to_owned(),
        "--id" | "--user" => "id".to_owned(),
        "-k" => "keyring".to_owned(),
        "-K" => "keyfile".to_owned(),
        "-m" => "mon_host".to_owned(),
        other => normalize(other.strip_prefix("--")?),
    })
}

/// Options that every program has and that never go without a value, or are switches.
fn is_shared(option: &str) -> bool {
    matches!(option, "conf" | "cluster" | "name" | "id" | "keyring" | "keyfile" | "mon_host")
        || is_switch(option)
}

/// An option that stock programs take.
struct StockOption {
    is_bool: bool,
}

impl StockOption {
    /// `debug_` and any subsystem has a level.
    fn find(option: &str) -> Option<Self> {
        if let Some(known) = table::find(option) {
            return Some(Self { is_bool: known.is_bool() });
        }
        let later = LATER.lines().find(|line| line.split(' ').next() == Some(option));
        let is_bool = later.is_some_and(|line| line.ends_with(" bool"));
        (later.is_some() || option.starts_with("debug_")).then_some(Self { is_bool })
    }
}

fn is_bool(option: &str) -> bool {
    is_switch(option) || StockOption::find(option).is_some_and(|option| option.is_bool)
}

fn is_switch(option: &str) -> bool {
    matches!(option, "no_config_file" | "no_mon_config")
}

/// The files to look for a configuration in, in order.
pub(super) fn file_candidates(
    explicit: Option<&str>,
    cluster: &str,
    environment: &Environment,
) -> Vec<PathBuf> {
    if let Some(list) = explicit {
        return list.split([',', ';']).map(|p| PathBuf::from(p.trim())).collect();
    }
    let mut candidates = vec![PathBuf::from(format!("/etc/ceph/{cluster}.conf"))];
    if let Some(home) = &environment.home {
        candidates.push(home.join(format!(".ceph/{cluster}.conf")));
    }
    candidates.push(PathBuf::from(format!("{cluster}.conf")));
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::Conf;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn shared_options_are_taken_and_the_rest_is_left() {
        let mut args = words(
            "-p pool --id a put -k ring --ms-client-mode=secure obj file --mon_host h --x 1 --debug-ms 5 -- -c d",
        );
        let mut options = Options::default();
        options.take(&mut args).unwrap();
        assert_eq!(args, words("-p pool put obj file --x 1 -- -c d"));
        assert_eq!(options.name.unwrap().to_string(), "client.a");
        assert_eq!(options.settings["keyring"], "ring");
        assert_eq!(options.settings["ms_client_mode"], "secure");
        assert_eq!(options.settings["mon_host"], "h");
        assert_eq!(options.settings["debug_ms"], "5");
    }

    #[test]
    fn a_missing_value_is_an_error() {
        let take = |text: &str| Options::default().take(&mut words(text));
        assert!(matches!(take("-c"), Err(ConfError::MissingValue(_))));
        assert!(matches!(take("-n nonsense"), Err(ConfError::Name(_))));
        assert!(take("--no-config-file --no-mon-config").is_ok());
    }

    #[test]
    fn ceph_args_have_the_options_of_stock_programs() {
        // As rados 16.2.15 takes them: what it leaves, it refuses or reads as its own.
        for (said, left, option, value) in [
            ("--rbd-cache put o", "put o", "rbd_cache", Some("true")),
            ("--rbd-cache=false x", "x", "rbd_cache", Some("false")),
            ("--no-rbd-cache x", "x", "rbd_cache", Some("false")),
            ("--rbd_default_order 20 -N ns1", "-N ns1", "rbd_default_order", Some("20")),
            ("--debug-rbd 5 -p q", "-p q", "debug_rbd", Some("5")),
            ("--osd-max-backfills=3", "", "osd_max_backfills", Some("3")),
            ("--nosuch=1 stray", "--nosuch=1 stray", "nosuch", None),
            ("--no-such --all", "--no-such --all", "such", None),
            ("-- --rbd-cache", "-- --rbd-cache", "rbd_cache", None),
        ] {
            let mut args = words(said);
            let mut options = Options::default();
            options.take_stock(&mut args).unwrap();
            assert_eq!(args, words(left), "{said}");
            assert_eq!(options.settings.get(option).map(String::as_str), value, "{said}");
        }
        assert!(Options::default().take_stock(&mut words("--rbd-default-order")).is_err());
    }

    #[test]
    fn the_command_line_beats_the_environment() {
        let environment = Environment {
            args: Some("--id b --keyring from-args --debug-ms 0 --rbd-cache stray --nosuch=1".into()),
            keyring: Some("from-env".into()),
            ..Environment::default()
        };
        let mut options = Options { no_config_file: true, ..Options::default() };
        let conf = Conf::load(&options, environment.clone()).unwrap();
        assert_eq!(conf.name().to_string(), "client.b");
        assert_eq!(conf.text("keyring").as_deref(), Some("from-args"));
        assert_eq!(conf.text("rbd_cache").as_deref(), Some("true"));
        assert_eq!(conf.text("nosuch"), None);
        options.set("keyring", "from-line");
        options.name = Some("client.c".parse().unwrap());
        let conf = Conf::load(&options, environment).unwrap();
        assert_eq!((conf.name().id.as_str(), conf.text("keyring").as_deref()), ("c", Some("from-line")));
    }

    #[test]
    fn files_are_found_where_ceph_looks() {
        let environment = Environment { home: Some("/home/u".into()), ..Environment::default() };
        let paths = file_candidates(None, "ceph", &environment);
        assert_eq!(paths, ["/etc/ceph/ceph.conf", "/home/u/.ceph/ceph.conf", "ceph.conf"].map(PathBuf::from));
        let options = Options { conf_file: Some("/no/such/west.conf".into()), ..Options::default() };
        assert_eq!(options.cluster_name(), "west");
        let error = Conf::load(&options, environment.clone()).unwrap_err();
        assert!(error.to_string().contains("/no/such/west.conf"), "{error}");
        let args = Environment { args: Some("-c /no/such/west.conf".into()), ..environment.clone() };
        assert!(matches!(Conf::load(&Options::default(), args), Err(ConfError::Io { .. })));
        // As rados and rbd 16.2.15, where only the environment names it.
        let conf = Some("/no/such/west.conf".into());
        let conf = Conf::load(&Options::default(), Environment { conf, ..environment }).unwrap();
        assert_eq!((conf.file(), conf.cluster()), (None, "west"));
        assert_eq!(
            conf.warnings(),
            ["CEPH_CONF: there is no file /no/such/west.conf: using default settings"]
        );
    }
}
