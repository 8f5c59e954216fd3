//! `config get | set | unset | show | diff | help` and `injectargs` of one running daemon. A value set
//! at the daemon lasts until the process ends, and takes precedence over the configuration database.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use loligo_admin::{Admin, Command, Failure, Request, WeakAdmin};
use loligo_conf::table::{self, OptionFacts};
use loligo_mon::output::json::Node;
use loligo_mon::state::State;
use loligo_mon::{MonService, command, object};
use loligo_wire::{EntityName, EntityType, Errno, UTime};
use tokio::runtime::Handle;

use super::render::{Shape, shaped};
use super::watched::is_watched;

/// The settings of one daemon.
struct Settings {
    who: EntityName,
    mon: Weak<MonService>,
    admin: WeakAdmin,
    runtime: Handle,
}

/// Why a setting was not changed.
struct Refused {
    errno: Errno,
    why: String,
}

impl Refused {
    fn of(errno: Errno, why: impl Into<String>) -> Self {
        Self { errno, why: why.into() }
    }

    fn said(&self) -> String {
        format!("({}) {}", self.errno.0, self.errno.words().unwrap_or_default())
    }
}

/// Adds the commands for a daemon.
pub(super) fn register(admin: &Admin, mon: &Arc<MonService>, kind: EntityType, id: &str) {
    let who = EntityName { kind, id: id.to_owned() };
    let settings =
        Settings { who, mon: Arc::downgrade(mon), admin: admin.downgrade(), runtime: Handle::current() };
    let settings = Arc::new(settings);
    type Act = fn(&Settings, &Request) -> Result<Node, Failure>;
    let make = |prefix: &str, help: &str, root: &'static str, act: Act| {
        let settings = Arc::clone(&settings);
        shaped(prefix, help, Shape::of(root), move |request| act(&settings, request))
    };
    admin.command(make("config show", "All settings.", "config_show", Settings::show));
    admin.command(make("config get", "One setting.", "config_get", Settings::get).required("var", &[]));
    let set = make("config set", "Change a setting until the daemon ends.", "config_set", Settings::set);
    admin.command(set.required("var", &[]).rest("val"));
    admin.command(make(
        "config diff",
        "Settings that are not what they are by default.",
        "config_diff",
        Settings::diff,
    ));
    let diff = make(
        "config diff get",
        "The same; whatever is named, all are shown, as by stock.",
        "config_diff",
        Settings::diff,
    );
    admin.command(diff.required("var", &[]));
    admin.command(
        make("config help", "What is known of a setting, or of all.", "config_help", help)
            .optional("var", &[]),
    );
    for (prefix, help, act) in [
        ("config unset", "Take back what was said to the daemon.", Settings::unset as Told),
        (
            "injectargs",
            "Change settings until the daemon ends, given as options of a command line.",
            Settings::inject,
        ),
    ] {
        let settings = Arc::clone(&settings);
        let root = if prefix == "injectargs" { "injectargs" } else { "config_unset" };
        let run = move |request: &Request| {
            let status = act(&settings, request)?;
            Ok((Shape::of(root).print(request, &Node::Object(Vec::new())), status))
        };
        let command = Command::with_status(prefix, help, run);
        admin.command(match prefix {
            "injectargs" => command.optional_rest("injected_args"),
            _ => command.required("var", &[]),
        });
    }
}

/// A command that has a status text beside an empty reply.
type Told = fn(&Settings, &Request) -> Result<String, Failure>;

