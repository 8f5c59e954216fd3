//! Configuration options on a command line, parsed as in stock programs.

use loligo_wire::{EntityName, EntityType};

use crate::table::{self, Known, Rejected};
use crate::{ConfError, Options};

/// The meaning of a word.
#[derive(Debug)]
enum Asks {
    /// The option has a value: the next word, or the text behind `=`.
    Value(Setting),
    /// The option is set to this boolean. It has no value.
    Switch(&'static str, bool),
    /// `-d`: log to standard error.
    Debug,
}

/// The target of a value.
#[derive(Clone, Copy, Debug)]
enum Setting {
    Conf,
    Cluster,
    Name,
    Id,
    /// An option, and whether a missing value is an error, as in stock programs.
    Option(Known, bool),
    /// The value of an option that is not set elsewhere.
    Default(Known),
}

/// The settings of `-d`.
const DEBUG: [(&str, &str); 3] = [("log_file", ""), ("log_to_stderr", "true"), ("err_to_stderr", "true")];

/// Whether the next word is the value of this one.
pub fn takes_next_word(word: &str) -> bool {
    matches!(asks(word, None), Some(Asks::Value(_)))
}

impl Options {
    /// Removes the options of stock programs from `args` and leaves the other words, in order.
    ///
    /// `--` ends the options. A word for which `own` returns `true` is the program's own option and is
    /// left. If a value is missing or does not have its option's type, the option is unchanged and a
    /// warning is recorded.
    ///
    /// # Errors
    /// A value is missing without which stock programs do not start, or the name is invalid.
    pub fn take(&mut self, args: &mut Vec<String>, own: impl Fn(&str) -> bool) -> Result<(), ConfError> {
        let mut rest = Vec::with_capacity(args.len());
        let mut words = std::mem::take(args).into_iter();
        while let Some(word) = words.next() {
            if word == "--" {
                rest.push(word);
                rest.extend(words.by_ref());
                break;
            }
            let (flag, inline) = match word.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value)),
                _ => (word.as_str(), None),
            };
            match asks(flag, inline).filter(|_| !own(flag)) {
                None => rest.push(word),
                Some(Asks::Switch(option, on)) => self.set(option, if on { "true" } else { "false" }),
                Some(Asks::Debug) => DEBUG.iter().for_each(|(option, value)| self.set(option, value)),
                Some(Asks::Value(setting)) => {
                    let value = inline.map(str::to_owned).or_else(|| words.next());
                    self.apply(setting, flag, value)?;
                }
            }
        }
        *args = rest;
        Ok(())
    }

    fn apply(&mut self, setting: Setting, flag: &str, value: Option<String>) -> Result<(), ConfError> {
        let value = match (value, setting) {
            (Some(value), _) => value,
            (None, Setting::Option(option, false) | Setting::Default(option)) => {
                self.warnings.push(not_set(option, "", &format!("{flag} needs a value")));
                return Ok(());
            }
            (None, _) => return Err(ConfError::MissingValue(flag.to_owned())),
        };
        match setting {
            Setting::Conf => self.conf_file = Some(value),
            Setting::Cluster => self.cluster = Some(value),
            Setting::Name => self.name = Some(value.parse()?),
            Setting::Id => self.name = Some(EntityName { kind: EntityType::CLIENT, id: value }),
            Setting::Option(option, _) => {
                if let Some(value) = self.accepted(option, value) {
                    self.set(option.name, &value);
                }
            }
            Setting::Default(option) => {
                if let Some(value) = self.accepted(option, value) {
                    self.defaults.insert(option.name.to_owned(), value);
                }
            }
        }
        Ok(())
    }

    fn accepted(&mut self, option: Known, value: String) -> Option<String> {
        // Unlike in a file, only these four words are booleans here.
        let fits = !option.is_bool || ["true", "false", "1", "0"].contains(&value.as_str());
        let refused = || Rejected::new("true, false, 1 or 0 expected");
        match if fits { option.accept(&value) } else { Err(refused()) } {
            Ok(accepted) => {
                self.warnings.extend(accepted.warning);
                Some(accepted.value)
            }
            Err(why) => {
                self.warnings.push(not_set(option, &value, &why.why));
                None
            }
        }
    }
}

