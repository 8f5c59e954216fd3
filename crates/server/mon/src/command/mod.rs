//! Commands that the `ceph` program and `rados_mon_command` send.
//!
//! [`table::COMMANDS`] lists every command with its signature and its function. There is one file for
//! each family of functions. [`find`] and [`Args`] parse a command, the monitor checks capabilities, and
//! the function returns output for programs ([`Reply::output`]) and a text for people
//! ([`Reply::status`]).

mod absent;
mod args;
mod auth;
mod autoscale;
mod blocklist;
mod config;
mod config_assimilate;
mod config_help;
mod config_key;
mod config_log;
mod crush;
mod crush_change;
mod crush_class;
mod crush_dump;
mod crush_edit;
mod crush_place;
mod crush_weights;
mod erasure;
mod health;
mod health_mute;
mod health_muted;
mod log;
mod metadata;
mod mgr;
mod modules;
mod mon;
mod mon_change;
mod osd;
mod osd_args;
mod osd_df;
mod osd_dump;
mod osd_group;
mod osd_new;
mod osd_perf;
mod osd_pg;
mod osd_release;
mod osd_state;
mod osd_weights;
mod pg_dump;
mod pg_getmap;
mod pg_ls;
mod pg_query;
mod pg_stuck;
mod pool;
mod pool_app;
mod pool_opts;
mod pool_vars;
mod quota;
mod report;
mod reweight;
mod scrub;
mod signature;
mod status;
mod table;
mod usage;
mod version;
mod xml_names;

use loligo_wire::{EntityAddr, EntityName, EntityType, UTime};

pub(crate) use absent::refused;
pub use args::Args;
pub use config_help::option_facts;
pub(crate) use health::end_mutes;
pub(crate) use mon::{mon_status, pong, release_of};
pub use osd_perf::stat_seq;
pub use pg_query::pg_query;
pub use signature::{Arg, ArgKind, Command, descriptions};
pub use table::COMMANDS;

pub use crate::failure::{Errno, Failure};
use crate::output::Format;
use crate::output::json::Node;
use crate::output::xml;
use crate::state::State;
use crate::{Usage, UsageSource, text};

/// The context of a running command.
pub struct Call<'a> {
    /// The cluster's state.
    pub state: &'a mut State,
    /// The cluster's current usage.
    pub usage: &'a Usage,
    /// The source of placement group statistics.
    pub pgs: &'a dyn UsageSource,
    /// The arguments. They have been checked against the signature.
    pub args: &'a Args,
    /// The output format.
    pub format: Format,
    /// Whether single-line JSON ends without a newline.
    pub bare: bool,
    /// The command's input data.
    pub input: &'a [u8],
    /// The sender of the command.
    pub caller: &'a Caller,
    /// Type and features of each client.
    pub sessions: &'a [(EntityType, u64)],
    /// The current time.
    pub now: UTime,
}

/// The sender of a command.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The authenticated name.
    pub name: EntityName,
    /// Its address.
    pub addr: EntityAddr,
    /// Whether it may read every key.
    pub reads_keys: bool,
    /// Whether it has all capabilities. Other clients' use of shared resources is bounded.
    pub is_unbounded: bool,
}

/// The result of a command.
pub type Outcome = Result<Reply, Failure>;

/// The reply to a command that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// For programs: `ceph` prints it to standard output.
    pub output: Vec<u8>,
    /// For people: `ceph` prints it to standard error.
    pub status: String,
}

impl Reply {
    /// A reply with only a text for people.
    pub fn status(status: impl Into<String>) -> Self {
        Self { output: Vec::new(), status: status.into() }
    }

    /// A reply with only output.
    pub fn output(output: impl Into<Vec<u8>>) -> Self {
        Self { output: output.into(), status: String::new() }
    }

    /// A reply with text in the monitor's form as output, see [`crate::text`].
    fn text(output: &str) -> Self {
        Self::output(text::to_bytes(output))
    }

    /// The same reply with a text for people.
    pub fn with_status(self, status: impl Into<String>) -> Self {
        Self { status: status.into(), ..self }
    }
}

/// The command with this name.
pub fn find(prefix: &str) -> Option<&'static Command> {
    all().find(|c| c.prefix == prefix)
}

/// All commands: those of [`COMMANDS`], and those of managers' modules, which are refused.
pub fn all() -> impl Iterator<Item = &'static Command> + Clone {
    COMMANDS.iter().chain(modules::COMMANDS)
}

/// The command of this name that accepts these arguments, if several have the name; else the first of
/// them.
pub fn find_for(prefix: &str, args: &Args) -> Option<&'static Command> {
    let named = || all().filter(|c| c.prefix == prefix);
    named().find(|command| args.check(command).is_ok()).or_else(|| named().next())
}

impl Call<'_> {
    /// A structured reply, if the client asked for one.
    fn json(&self, node: impl FnOnce(&Self) -> Node) -> Option<Reply> {
        match self.format {
            Format::Plain => None,
            Format::Json | Format::JsonPretty | Format::Xml | Format::XmlPretty => {
                Some(self.print_json(&node(self)))
            }
        }
    }

    /// A structured reply or text, depending on the format.
    fn print(&self, node: impl FnOnce(&Self) -> Node, plain: impl FnOnce(&Self) -> String) -> Reply {
        self.json(node).unwrap_or_else(|| Reply::text(&plain(self)))
    }

    /// A structured reply; format `plain` gives indented JSON.
    fn print_json(&self, node: &Node) -> Reply {
        let end = if self.bare { "" } else { "\n" };
        Reply::text(&match self.format {
            Format::Json => format!("{node}{end}"),
            Format::JsonPretty | Format::Plain => node.pretty() + "\n",
            Format::Xml => xml::write(node, &self.xml_names(), false) + end,
            // Commands whose single-line output has no newline get an additional one here.
            Format::XmlPretty if self.bare => xml::write(node, &self.xml_names(), true) + "\n",
            Format::XmlPretty => xml::write(node, &self.xml_names(), true),
        })
    }
}