impl Settings {
    /// Runs `ask` with the monitor's state.
    fn ask<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut State) -> R + Send + 'static,
    ) -> Result<R, Failure> {
        let stopped = || Failure::new("the monitor has stopped");
        let mon = self.mon.upgrade().ok_or_else(stopped)?;
        let ask = move |state: &mut State, _: UTime| ask(state);
        // Commands run on threads of their own, which may block.
        self.runtime.block_on(mon.call(ask)).map_err(|_| stopped())
    }

    /// Returns the values set in the configuration database, the values set at the daemon, and the
    /// process's own settings.
    fn set_values(&self) -> Result<[BTreeMap<String, String>; 3], Failure> {
        let own: BTreeMap<String, String> =
            self.admin.upgrade().map(|admin| admin.values()).unwrap_or_default().into_iter().collect();
        let who = self.who.clone();
        let [mon, said] = self.ask(move |state| {
            let place = state.place_of(&who);
            let mon = state.config().settings_at(&who, &place).into_iter();
            let mon = mon.map(|(name, (_, value))| (name.to_owned(), value.to_owned())).collect();
            let said = table::all().filter_map(|option| {
                state.overridden(&who, option.name).map(|value| (option.name.to_owned(), value.to_owned()))
            });
            [mon, said.collect()]
        })?;
        Ok([mon, said, own])
    }

    fn value(&self, name: &str) -> Result<Option<String>, Failure> {
        let [mon, said, own] = self.set_values()?;
        let set = [said, own, mon].iter().find_map(|values| values.get(name).cloned());
        Ok(set.or_else(|| table::find(name).map(|option| option.default_for(&self.who))))
    }

    fn get(&self, request: &Request) -> Result<Node, Failure> {
        let name = request.arg("var").unwrap_or_default();
        let missing = || Failure::missing(format!("error getting '{name}': (2) No such file or directory"));
        let value = self.value(name)?.ok_or_else(missing)?;
        Ok(Node::map([(name, value)]))
    }

    fn show(&self, _: &Request) -> Result<Node, Failure> {
        let [mon, said, own] = self.set_values()?;
        let mut all: BTreeMap<String, String> =
            table::all().map(|option| (option.name.to_owned(), option.default_for(&self.who))).collect();
        [mon, own, said].into_iter().for_each(|values| all.extend(values));
        let mut node = object! { "name": self.who.to_string(), "cluster": "ceph" };
        all.iter().for_each(|(name, value)| node.push(name, value.as_str()));
        Ok(node)
    }

    fn diff(&self, _: &Request) -> Result<Node, Failure> {
        let [mon, said, own] = self.set_values()?;
        let mut diff = Node::Object(Vec::new());
        let mut options: Vec<_> = table::all().collect();
        options.sort_unstable_by_key(|option| option.name);
        for option in options {
            let default = option.default_for(&self.who);
            let sources = [("mon", &mon), ("file", &own), ("override", &said)];
            let set: Vec<_> = sources
                .iter()
                .filter_map(|(source, values)| Some((*source, values.get(option.name)?)))
                .collect();
            let Some((_, last)) = set.last() else { continue };
            if **last == default {
                continue;
            }
            let mut node = object! { "default": typed(option, &default) };
            set.iter().for_each(|(source, value)| node.push(source, typed(option, value)));
            node.push("final", typed(option, last));
            diff.push(option.name, node);
        }
        Ok(object! { "diff": diff })
    }

    fn set(&self, request: &Request) -> Result<Node, Failure> {
        let (name, value) = (request.arg("var").unwrap_or_default(), request.arg("val").unwrap_or_default());
        let said = self.change(name, value).map_err(|refused| Failure {
            errno: refused.errno,
            why: format!("error setting '{name}' to '{value}': {}", refused.said()),
        })?;
        Ok(object! { "success": said })
    }

    fn unset(&self, request: &Request) -> Result<String, Failure> {
        let name = request.arg("var").unwrap_or_default().to_owned();
        if table::find(&name).is_none() {
            return Err(Failure::new(format!("error unsetting '{name}': (22) Invalid argument")));
        }
        let before = self.value(&name)?;
        let (who, option) = (self.who.clone(), name.clone());
        self.ask(move |state| state.set_override(&who, &option, None))?;
        let after = self.value(&name)?;
        Ok(if before == after { String::new() } else { self.changed(&name, &after.unwrap_or_default()) })
    }

    /// Changes a setting, and returns the reply of a stock daemon.
    fn change(&self, name: &str, value: &str) -> Result<String, Refused> {
        let stopped = |failure: Failure| Refused::of(Errno::EINVAL, failure.why);
        let admin =
            self.admin.upgrade().ok_or_else(|| Refused::of(Errno::EINVAL, "the server has stopped"))?;
        let option = table::find(name).filter(|option| option.name == name);
        if admin.is_settable(name) {
            admin.change(name, value).map_err(|failure| Refused::of(Errno::EINVAL, failure.why))?;
            return Ok(String::new());
        }
        let option = option.ok_or_else(|| Refused::of(Errno::ENOENT, "there is no such option"))?;
        if !option.at_runtime {
            let why = format!("Configuration option '{name}' may not be modified at runtime");
            return Err(Refused::of(Errno::EPERM, why));
        }
        let value = option.parse_value(value).map_err(|rejected| Refused::of(Errno::EINVAL, rejected.why))?;
        if self.value(name).map_err(stopped)?.as_deref() == Some(&value) {
            return Ok(String::new());
        }
        let (who, option, new) = (self.who.clone(), name.to_owned(), value.clone());
        self.ask(move |state| state.set_override(&who, &option, Some(&new))).map_err(stopped)?;
        Ok(self.changed(name, &value))
    }

    fn changed(&self, name: &str, value: &str) -> String {
        let note =
            if is_watched(self.who.kind, name) { "" } else { "(not observed, change may require restart) " };
        if table::find(name).is_some_and(|option| option.kind() == "level") {
            return String::new();
        }
        format!("{name} = '{value}' {note}")
    }

    fn inject(&self, request: &Request) -> Result<String, Failure> {
        let (options, left) = options(request.arg("injected_args").unwrap_or_default());
        let (mut said, mut wrong, mut errno) = (String::new(), String::new(), Errno::EINVAL);
        for (name, value) in options {
            let Some(value) = value else {
                wrong += &format!("Option --{name} requires an argument.\n");
                continue;
            };
            match self.change(&name, &value) {
                Ok(text) => said += &text,
                Err(refused) => {
                    wrong += &format!(
                        "Parse error setting {name} to '{value}' using injectargs ({}).\n",
                        refused.why
                    );
                    errno = refused.errno;
                }
            }
        }
        if !left.is_empty() {
            wrong += &format!(" failed to parse arguments: {}\n", left.join(","));
        }
        if wrong.is_empty() { Ok(said) } else { Err(Failure { errno, why: wrong }) }
    }
}

