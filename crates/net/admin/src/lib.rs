//! Admin sockets: commands that inspect a running program and change its settings.
//!
//! - [`Admin`] is a table of commands and settings. [`Admin::new`] has those of every program: the
//!   version, `config show|get|set`, `lock_stat` and the log's levels. Each part of a program adds its
//!   own.
//! - [`AdminSocket`] serves a Unix socket with Ceph's protocol, so that the stock command `ceph
//!   --admin-daemon SOCKET COMMAND` can use it. It has a thread of its own, so that it answers even
//!   while the rest of the program is stuck.
//!
//! ```
//! use loligo_admin::{Admin, AdminSocket, Command};
//!
//! let admin = Admin::new();
//! admin.command(Command::new("greet", "Say hello.", |_| Ok("hello\n".to_owned())));
//! let path = std::env::temp_dir().join(format!("greeter.{}.asok", std::process::id()));
//! let socket = AdminSocket::open(&path, admin)?;
//! # drop(socket);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! This crate depends on neither servers nor clients, computes nothing that it shows, and its socket
//! accepts only the user who runs the program.
#![forbid(unsafe_code)]

mod builtin;
mod log;
mod protocol;
mod socket;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use loligo_lockstat::{Class, RwLock};
use serde::Serialize;
use serde_json::{Serializer, Value, json};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

pub use socket::{AdminSocket, listen_private};

/// Guards the tables of commands and options. Held for a lookup or an insertion, never while a command
/// runs.
static TABLES: Class = Class::new("admin.tables");

/// Time limit for a command.
const LASTING_MAX: Duration = Duration::from_secs(30);

/// Commands and options of an admin socket. Clones share one table.
#[derive(Clone)]
pub struct Admin(Arc<RwLock<Tables>>);

/// A weak reference to a table.
#[derive(Clone)]
pub struct WeakAdmin(Weak<RwLock<Tables>>);

impl WeakAdmin {
    /// Returns the table if it still exists.
    pub fn upgrade(&self) -> Option<Admin> {
        self.0.upgrade().map(Admin)
    }
}

#[derive(Default)]
struct Tables {
    commands: BTreeMap<String, Arc<Command>>,
    options: BTreeMap<String, Arc<ConfigOption>>,
}

impl Default for Admin {
    fn default() -> Self {
        Self::new()
    }
}

impl Admin {
    /// Creates a table with the commands and options of every program.
    pub fn new() -> Self {
        let admin = Self(Arc::new(RwLock::new(&TABLES, Tables::default())));
        builtin::register(&admin);
        log::register(&admin);
        admin
    }

    /// Adds a command, or replaces the one of the same name.
    pub fn command(&self, command: Command) {
        self.0.write().commands.insert(command.prefix.clone(), Arc::new(command));
    }

    /// Adds an option to `config show`, `config get` and `config set`, or replaces the one of the same
    /// name.
    pub fn option(&self, option: ConfigOption) {
        self.0.write().options.insert(option.name.clone(), Arc::new(option));
    }

    fn commands(&self) -> Vec<Arc<Command>> {
        self.0.read().commands.values().cloned().collect()
    }

    fn options(&self) -> Vec<Arc<ConfigOption>> {
        self.0.read().options.values().cloned().collect()
    }

    /// Names and values of all settings.
    pub fn values(&self) -> Vec<(String, String)> {
        self.options().iter().map(|option| (option.name.clone(), (option.get)())).collect()
    }

    /// Returns whether a setting with exactly this name can be changed.
    pub fn is_settable(&self, name: &str) -> bool {
        self.0.read().options.get(name).is_some_and(|option| option.set.is_some())
    }

    /// Changes a setting.
    ///
    /// # Errors
    /// There is no setting of this name, it cannot be changed, or the value is not valid.
    pub fn change(&self, name: &str, value: &str) -> Result<(), Failure> {
        builtin::change(self, name, value)
    }

    /// A weak reference, for a command in the table itself: a strong one would keep the table alive for
    /// ever.
    pub fn downgrade(&self) -> WeakAdmin {
        WeakAdmin(Arc::downgrade(&self.0))
    }

