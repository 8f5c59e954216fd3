//! The configuration of Ceph's programs: ceph.conf, keyrings, the environment, the options of the
//! command line.
//!
//! The value of an option is looked up on the command line, in the environment, in the file's sections
//! `[client.name]`, `[client]` and `[global]`, and in the monitors' configuration database, in this
//! order. In option names spaces, dashes and underscores are equivalent.
//!
//! ```
//! use loligo_conf::{Conf, Environment};
//!
//! let text = "[global]\n mon host = 10.0.0.1\n[client.a]\n keyring = /tmp/$cluster.$name.keyring\n";
//! let conf = Conf::parse(text, "client.a".parse().unwrap(), Environment::default())?;
//! assert_eq!(conf.text("keyring").as_deref(), Some("/tmp/ceph.client.a.keyring"));
//! assert_eq!(conf.mon_hosts()?[0][0].port, 3300);
//! # Ok::<(), loligo_conf::ConfError>(())
//! ```
//!
//! - [`Conf`] is the configuration; it is built from [`Options`] and [`Environment`].
//! - [`table`] contains every option of stock programs, with its type and bounds.
//! - [`read_keyring`] and related functions read and write key files.
//!
//! This crate opens no socket and resolves no host name.
// Integers in texts are never truncated, wrapped or reinterpreted implicitly (crate `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

mod acts;
mod arguments;
mod auth;
mod compression;
mod files;
mod lenient;
mod mon_host;
mod options;
pub mod table;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use loligo_wire::{EntityName, Errno, ParseEntityNameError};

pub use arguments::takes_next_word;
pub use auth::CredentialsError;
pub use files::{
    KeyfileError, KeyringFileError, read_first_keyring, read_keyfile, read_keyring, write_keyring,
};
pub use loligo_cephx::ini::SyntaxError;
pub use loligo_types::unit_power;
pub use mon_host::{Messenger, MonAddr};
pub use options::{Environment, Options};

use arguments::{NO_MON_CONFIG, not_set};
use loligo_cephx::ini::{self, Line, normalize};
use options::file_candidates;

/// `$a` may refer to a text that contains `$b`; deeper nesting than this is treated as a cycle.
const EXPANSION_DEPTH_MAX: usize = 8;

/// The configuration of one program with one name.
#[derive(Clone, Debug)]
pub struct Conf {
    name: EntityName,
    cluster: String,
    environment: Environment,
    /// Settings of the command line and the environment: they take precedence over every file.
    settings: BTreeMap<String, String>,
    sections: BTreeMap<String, BTreeMap<String, String>>,
    /// Settings of the monitors' configuration database: every file takes precedence over them.
    monitors: BTreeMap<String, String>,
    /// Values for options that are not set elsewhere: the monitors take precedence over them.
    defaults: BTreeMap<String, String>,
    file: Option<PathBuf>,
    warnings: Vec<String>,
}

/// Why a configuration is not usable.
#[derive(Debug, thiserror::Error)]
pub enum ConfError {
    /// The file could not be read.
    #[error("configuration file {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A line is invalid.
    #[error("configuration file {path}, line {line}: {source}", path = path.display())]
    Syntax {
        /// The file; empty for a text without a file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// The reason.
        source: SyntaxError,
    },
    /// A value does not have its option's type.
    #[error("option {option} = '{value}': {expected} expected")]
    Value {
        /// The option.
        option: String,
        /// Its value.
        value: String,
        /// The expected type of value.
        expected: &'static str,
    },
    /// An option on the command line lacks its value.
    #[error("option {0} needs a value")]
    MissingValue(String),
    /// The text is not an entity's name.
    #[error(transparent)]
    Name(#[from] ParseEntityNameError),
    /// No monitor addresses are configured.
    #[error("no monitors configured: neither 'mon host' nor a [mon.X] section with 'mon addr'")]
    NoMonitors,
}

impl Conf {
    /// Loads the configuration in the way of a Ceph program that was started with `options`.
    ///
    /// If no file is named explicitly (option `-c`, `CEPH_CONF`), the first existing one of the standard
    /// places is read, or none. A file named only by `CEPH_CONF` may be missing: that is a
    /// [warning](Self::warnings).
    pub fn load(options: &Options, environment: Environment) -> Result<Self, ConfError> {
        let mut options = Options::from_environment(&environment)?.overlaid(options);
        let must_exist = options.conf_file.is_some();
        options.conf_file = options.conf_file.or_else(|| environment.conf.clone());
        let name = options.name.clone().unwrap_or_else(|| EntityName::client("admin"));
        let mut conf = Self::empty(name, environment);
        conf.cluster = options.cluster_name();
        conf.settings = options.settings;
        conf.defaults = options.defaults;
        conf.warnings = options.warnings;
        if options.no_config_file {
            return Ok(conf);
        }
        let explicit = options.conf_file.as_deref();
        let candidates = file_candidates(explicit, &conf.cluster, &conf.environment);
        match candidates.iter().find(|path| path.exists()) {
            Some(path) => conf.add_file(path)?,
            None if must_exist => {
                let path = candidates.into_iter().next().unwrap_or_default();
                return Err(ConfError::Io { path, source: io::Error::from_raw_os_error(Errno::ENOENT.0) });
            }
            None => conf.warnings.extend(
                explicit.map(|list| format!("CEPH_CONF: there is no file {list}: using default settings")),
            ),
        }
        Ok(conf)
    }