fn help(_: &Settings, request: &Request) -> Result<Node, Failure> {
    let Some(name) = request.arg("var") else {
        return Ok(object! { "options": Node::array(table::all().map(command::option_facts)) });
    };
    let missing = || Failure::missing(format!("Setting not found: '{name}'"));
    let option = table::find(name).ok_or_else(missing)?;
    Ok(object! { "option": command::option_facts(option) })
}

/// Converts a value to the type that stock prints in `config diff`.
fn typed(option: &OptionFacts, value: &str) -> Node {
    let number = match option.kind() {
        "bool" => return Node::from(matches!(value, "true" | "1" | "yes" | "on")),
        "int" | "uint" => value.parse::<i64>().ok().map(Node::from),
        "float" => value.parse::<f64>().ok().map(Node::from),
        _ => None,
    };
    number.unwrap_or_else(|| Node::from(value))
}

/// Parses `--name value`, `--name=value`, and `--name` and `--no-name` of boolean options. Returns the
/// options and the words that are not options.
fn options(text: &str) -> (Vec<(String, Option<String>)>, Vec<String>) {
    let (mut options, mut left) = (Vec::new(), Vec::new());
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (word, None),
        };
        let Some(name) = option.strip_prefix("--").map(|name| name.replace('-', "_")) else {
            left.push(word.to_owned());
            continue;
        };
        let is_bool = |name: &str| table::find(name).is_some_and(OptionFacts::is_bool);
        let negated = name.strip_prefix("no_").filter(|name| is_bool(name));
        if let (Some(name), None) = (negated, &value) {
            options.push((name.to_owned(), Some("false".to_owned())));
        } else if table::find(&name).is_none()
            && !name.starts_with("lock_stat")
            && !name.starts_with("debug_")
        {
            left.push(word.to_owned());
        } else if is_bool(&name) && value.is_none() {
            let said = words.next_if(|word| matches!(*word, "true" | "false" | "1" | "0"));
            options.push((name, Some(said.unwrap_or("true").to_owned())));
        } else {
            options.push((name, value.or_else(|| words.next().map(str::to_owned))));
        }
    }
    (options, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_command_line_are_told_apart() {
        let some = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        for (text, found, left) in [
            ("--debug-osd 5", vec![some("debug_osd", "5")], vec![]),
            (
                "--osd_max_backfills=3 --osd_recovery_sleep 0.5",
                vec![some("osd_max_backfills", "3"), some("osd_recovery_sleep", "0.5")],
                vec![],
            ),
            ("--no-mon-allow-pool-delete", vec![some("mon_allow_pool_delete", "false")], vec![]),
            ("--mon-allow-pool-delete", vec![some("mon_allow_pool_delete", "true")], vec![]),
            ("--mon-allow-pool-delete false", vec![some("mon_allow_pool_delete", "false")], vec![]),
            ("--osd_max_backfills", vec![("osd_max_backfills".to_owned(), None)], vec![]),
            ("--nosuch=3 word", vec![], vec!["--nosuch=3".to_owned(), "word".to_owned()]),
        ] {
            assert_eq!(options(text), (found, left), "{text}");
        }
    }
}
