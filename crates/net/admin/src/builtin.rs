//! The commands and options of every program.

use loligo_lockstat::{Mode, Report, mode, report, reset, set_mode};
use serde_json::{Map, Value, json};

use crate::command::{Answer, Command};
use crate::failure::Failure;
use crate::log;
use crate::option::ConfigOption;
use crate::request::Request;
use crate::table::Admin;

/// The protocol's version, as Ceph's servers report it.
const PROTOCOL_VERSION: &str = "2";

impl Default for Admin {
    fn default() -> Self {
        Self::new()
    }
}

impl Admin {
    /// The commands and options that every program has.
    pub fn new() -> Self {
        let admin = Self::empty();
        register(&admin);
        log::register(&admin);
        admin
    }

    /// Changes a setting.
    ///
    /// # Errors
    /// There is none of this name, it cannot be changed, or not to this value.
    pub fn change(&self, name: &str, value: &str) -> Result<(), Failure> {
        change(self, name, value)
    }
}

/// A command about the table that it stands in, which it must not own: that would keep both, and all that
/// other commands own, for ever.
fn of_table(admin: &Admin, prefix: &str, help: &str, run: fn(&Admin, &Request) -> Answer) -> Command {
    let table = admin.downgrade();
    Command::new(prefix, help, move |request| {
        let gone = || Failure::new("the table of commands is gone");
        run(&table.upgrade().ok_or_else(gone)?, request)
    })
}

/// Adds them all.
fn register(admin: &Admin) {
    register_about(admin);
    register_config(admin);
    register_lock_stat(admin);
    let shown = || mode().name().to_owned();
    admin.option(ConfigOption::new("lock_stat_mode", shown).settable(set_mode_named));
}

fn register_about(admin: &Admin) {
    admin.command(Command::new("0", "", |_| Ok(PROTOCOL_VERSION.to_owned())));
    let version = |request: &Request| {
        let version =
            concat!("loligo version ", env!("CARGO_PKG_VERSION"), " (as ceph version 16.2, pacific)");
        Ok(request.json(&json!({ "version": version, "release": "pacific", "release_type": "stable" })))
    };
    admin.command(Command::new("version", "The program's version.", version));
    admin.command(of_table(admin, "help", "All commands.", |admin, request| {
        let commands = admin.commands();
        let shown = commands.iter().filter(|c| !c.help.is_empty());
        let help: Map<String, Value> = shown.map(|c| (c.prefix.clone(), json!(c.help))).collect();
        Ok(request.json(&Value::Object(help)))
    }));
    admin.command(of_table(admin, "get_command_descriptions", "All commands, for programs.", |admin, _| {
        let commands = admin.commands();
        let shown = commands.iter().filter(|c| !c.help.is_empty()).enumerate();
        let all: Map<String, Value> = shown.map(|(n, c)| (format!("cmd{n:03}"), c.describe())).collect();
        Ok(Value::Object(all).to_string())
    }));
}

fn register_config(admin: &Admin) {
    admin.command(of_table(admin, "config show", "All settings.", |admin, request| {
        let all: Map<String, Value> =
            admin.options().iter().map(|option| (option.name.clone(), json!((option.get)()))).collect();
        Ok(request.json(&Value::Object(all)))
    }));

    let get = of_table(admin, "config get", "One setting.", |admin, request| {
        let name = request.arg("var").unwrap_or_default();
        let option = admin.find_option(name);
        let option = option.ok_or_else(|| no_option(&format!("error getting '{name}'")))?;
        let mut shown = Map::new();
        shown.insert(option.name.clone(), json!((option.get)()));
        Ok(request.json(&Value::Object(shown)))
    });
    admin.command(get.required("var", &[]));

    let set = of_table(admin, "config set", "Change a setting until the program ends.", |admin, request| {
        let (name, value) = (request.arg("var").unwrap_or_default(), request.arg("val").unwrap_or_default());
        change(admin, name, value)?;
        Ok(request.json(&json!({ "success": "" })))
    });
    admin.command(set.required("var", &[]).rest("val"));

    let help = "Change settings until the program ends, given as options of a command line.";
    let inject = of_table(admin, "injectargs", help, |admin, request| {
        for (name, value) in options(request.arg("injected_args").unwrap_or_default())? {
            if admin.find_option(&name).is_none() {
                return Err(Failure::new(format!("failed to parse arguments: --{name} {value}")));
            }
            change(admin, &name, &value)?;
        }
        Ok(request.json(&json!({})))
    });
    admin.command(inject.rest("injected_args"));
}

/// Parses any number of `--name value` and `--name=value`.
fn options(text: &str) -> Result<Vec<(String, String)>, Failure> {
    let mut words = text.split_whitespace();
    let mut options = Vec::new();
    while let Some(word) = words.next() {
        let option = word.strip_prefix("--").filter(|option| !option.is_empty());
        let option = option.ok_or_else(|| Failure::new(format!("failed to parse arguments: {word}")))?;
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, words.next()),
        };
        let value = value.ok_or_else(|| Failure::new(format!("Option --{name} requires an argument.")))?;
        options.push((name.to_owned(), value.to_owned()));
    }
    Ok(options)
}

fn change(admin: &Admin, name: &str, value: &str) -> Result<(), Failure> {
    let what = || format!("error setting '{name}' to '{value}'");
    let option = admin.find_option(name).ok_or_else(|| no_option(&what()))?;
    let set = option.set.as_ref();
    let set = set.ok_or_else(|| Failure::new(format!("{name} does not change while the program runs")))?;
    set(value).map_err(|why| Failure::new(format!("{}: {why}", what())))
}

fn no_option(what: &str) -> Failure {
    Failure::missing(format!("{what}: (2) No such file or directory; 'config show' lists what there is"))
}

fn register_lock_stat(admin: &Admin) {
    let formats = ["text", "json", "json-pretty", "prometheus"];
    let show = |request: &Request| Ok(render(&report(), request.arg("format")));
    let command = Command::new("lock_stat", "Who waited for whose lock and how long.", show);
    admin.command(command.optional("format", &formats));

    let forget = |_: &Request| {
        reset();
        Ok("forgotten\n".to_owned())
    };
    admin.command(Command::new("lock_stat reset", "Forget what the locks have measured.", forget));

    let switch = |request: &Request| {
        if let Some(mode) = request.arg("mode") {
            set_mode_named(mode)?;
        }
        Ok(format!("{}\n", mode().name()))
    };
    let help = "Show or set what the locks measure: nothing, who waits, or every hold.";
    admin.command(Command::new("lock_stat mode", help, switch).optional("mode", &Mode::ALL.map(Mode::name)));
}

fn render(report: &Report, format: Option<&str>) -> String {
    match format {
        Some("json") => report.to_json(),
        Some("json-pretty") => report.to_json() + "\n",
        Some("prometheus") => report.to_prometheus(),
        _ => report.to_text(),
    }
}

fn set_mode_named(name: &str) -> Result<(), Failure> {
    let known = Mode::ALL.into_iter().find(|mode| mode.name() == name);
    set_mode(known.ok_or_else(|| Failure::new(format!("'{name}' is not off, contended, full or exact")))?);
    Ok(())
}