/// Returns the warning for a value that was not accepted.
pub(super) fn not_set(option: Known, value: &str, why: &str) -> String {
    let name = option.name;
    let value = value.escape_debug();
    format!(
        "parse error setting '{name}' to '{value}' ({why}): passed over; 'loligo config help {name}' shows what it may be"
    )
}

/// Returns the meaning of a word; `None` if stock programs do not know it.
fn asks(flag: &str, inline: Option<&str>) -> Option<Asks> {
    let option = |name: &str, needed| Some(Asks::Value(Setting::Option(table::known(name)?, needed)));
    match flag {
        "-c" => return Some(Asks::Value(Setting::Conf)),
        "-n" => return Some(Asks::Value(Setting::Name)),
        "-k" => return option("keyring", true),
        "-K" => return option("keyfile", true),
        "-m" => return option("mon_host", true),
        "-M" => return option("monmap", true),
        "-r" => return option("client_mountpoint", true),
        "-f" => return Some(Asks::Switch("daemonize", false)),
        "-d" => return Some(Asks::Debug),
        _ => {}
    }
    let name = flag.strip_prefix("--").filter(|name| !name.starts_with(['-', '_']))?.replace('-', "_");
    match (name.as_str(), inline) {
        ("conf", _) => return Some(Asks::Value(Setting::Conf)),
        ("cluster", _) => return Some(Asks::Value(Setting::Cluster)),
        ("name", _) => return Some(Asks::Value(Setting::Name)),
        ("id" | "user", _) => return Some(Asks::Value(Setting::Id)),
        ("bind", _) => return option("public_addr", true),
        ("keyring" | "keyfile" | "mon_host" | "monmap" | "client_mountpoint", _) => {
            return option(&name, true);
        }
        ("no_config_file", None) => return Some(Asks::Switch("no_config_file", true)),
        ("no_mon_config", None) => return Some(Asks::Switch(NO_MON_CONFIG, true)),
        ("mon_config", None) => return Some(Asks::Switch(NO_MON_CONFIG, false)),
        ("foreground", None) => return Some(Asks::Switch("daemonize", false)),
        _ => {}
    }
    if let Some(known) = table::known(&name) {
        return Some(match inline {
            // The next word is never its value.
            None if known.is_bool => Asks::Switch(known.name, true),
            _ => Asks::Value(Setting::Option(known, false)),
        });
    }
    if let Some(known) = name.strip_prefix("no_").and_then(table::known).filter(|known| known.is_bool) {
        return inline.is_none().then_some(Asks::Switch(known.name, false));
    }
    Some(Asks::Value(Setting::Default(name.strip_prefix("default_").and_then(table::known)?)))
}