    /// Finds an option by its name, in which `-` and a space stand for `_`, as in Ceph.
    fn find_option(&self, name: &str) -> Option<Arc<ConfigOption>> {
        self.0.read().options.get(&name.replace(['-', ' '], "_")).cloned()
    }

    /// Returns the command with the longest name that is a prefix of `words`, and the remaining words.
    fn find<'a>(&self, words: &'a [String]) -> Option<(Arc<Command>, &'a [String])> {
        let tables = self.0.read();
        (1..=words.len()).rev().find_map(|n| {
            let command = tables.commands.get(&words[..n].join(" "))?;
            Some((Arc::clone(command), &words[n..]))
        })
    }

    /// Runs a request, given without its terminator, and returns the reply's text.
    async fn answer(&self, request: Vec<u8>) -> String {
        let answer = self.run_to_the_end(request).await.map_err(|refusal| match refusal {
            Refusal::Unknown(words) => format!("there is no command '{words}'; 'help' lists them"),
            Refusal::Misfit(failure) | Refusal::Failed(failure) => failure.to_string(),
        });
        answer.unwrap_or_else(|why| format!("ERROR: {why}\n"))
    }

    /// Runs a request that did not come through the socket: a JSON object, or bare words. Runs on the
    /// calling thread.
    ///
    /// # Errors
    /// The command does not exist or fails; or it is one that [takes its time](Command::lasting).
    pub fn run(&self, request: &[u8]) -> Result<String, Refusal> {
        self.run_with_status(request).map(|(answer, _)| answer)
    }

    /// Like `run`; also returns the command's status text for people.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_with_status(&self, request: &[u8]) -> Result<(String, String), Refusal> {
        match self.begin(request)? {
            Begun::Done(answer, status) => Ok((answer, status)),
            Begun::Lasting(_) => Err(Failure::new("this command is for the admin socket").into()),
        }
    }

    /// Runs each command on a thread of the blocking pool, where it may wait. On the socket's own thread
    /// a waiting command would delay the other connections, and could not drive a runtime.
    async fn run_to_the_end(&self, request: Vec<u8>) -> Result<String, Refusal> {
        let admin = self.clone();
        let late = |_| {
            let s = LASTING_MAX.as_secs();
            Failure::new(format!("not done after {s} s; it may still be"))
        };
        let begun =
            timeout(LASTING_MAX, spawn_blocking(move || admin.begin(&request))).await.map_err(late)?;
        match begun.map_err(|_| Failure::new("the command has failed; the log says more"))?? {
            Begun::Done(answer, _) => Ok(answer),
            Begun::Lasting(answer) => Ok(timeout(LASTING_MAX, answer).await.map_err(late)??),
        }
    }

    fn begin(&self, request: &[u8]) -> Result<Begun, Refusal> {
        let (words, mut request) = protocol::parse(request)?;
        let (command, rest) = self.find(&words).ok_or_else(|| Refusal::Unknown(words.join(" ")))?;
        command.bind(rest, &mut request).map_err(Refusal::Misfit)?;
        Ok(match &command.run {
            Run::Own(run) => Begun::Done(run(&request)?, String::new()),
            Run::Told(run) => {
                let (answer, status) = run(&request)?;
                Begun::Done(answer, status)
            }
            Run::OfTable(run) => Begun::Done(run(self, &request)?, String::new()),
            Run::Lasting(run) => Begun::Lasting(run(&request)),
        })
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.commands().into_iter().map(|c| c.prefix.clone());
        f.debug_list().entries(names).finish()
    }
}

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The error number, as on Linux.
    pub errno: i32,
    /// The reason, for people.
    pub why: String,
}

impl Failure {
    /// The request is not valid (EINVAL).
    pub fn new(why: impl Into<String>) -> Self {
        Self { errno: 22, why: why.into() }
    }