    /// Reads a single file.
    pub fn read(path: &Path, name: EntityName, environment: Environment) -> Result<Self, ConfError> {
        let mut conf = Self::empty(name, environment);
        conf.add_file(path)?;
        Ok(conf)
    }

    /// Parses the text of a configuration file.
    pub fn parse(text: &str, name: EntityName, environment: Environment) -> Result<Self, ConfError> {
        let mut conf = Self::empty(name, environment);
        conf.add_text(text, Path::new(""))?;
        Ok(conf)
    }

    /// Returns a configuration without settings.
    pub fn empty(name: EntityName, environment: Environment) -> Self {
        Self {
            name,
            cluster: "ceph".to_owned(),
            environment,
            settings: BTreeMap::new(),
            sections: BTreeMap::new(),
            monitors: BTreeMap::new(),
            defaults: BTreeMap::new(),
            file: None,
            warnings: Vec::new(),
        }
    }

    fn add_file(&mut self, path: &Path) -> Result<(), ConfError> {
        let text =
            files::read_text(path).map_err(|source| ConfError::Io { path: path.to_owned(), source })?;
        for found in lenient::leniencies(&text) {
            let (path, line, what) = (path.display(), found.line, found.what);
            self.warnings.push(format!("configuration file {path} {what} (line {line})"));
        }
        self.add_text(&text, path)?;
        self.file = Some(path.to_owned());
        Ok(())
    }

    /// Settings before the first section belong to `[global]`.
    fn add_text(&mut self, text: &str, path: &Path) -> Result<(), ConfError> {
        let mut section = "global".to_owned();
        for (line, content) in ini::lines(text) {
            let content =
                content.map_err(|source| ConfError::Syntax { path: path.to_owned(), line, source })?;
            match content {
                Line::Section(name) => section = name,
                Line::Setting { name, value } => {
                    self.sections.entry(section.clone()).or_default().insert(name, value);
                }
            }
        }
        self.check_sections();
        Ok(())
    }

    /// Checks this program's settings in the file against the options' types. Invalid ones are skipped
    /// with a warning, as in stock programs.
    fn check_sections(&mut self) {
        let own = [self.name.to_string(), self.name.kind.as_str().to_owned(), "global".to_owned()];
        let set: BTreeSet<String> =
            own.iter().filter_map(|name| self.sections.get(name)).flat_map(|s| s.keys().cloned()).collect();
        for option in set.iter().filter_map(|option| table::known(option)) {
            let in_section =
                |name: &&String| self.sections.get(*name).is_some_and(|s| s.contains_key(option.name));
            let Some(section) = own.iter().find(in_section) else { continue };
            let written = &self.sections[section][option.name];
            // Text values are expanded when they are read, because their variables may change.
            let value = if option.kind() == Some("str") { written.clone() } else { self.expand(written) };
            match option.accept(&value) {
                Ok(accepted) => {
                    self.warnings.extend(accepted.warning);
                    let settings = self.sections.get_mut(section).expect("it has the option");
                    settings.insert(option.name.to_owned(), accepted.value);
                }
                Err(why) => {
                    self.warnings.push(not_set(option, &value, &why.why));
                    for name in &own {
                        self.sections.get_mut(name).and_then(|settings| settings.remove(option.name));
                    }
                }
            }
        }
    }

    /// Sets an option; it takes precedence over everything that was read, like `--option value`.
    pub fn set(&mut self, option: &str, value: &str) {
        self.settings.insert(normalize(option), value.to_owned());
    }

    /// Adds the settings of `options`, which take precedence over all others. The file and the name are
    /// unchanged.
    pub fn with(mut self, options: &Options) -> Self {
        self.settings.extend(options.settings.clone());
        self.defaults.extend(options.defaults.clone());
        self.warnings.extend(options.warnings.iter().cloned());
        self
    }

    /// Adds the settings of the monitors' configuration database (`ceph config set`); files and the
    /// command line take precedence over them. Has no effect with `--no-mon-config`.
    pub fn with_monitors(mut self, settings: BTreeMap<String, String>) -> Self {
        if self.settings.get(NO_MON_CONFIG).is_some_and(|no| no == "true") {
            return self;
        }
        let accepted = |(name, value): (String, String)| {
            let name = normalize(&name);
            let value = match table::known(&name) {
                Some(option) => option.accept(&value).ok()?.value,
                None => value,
            };
            Some((name, value))
        };
        self.monitors = settings.into_iter().filter_map(accepted).collect();
        self
    }

