//! The table of commands and settings, and how a request is carried out.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use loligo_lockstat::{Class, RwLock};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::command::{Command, LastingAnswer, Run};
use crate::failure::{Failure, Refusal};
use crate::option::ConfigOption;
use crate::protocol;

/// Guards the tables of commands and options; held to look one up or to add one, never while one runs.
static TABLES: Class = Class::new("admin.tables");

/// How long a command that takes its time may take.
const LASTING_MAX: Duration = Duration::from_secs(30);

/// Commands and options of an admin socket. Clones are the same.
#[derive(Clone)]
pub struct Admin(Arc<RwLock<Tables>>);

/// A table that is there as long as somebody owns it.
#[derive(Clone)]
pub struct WeakAdmin(Weak<RwLock<Tables>>);

impl WeakAdmin {
    /// The table, if it is still there.
    pub fn upgrade(&self) -> Option<Admin> {
        self.0.upgrade().map(Admin)
    }
}

#[derive(Default)]
struct Tables {
    commands: BTreeMap<String, Arc<Command>>,
    options: BTreeMap<String, Arc<ConfigOption>>,
}

impl Admin {
    /// A table without anything.
    pub(crate) fn empty() -> Self {
        Self(Arc::new(RwLock::new(&TABLES, Tables::default())))
    }

    /// Adds a command; one of the same name is replaced.
    pub fn command(&self, command: Command) {
        self.0.write().commands.insert(command.prefix.clone(), Arc::new(command));
    }

    /// Adds an option to `config show`, `config get` and `config set`; one of the same name is replaced.
    pub fn option(&self, option: ConfigOption) {
        self.0.write().options.insert(option.name.clone(), Arc::new(option));
    }

    pub(crate) fn commands(&self) -> Vec<Arc<Command>> {
        self.0.read().commands.values().cloned().collect()
    }

    pub(crate) fn options(&self) -> Vec<Arc<ConfigOption>> {
        self.0.read().options.values().cloned().collect()
    }

    /// All settings' names and values.
    pub fn values(&self) -> Vec<(String, String)> {
        self.options().iter().map(|option| (option.name.clone(), (option.get)())).collect()
    }

    /// Whether a setting of exactly this name can be changed.
    pub fn is_settable(&self, name: &str) -> bool {
        self.0.read().options.get(name).is_some_and(|option| option.set.is_some())
    }

    /// The same table, for a command that stands in it: one that owned the table would keep it for ever.
    pub fn downgrade(&self) -> WeakAdmin {
        WeakAdmin(Arc::downgrade(&self.0))
    }

    /// By its name, in which Ceph's programs may write `-` or a space for `_`.
    pub(crate) fn find_option(&self, name: &str) -> Option<Arc<ConfigOption>> {
        self.0.read().options.get(&name.replace(['-', ' '], "_")).cloned()
    }

    /// The command with the longest name that begins the given words, and what is left of them.
    fn find<'a>(&self, words: &'a [String]) -> Option<(Arc<Command>, &'a [String])> {
        let tables = self.0.read();
        (1..=words.len()).rev().find_map(|n| {
            let command = tables.commands.get(&words[..n].join(" "))?;
            Some((Arc::clone(command), &words[n..]))
        })
    }

    /// Carries out a request as it came, without its terminator, and gives the text of the reply. `place` is
    /// kept as long as the command runs, which may be longer than this waits for it.
    pub(crate) async fn answer(&self, request: Vec<u8>, place: impl Send + 'static) -> String {
        let answer = self.run_to_the_end(request, place).await.map_err(|refusal| match refusal {
            Refusal::Unknown(words) => format!("there is no command '{words}'; 'help' lists them"),
            Refusal::Misfit(failure) | Refusal::Failed(failure) => failure.to_string(),
        });
        answer.unwrap_or_else(|why| format!("ERROR: {why}\n"))
    }

    /// Carries out a request that came another way than through the socket: a JSON object, or bare words.
    ///
    /// # Errors
    /// There is no such command, or it cannot do what it is asked; it is one that [takes its
    /// time](Command::lasting).
    pub fn run(&self, request: &[u8]) -> Result<String, Refusal> {
        self.run_with_status(request).map(|(answer, _)| answer)
    }

    /// The same, with what is for people beside the answer.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn run_with_status(&self, request: &[u8]) -> Result<(String, String), Refusal> {
        match self.begin(request)? {
            Begun::Done(answer, status) => Ok((answer, status)),
            Begun::Lasting(_) => Err(Failure::new("this command is for the admin socket").into()),
        }
    }

    /// A command may wait, so each runs on a thread where it may: one that waited on the socket's own thread
    /// would make the other connections wait, and could not drive a runtime.
    async fn run_to_the_end(&self, request: Vec<u8>, place: impl Send + 'static) -> Result<String, Refusal> {
        let admin = self.clone();
        let late = |_| {
            let s = LASTING_MAX.as_secs();
            Failure::new(format!("not done after {s} s; it may still be"))
        };
        let whole = async {
            let begun = spawn_blocking(move || (admin.begin(&request), place)).await;
            let (begun, _place) =
                begun.map_err(|_| Failure::new("the command has failed; the log says more"))?;
            match begun? {
                Begun::Done(answer, _) => Ok(answer),
                Begun::Lasting(answer) => Ok(answer.await?),
            }
        };
        timeout(LASTING_MAX, whole).await.map_err(late)?
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

/// A command that has been begun.
enum Begun {
    /// The answer, and what is for people beside it.
    Done(String, String),
    Lasting(LastingAnswer),
}