/// The setting that disables the monitors' configuration. It is not an option of the table.
pub(super) const NO_MON_CONFIG: &str = "no_mon_config";

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn taken(said: &str) -> (Options, Vec<String>) {
        let (mut options, mut args) = (Options::default(), words(said));
        options.take(&mut args, |word| word == "-r").unwrap();
        (options, args)
    }

    #[test]
    fn options_of_the_table_are_taken_and_the_rest_is_left() {
        // As in rbd 16.2.15, which accepts them or reports them as unrecognised.
        for (said, left, option, value) in [
            ("--rbd-cache put o", "put o", "rbd_cache", Some("true")),
            ("--rbd-cache=false x", "x", "rbd_cache", Some("false")),
            ("--rbd_cache=0 x", "x", "rbd_cache", Some("false")),
            ("--rbd_cache false", "false", "rbd_cache", Some("true")),
            ("--no-rbd-cache x", "x", "rbd_cache", Some("false")),
            ("--no_rbd_cache x", "x", "rbd_cache", Some("false")),
            ("--no-rbd-cache=true", "--no-rbd-cache=true", "rbd_cache", None),
            ("--rbd_default-order 20 -N ns1", "-N ns1", "rbd_default_order", Some("20")),
            ("--rbd-cache-size=1K x", "x", "rbd_cache_size", Some("1024")),
            ("--no-rbd-cache-size", "--no-rbd-cache-size", "rbd_cache_size", None),
            ("--rbd__cache", "--rbd__cache", "rbd_cache", None),
            ("--RBD-cache", "--RBD-cache", "rbd_cache", None),
            ("--debug-rbd 5 -p q", "-p q", "debug_rbd", Some("5/5")),
            ("--debug-nosuch 5", "--debug-nosuch 5", "debug_nosuch", None),
            ("--osd-max-backfills=3", "", "osd_max_backfills", Some("3")),
            ("--nosuch=1 stray", "--nosuch=1 stray", "nosuch", None),
            ("--no-such --all", "--no-such --all", "such", None),
            ("-- --rbd-cache", "-- --rbd-cache", "rbd_cache", None),
            ("--log-to-stderr true", "true", "log_to_stderr", Some("true")),
            ("-d ls", "ls", "log_to_stderr", Some("true")),
            ("-f ls", "ls", "daemonize", Some("false")),
            ("--setuser root ls", "ls", "setuser", Some("root")),
            ("-M /m ls", "ls", "monmap", Some("/m")),
            ("-r /m ls", "-r /m ls", "client_mountpoint", None),
            ("--bdev-async-discard-threads 2", "", "bdev_async_discard_threads", Some("2")),
            ("-m h -k ring", "", "mon_host", Some("h")),
        ] {
            let (options, rest) = taken(said);
            assert_eq!(rest, words(left), "{said}");
            assert_eq!(options.settings.get(option).map(String::as_str), value, "{said}");
            assert!(options.warnings.is_empty(), "{said}: {:?}", options.warnings);
        }
    }

    #[test]
    fn bad_values_are_passed_over_with_a_word() {
        // As in rbd 16.2.15, which reports `parse error setting` and continues.
        for (said, option) in [
            ("--rbd-cache=maybe", "rbd_cache"),
            ("--rbd-cache=yes", "rbd_cache"),
            ("--rbd-cache=2", "rbd_cache"),
            ("--rbd-cache=TRUE", "rbd_cache"),
            ("--rbd-cache=", "rbd_cache"),
            ("--rados-osd-op-timeout=-1", "rados_osd_op_timeout"),
            ("--rados-osd-op-timeout", "rados_osd_op_timeout"),
            ("--rbd-default-order=", "rbd_default_order"),
            ("--objecter-inflight-ops=1x", "objecter_inflight_ops"),
            ("--debug-ms=x", "debug_ms"),
            ("--debug-ms 100", "debug_ms"),
            ("--debug-ms", "debug_ms"),
            ("--fsid zz", "fsid"),
            ("--public-addr=zz", "public_addr"),
            ("--osd-op-queue=zz", "osd_op_queue"),
            ("--rbd-default-clone-format=9", "rbd_default_clone_format"),
            ("--rbd-default-features nosuch", "rbd_default_features"),
            ("--rbd-default-features 9999", "rbd_default_features"),
            ("--log-file", "log_file"),
        ] {
            let (options, rest) = taken(said);
            assert!(rest.is_empty() && !options.settings.contains_key(option), "{said}: {options:?}");
            let start = format!("parse error setting '{option}' to '");
            assert!(options.warnings.iter().all(|warning| warning.starts_with(&start)), "{options:?}");
            assert_eq!(options.warnings.len(), 1, "{said}");
        }
        let (options, _) = taken("--rbd-cache-size 5M --rbd-cache-size 5X");
        assert_eq!(options.settings["rbd_cache_size"], "5242880", "what was before is kept");
    }

    #[test]
    fn names_and_files_are_taken() {
        let (options, rest) = taken("-p pool --id a put -k ring --ms-client-mode=secure obj file -- -c d");
        assert_eq!(rest, words("-p pool put obj file -- -c d"));
        assert_eq!(options.name.unwrap().to_string(), "client.a");
        assert_eq!(options.settings["keyring"], "ring");
        assert_eq!(options.settings["ms_client_mode"], "secure");
        assert_eq!(taken("--default-rbd-cache-size 4K").0.defaults["rbd_cache_size"], "4096");
        for fatal in ["-c", "--keyring", "--mon-host", "--id", "-n nonsense"] {
            assert!(Options::default().take(&mut words(fatal), |_| false).is_err(), "{fatal}");
        }
        assert!(takes_next_word("--debug-ms") && takes_next_word("-m"));
        assert!(!takes_next_word("--rbd-cache") && !takes_next_word("-d") && !takes_next_word("--nosuch"));
    }
}