    /// Warnings for the user about a usable configuration, one per line.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The name that the program authenticates with.
    pub fn name(&self) -> &EntityName {
        &self.name
    }

    /// The cluster's name; `ceph` by default.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The file that was read, if any.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns an option's value, with variables (`$cluster`, `$name`, `$host`, …) replaced.
    pub fn text(&self, option: &str) -> Option<String> {
        self.raw(&normalize(option)).map(|value| self.expand(value))
    }

    fn raw(&self, option: &str) -> Option<&str> {
        let in_section = |section: &str| self.sections.get(section)?.get(option);
        self.settings
            .get(option)
            .or_else(|| in_section(&self.name.to_string()))
            .or_else(|| in_section(self.name.kind.as_str()))
            .or_else(|| in_section("global"))
            .or_else(|| self.monitors.get(option))
            .or_else(|| self.defaults.get(option))
            .map(String::as_str)
    }

    /// Replaces `$variable` and `${variable}` in a text; unknown variables are left unchanged.
    pub fn expand(&self, text: &str) -> String {
        self.expand_to_depth(text, EXPANSION_DEPTH_MAX)
    }

    fn expand_to_depth(&self, text: &str, depth: usize) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let (variable, len) = variable_name(after);
            match self.variable(variable, depth) {
                Some(value) => out.push_str(&value),
                None => out.push_str(&rest[at..at + 1 + len]),
            }
            rest = &after[len..];
        }
        out.push_str(rest);
        out
    }

    fn variable(&self, name: &str, depth: usize) -> Option<String> {
        Some(match name {
            "" => return None,
            "cluster" => self.cluster.clone(),
            "name" => self.name.to_string(),
            "type" => self.name.kind.as_str().to_owned(),
            "id" | "num" => self.name.id.clone(),
            "host" => self.environment.host.clone(),
            "pid" => self.environment.pid.to_string(),
            "home" => self.environment.home.as_ref()?.display().to_string(),
            option => self.expand_to_depth(self.raw(&normalize(option))?, depth.checked_sub(1)?),
        })
    }

    /// Returns a boolean: `true`, `false`, or a number (zero is false).
    pub fn bool(&self, option: &str, default: bool) -> Result<bool, ConfError> {
        self.typed(option, default, "true, false or a number", value::bool)
    }

    /// Returns a number; suffixes K, M, G, … are powers of 1000, as in Ceph's counts.
    pub fn u64(&self, option: &str, default: u64) -> Result<u64, ConfError> {
        self.typed(option, default, "a number", value::count)
    }

    /// Returns a number of bytes; suffixes K, M, G, … are powers of 1024.
    pub fn size(&self, option: &str, default: u64) -> Result<u64, ConfError> {
        self.typed(option, default, "a size such as 4096 or 64M", value::size)
    }

    /// Returns a floating-point number.
    pub fn f64(&self, option: &str, default: f64) -> Result<f64, ConfError> {
        self.typed(option, default, "a number", value::f64)
    }

    /// Returns a time span: seconds, possibly with a fraction, or numbers with units as in `1h 30min`.
    pub fn duration(&self, option: &str, default: Duration) -> Result<Duration, ConfError> {
        self.typed(option, default, "a time span such as 30 or 5m", value::duration)
    }

    /// Returns a list whose elements are separated by commas, semicolons, spaces or tabs; `None` if the
    /// option is not set.
    pub fn list(&self, option: &str) -> Option<Vec<String>> {
        self.text(option).map(|text| value::list(&text).map(str::to_owned).collect())
    }

    fn typed<T>(
        &self,
        option: &str,
        default: T,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ConfError> {
        let Some(text) = self.text(option) else {
            return Ok(default);
        };
        parse(text.trim()).ok_or_else(|| ConfError::Value {
            option: normalize(option),
            value: text,
            expected,
        })
    }

    /// Returns the addresses of each monitor, best first. Hosts may be names that are not resolved yet.
    pub fn mon_hosts(&self) -> Result<Vec<Vec<MonAddr>>, ConfError> {
        if let Some(text) = self.text("mon_host").filter(|t| !t.trim().is_empty()) {
            return mon_host::parse(&text).ok_or(ConfError::Value {
                option: "mon_host".to_owned(),
                value: text,
                expected: "a list of addresses such as 10.0.0.1 or [v2:10.0.0.1:3300,v1:10.0.0.1:6789]",
            });
        }
        let sections = self.sections.iter().filter(|(name, _)| name.starts_with("mon."));
        let mut hosts = Vec::new();
        for value in sections.filter_map(|(_, settings)| settings.get("mon_addr")) {
            hosts.extend(mon_host::parse(value).ok_or_else(|| ConfError::Value {
                option: "mon_addr".to_owned(),
                value: value.clone(),
                expected: "an address",
            })?);
        }
        if hosts.is_empty() { Err(ConfError::NoMonitors) } else { Ok(hosts) }
    }

    /// The DNS service name that lists the monitors if no other setting does (`mon_dns_srv_name`).
    pub fn mon_dns_srv_name(&self) -> String {
        self.text("mon_dns_srv_name").unwrap_or_else(|| "ceph-mon".to_owned())
    }
}

