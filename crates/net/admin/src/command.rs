//! What a command is: its name, its arguments, and what it does.

use std::pin::Pin;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::request::Request;

/// A reply's text, or why there is none.
pub type Answer = Result<String, Failure>;

/// A reply that comes later.
pub type LastingAnswer = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// What a command answers, and what is for people beside it.
pub(crate) type Told = Result<(String, String), Failure>;

/// What a command does.
pub(crate) enum Run {
    Own(Box<dyn Fn(&Request) -> Answer + Send + Sync>),
    Told(Box<dyn Fn(&Request) -> Told + Send + Sync>),
    Lasting(Box<dyn Fn(&Request) -> LastingAnswer + Send + Sync>),
}

/// A command: its name, which may have several words, its arguments, and what it does.
///
/// It runs on the admin socket's thread and keeps other requests waiting, so it must be short, unless it
/// [takes its time](Command::lasting).
pub struct Command {
    pub(crate) prefix: String,
    pub(crate) help: String,
    args: Vec<Arg>,
    pub(crate) run: Run,
}

/// An argument. Those that are required come first.
struct Arg {
    name: String,
    required: bool,
    /// What it may be; anything if there are none.
    choices: Vec<String>,
    /// It takes all words that are left.
    takes_rest: bool,
    /// It is a whole number.
    is_int: bool,
}

impl Command {
    /// A command without arguments. `help` is one sentence.
    pub fn new(
        prefix: impl Into<String>,
        help: impl Into<String>,
        run: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self { prefix: prefix.into(), help: help.into(), args: Vec::new(), run: Run::Own(Box::new(run)) }
    }

    /// A command whose reply comes later; other requests do not wait for it. What it returns is polled on the
    /// admin socket's thread, and given up if the reply has not come after half a minute.
    pub fn lasting(
        prefix: impl Into<String>,
        help: impl Into<String>,
        run: impl Fn(&Request) -> LastingAnswer + Send + Sync + 'static,
    ) -> Self {
        Self { prefix: prefix.into(), help: help.into(), args: Vec::new(), run: Run::Lasting(Box::new(run)) }
    }

    /// A command that has something to tell people beside its answer.
    pub fn with_status(
        prefix: impl Into<String>,
        help: impl Into<String>,
        run: impl Fn(&Request) -> Result<(String, String), Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { prefix: prefix.into(), help: help.into(), args: Vec::new(), run: Run::Told(Box::new(run)) }
    }

    /// Adds an argument that must be given.
    pub fn required(self, name: &str, choices: &[&str]) -> Self {
        self.arg(name, choices, true, false)
    }

    /// Adds a whole number that must be given.
    pub fn required_int(self, name: &str) -> Self {
        self.arg(name, &[], true, false).int()
    }

    /// Adds a whole number that may be given.
    pub fn optional_int(self, name: &str) -> Self {
        self.arg(name, &[], false, false).int()
    }

    fn int(mut self) -> Self {
        if let Some(last) = self.args.last_mut() {
            last.is_int = true;
        }
        self
    }

    /// Adds an argument that may be given.
    pub fn optional(self, name: &str, choices: &[&str]) -> Self {
        self.arg(name, choices, false, false)
    }

    /// Adds a last argument that takes all remaining words, at least one.
    pub fn rest(self, name: &str) -> Self {
        self.arg(name, &[], true, true)
    }

    /// Adds a last argument that takes all words that are left, if there are any.
    pub fn optional_rest(self, name: &str) -> Self {
        self.arg(name, &[], false, true)
    }

    fn arg(mut self, name: &str, choices: &[&str], required: bool, takes_rest: bool) -> Self {
        let choices = choices.iter().map(|&choice| choice.to_owned()).collect();
        self.args.push(Arg { name: name.to_owned(), required, choices, takes_rest, is_int: false });
        self
    }

    /// Gives words without a name to the arguments in their order, and checks what the request says.
    pub(crate) fn bind(&self, mut words: &[String], request: &mut Request) -> Result<(), Failure> {
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

    /// As `get_command_descriptions` gives it: the form that Ceph's `ceph_argparse.py` reads.
    pub(crate) fn describe(&self) -> Value {
        let words = self.prefix.split(' ').map(|word| json!(word));
        let sig: Vec<Value> = words.chain(self.args.iter().map(Arg::describe)).collect();
        json!({ "sig": sig, "help": self.help, "module": "", "perm": "", "flags": 0 })
    }
}

impl Arg {
    fn check(&self, value: Option<&str>) -> Result<(), Failure> {
        match value {
            None if self.required => Err(Failure::new(format!("missing: {}", self.name))),
            // Any program may ask for any format; what is not known here is answered as if it had not.
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
