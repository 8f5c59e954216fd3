//! The inputs of a program's start: the options common to all of Ceph's programs, and the environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

use loligo_wire::EntityName;

use crate::ConfError;
use loligo_cephx::ini::normalize;

/// The environment variables and properties of the process.
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
    /// The process id.
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

    /// The words of `CEPH_ARGS`. Only white space separates them; quotes are ordinary characters.
    fn words(&self) -> Vec<String> {
        self.args.iter().flat_map(|args| args.split_whitespace()).map(str::to_owned).collect()
    }

    /// Removes `CEPH_ARGS` and returns its words, for a program that parses them together with its own
    /// arguments.
    pub fn take_args(&mut self) -> Vec<String> {
        let words = self.words();
        self.args = None;
        words
    }
}

/// The options of the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-c`, `--conf`: a list of files. The first existing file is read.
    pub conf_file: Option<String>,
    /// `--cluster`.
    pub cluster: Option<String>,
    /// `-n`, `--name`, `--id`, `--user`.
    pub name: Option<EntityName>,
    /// `--no-config-file`.
    pub no_config_file: bool,
    /// Option values; they take precedence over every file. Names are normalized.
    pub settings: BTreeMap<String, String>,
    /// `--default-OPTION VALUE`: values for options that are not set elsewhere.
    pub defaults: BTreeMap<String, String>,
    /// Warnings for the user about the options, one per line.
    pub warnings: Vec<String>,
}

impl Options {
    /// Sets an option's value.
    pub fn set(&mut self, option: &str, value: &str) {
        let option = normalize(option);
        if option == "no_config_file" {
            self.no_config_file = value == "true";
        }
        self.settings.insert(option, value.to_owned());
    }

    /// The options in the environment, except `CEPH_CONF`, whose file may be missing. Words of
    /// `CEPH_ARGS` that are not configuration options are left to the program
    /// ([`Environment::take_args`]); if the program does not take them, they are ignored, as in stock
    /// librados.
    pub(super) fn from_environment(environment: &Environment) -> Result<Self, ConfError> {
        let mut options = Self::default();
        if let Some(keyring) = &environment.keyring {
            options.set("keyring", keyring);
        }
        options.take(&mut environment.words(), |_| false)?;
        Ok(options)
    }

    /// Combines these options with `over`, which takes precedence.
    pub(super) fn overlaid(mut self, over: &Self) -> Self {
        self.conf_file = over.conf_file.clone().or(self.conf_file);
        self.cluster = over.cluster.clone().or(self.cluster);
        self.name = over.name.clone().or(self.name);
        self.no_config_file |= over.no_config_file;
        self.settings.extend(over.settings.clone());
        self.defaults.extend(over.defaults.clone());
        self.warnings.extend(over.warnings.iter().cloned());
        self
    }

    /// The cluster's name: the given one, else the name of the configuration file, else `ceph`.
    pub(super) fn cluster_name(&self) -> String {
        let of_file = || {
            let path = Path::new(self.conf_file.as_deref()?);
            (path.extension()? == "conf").then(|| path.file_stem()?.to_str().map(str::to_owned))?
        };
        self.cluster.clone().or_else(of_file).unwrap_or_else(|| "ceph".to_owned())
    }
}

/// The candidates for the configuration file, in order.
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
    use crate::Conf;

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
        // As in rados and rbd 16.2.15 if only the environment names the file.
        let conf = Some("/no/such/west.conf".into());
        let conf = Conf::load(&Options::default(), Environment { conf, ..environment }).unwrap();
        assert_eq!((conf.file(), conf.cluster()), (None, "west"));
        assert_eq!(
            conf.warnings(),
            ["CEPH_CONF: there is no file /no/such/west.conf: using default settings"]
        );
    }
}