    /// The named object does not exist (ENOENT).
    pub fn missing(why: impl Into<String>) -> Self {
        Self { errno: 2, why: why.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No command matches these words.
    Unknown(String),
    /// The arguments do not match the command.
    Misfit(Failure),
    /// The command failed.
    Failed(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A reply's text, or the failure.
pub type Answer = Result<String, Failure>;

/// A reply that completes later.
pub type LastingAnswer = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A command that has been started.
enum Begun {
    /// The answer and the status text for people.
    Done(String, String),
    Lasting(LastingAnswer),
}

/// A command's answer and status text for people.
type Told = Result<(String, String), Failure>;

/// The function of a command.
enum Run {
    Own(Box<dyn Fn(&Request) -> Answer + Send + Sync>),
    Told(Box<dyn Fn(&Request) -> Told + Send + Sync>),
    Lasting(Box<dyn Fn(&Request) -> LastingAnswer + Send + Sync>),
    /// A command about the table that holds it. It must not own the table: the cycle would keep the
    /// table and all that other commands own alive for ever.
    OfTable(fn(&Admin, &Request) -> Answer),
}

/// A command: its name of one or more words, its arguments and its function.
///
/// A request of the admin socket runs it on a thread of the blocking pool, where it may wait; the
/// request fails after 30 s. A command made by [`lasting`](Command::lasting) replies asynchronously.
pub struct Command {
    prefix: String,
    help: String,
    args: Vec<Arg>,
    run: Run,
}

/// An argument. Required arguments come first.
struct Arg {
    name: String,
    required: bool,
    /// The allowed values; empty: any value.
    choices: Vec<String>,
    /// It takes all remaining words.
    takes_rest: bool,
    /// Its value is an integer.
    is_int: bool,
}

impl Command {
    /// Creates a command without arguments. `help` is one sentence.
    pub fn new(
        prefix: impl Into<String>,
        help: impl Into<String>,
        run: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self { prefix: prefix.into(), help: help.into(), args: Vec::new(), run: Run::Own(Box::new(run)) }
    }

    /// Creates a command with an asynchronous reply. The returned future is polled on the admin socket's
    /// thread and dropped if it has not completed after 30 s. Other requests do not wait for it.
    pub fn lasting(
        prefix: impl Into<String>,
        help: impl Into<String>,
        run: impl Fn(&Request) -> LastingAnswer + Send + Sync + 'static,
    ) -> Self {
        Self { prefix: prefix.into(), help: help.into(), args: Vec::new(), run: Run::Lasting(Box::new(run)) }
    }

    /// Creates a command that returns a status text for people in addition to its answer.
    pub fn with_status(
        prefix: impl Into<String>,
        help: impl Into<String>,
        run: impl Fn(&Request) -> Result<(String, String), Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { prefix: prefix.into(), help: help.into(), args: Vec::new(), run: Run::Told(Box::new(run)) }
    }

    fn of_table(prefix: &str, help: &str, run: fn(&Admin, &Request) -> Answer) -> Self {
        Self { prefix: prefix.into(), help: help.into(), args: Vec::new(), run: Run::OfTable(run) }
    }

    /// Adds a required argument.
    pub fn required(self, name: &str, choices: &[&str]) -> Self {
        self.arg(name, choices, true, false)
    }

    /// Adds a required integer.
    pub fn required_int(self, name: &str) -> Self {
        self.arg(name, &[], true, false).int()
    }

    /// Adds an optional integer.
    pub fn optional_int(self, name: &str) -> Self {
        self.arg(name, &[], false, false).int()
    }

    fn int(mut self) -> Self {
        if let Some(last) = self.args.last_mut() {
            last.is_int = true;
        }
        self
    }

    /// Adds an optional argument.
    pub fn optional(self, name: &str, choices: &[&str]) -> Self {
        self.arg(name, choices, false, false)
    }

    /// Adds a last argument that takes all remaining words, at least one.
    pub fn rest(self, name: &str) -> Self {
        self.arg(name, &[], true, true)
    }

    /// Adds a last argument that takes all remaining words, if any.
    pub fn optional_rest(self, name: &str) -> Self {
        self.arg(name, &[], false, true)
    }

    fn arg(mut self, name: &str, choices: &[&str], required: bool, takes_rest: bool) -> Self {
        let choices = choices.iter().map(|&choice| choice.to_owned()).collect();
        self.args.push(Arg { name: name.to_owned(), required, choices, takes_rest, is_int: false });
        self
    }

    /// Assigns words without a name to the arguments in order, and checks the request's values.
    fn bind(&self, mut words: &[String], request: &mut Request) -> Result<(), Failure> {
        for arg in &self.args {
            if !request.args.contains_key(&arg.name) && !words.is_empty() {
                let taken = if arg.takes_rest { words.len() } else { 1 };
                request.args.insert(arg.name.clone(), words[..taken].join(" "));
                words = &words[taken..];
            }
            arg.check(request.args.get(&arg.name).map(String::as_str))?;
        }
        match words {
            [] => Ok(()),
            [word, ..] => {
                Err(Failure::new(format!("'{}' does not know what to do with '{word}'", self.prefix)))
            }
        }
    }

    /// The description in `get_command_descriptions`, in the form that Ceph's `ceph_argparse.py` parses.
    fn describe(&self) -> Value {
        let words = self.prefix.split(' ').map(|word| json!(word));
        let sig: Vec<Value> = words.chain(self.args.iter().map(Arg::describe)).collect();
        json!({ "sig": sig, "help": self.help, "module": "", "perm": "", "flags": 0 })
    }
}

impl Arg {
    fn check(&self, value: Option<&str>) -> Result<(), Failure> {
        match value {
            None if self.required => Err(Failure::new(format!("missing: {}", self.name))),
            // Clients may ask for any format; an unknown one is treated as absent.
            Some(value) if self.name != "format" && !self.allows(value) => Err(Failure::new(format!(
                "{} is '{value}', not one of {}",
                self.name,
                self.choices.join(", ")
            ))),
            Some(value) if self.is_int && value.parse::<i64>().is_err() => {
                Err(Failure::new(format!("{} is '{value}', not a whole number", self.name)))
            }
            _ => Ok(()),
        }
    }

    fn allows(&self, value: &str) -> bool {
        self.choices.is_empty() || self.choices.iter().any(|choice| choice == value)
    }

    fn describe(&self) -> Value {
        let mut described = json!({ "name": self.name, "req": self.required.to_string() });
        described["type"] = json!(match () {
            () if self.is_int => "CephInt",
            () if self.choices.is_empty() => "CephString",
            () => "CephChoices",
        });
        if !self.choices.is_empty() {
            described["strings"] = json!(self.choices.join("|"));
        }
        if self.takes_rest {
            described["n"] = json!("N");
        }
        described
    }
}

/// The arguments of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    args: BTreeMap<String, String>,
}

impl Request {
    /// The value of an argument, if it was given.
    pub fn arg(&self, name: &str) -> Option<&str> {
        self.args.get(name).map(String::as_str)
    }

    /// Formats an answer as JSON: on one line if the client asked for the format `json`, else indented.
    pub fn json(&self, value: &Value) -> String {
        if self.arg("format") == Some("json") {
            return value.to_string();
        }
        let mut out = Vec::new();
        let indent = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        let written = value.serialize(&mut Serializer::with_formatter(&mut out, indent));
        match written.map(|()| String::from_utf8(out)) {
            Ok(Ok(text)) => text + "\n",
            _ => value.to_string(),
        }
    }
}

type Get = Box<dyn Fn() -> String + Send + Sync>;
type Set = Box<dyn Fn(&str) -> Result<(), Failure> + Send + Sync>;

/// A named setting of the running program.
pub struct ConfigOption {
    name: String,
    get: Get,
    set: Option<Set>,
}

impl ConfigOption {
    /// Creates a read-only setting. `name` is written as in Ceph's configuration, with `_`.
    pub fn new(name: impl Into<String>, get: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self { name: name.into(), get: Box::new(get), set: None }
    }

    /// Makes the setting changeable while the program runs.
    pub fn settable(mut self, set: impl Fn(&str) -> Result<(), Failure> + Send + Sync + 'static) -> Self {
        self.set = Some(Box::new(set));
        self
    }
}

#[cfg(test)]
mod tests;