/// The variable at the start of a text, and its length in bytes with braces.
fn variable_name(text: &str) -> (&str, usize) {
    if let Some(braced) = text.strip_prefix('{') {
        return match braced.split_once('}') {
            Some((name, _)) => (name, name.len() + 2),
            None => ("", 0),
        };
    }
    let len = text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    (&text[..len], len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(text: &str) -> Conf {
        let environment = Environment { host: "box".into(), pid: 7, ..Environment::default() };
        Conf::parse(text, "client.a".parse().unwrap(), environment).unwrap()
    }

    #[test]
    fn the_closest_section_wins() {
        let mut c =
            conf("x = 0\n[client]\nx = 2\n[client.a]\nx=3\n[global]\nx = 1\ny = 1\n[client.b]\nx = 4");
        assert_eq!(c.text("x").as_deref(), Some("3"));
        assert_eq!(c.text("y").as_deref(), Some("1"));
        assert_eq!(c.text("z"), None);
        c.set("x", "5");
        assert_eq!(c.text("x").as_deref(), Some("5"));
    }

    #[test]
    fn the_monitors_settings_come_last() {
        // The same as in rbd 16.2.15 with `ceph config set client rbd_default_order 20`.
        let said = |text: &str| [("rbd_default_order".to_owned(), text.to_owned())].into();
        assert_eq!(conf("").with_monitors(said("20")).text("rbd_default_order").as_deref(), Some("20"));
        let c = conf("[client]\nrbd default order = 21").with_monitors(said("20"));
        assert_eq!(c.text("rbd_default_order").as_deref(), Some("21"));
    }

    #[test]
    fn variables_are_replaced() {
        let c = conf(
            "run dir = /run/$cluster\nsock = ${run_dir}/$name.$pid.$type.$id@$host-$what$\nloop = $loop",
        );
        assert_eq!(c.text("sock").as_deref(), Some("/run/ceph/client.a.7.client.a@box-$what$"));
        assert_eq!(c.text("loop").as_deref(), Some("$loop"));
    }

    #[test]
    fn values_are_typed() {
        let c = conf("a = 4K\nb = TRUE\nc = 5m\nd = x\ne = one, two three");
        assert_eq!(c.size("a", 0).unwrap(), 4096);
        assert_eq!(c.u64("a", 0).unwrap(), 4000);
        assert!(c.bool("b", false).unwrap());
        assert_eq!(c.duration("c", Duration::ZERO).unwrap(), Duration::from_secs(300));
        assert_eq!(c.f64("nothing", 0.5).unwrap(), 0.5);
        assert_eq!(c.list("e").unwrap(), ["one", "two", "three"]);
        let error = c.size("d", 0).unwrap_err().to_string();
        assert_eq!(error, "option d = 'x': a size such as 4096 or 64M expected");
    }

    #[test]
    fn what_is_set_stands_above_a_whole_configuration() {
        let mut options = Options::default();
        options.set("mon host", "10.0.0.9");
        let c = conf("mon host = 10.0.0.1\nrados osd op timeout = 3").with(&options);
        assert_eq!(c.text("mon_host").as_deref(), Some("10.0.0.9"));
        assert_eq!(c.text("rados_osd_op_timeout").as_deref(), Some("3"));
    }

    #[test]
    fn errors_name_the_line() {
        let error = Conf::parse("[global]\n\nnonsense\n", EntityName::client("a"), Environment::default());
        assert!(matches!(error, Err(ConfError::Syntax { line: 3, source: SyntaxError::Setting, .. })));
    }

    #[test]
    fn monitors_may_be_sections() {
        let c = conf("[mon.b]\nmon addr = 10.0.0.2\n[mon.a]\nmon addr = 10.0.0.1:6789");
        let hosts: Vec<_> = c.mon_hosts().unwrap().into_iter().map(|h| h[0].to_string()).collect();
        assert_eq!(hosts, ["v1:10.0.0.1:6789", "v2:10.0.0.2:3300"]);
        assert!(matches!(conf("").mon_hosts(), Err(ConfError::NoMonitors)));
        assert_eq!(conf("").mon_dns_srv_name(), "ceph-mon");
    }
}
