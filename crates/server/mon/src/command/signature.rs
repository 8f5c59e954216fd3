//! What commands look like: the table that the `ceph` program asks for first (`get_command_descriptions`), to
//! check what it is told and to know how to send it.

use loligo_cephx::caps::Perms;

use super::{Call, Outcome};
use crate::output::json::{Node, object};

/// A command.
pub struct Command {
    /// The words that name it.
    pub prefix: &'static str,
    /// What follows them.
    pub args: &'static [Arg],
    /// What it does.
    pub help: &'static str,
    /// The part of the monitor that a capability must open (`allow service=osd r`).
    pub module: &'static str,
    /// What it needs there: of `r`, `w` and `x`. Whatever concerns keys needs `x`.
    pub perm: &'static str,
    /// Whether an alias that tools should not use any more.
    pub deprecated: bool,
    /// Whether its JSON on one line ends without a newline, as stock's does.
    pub bare: bool,
    /// Whether it is a manager's module's, and the module is not there.
    pub is_absent: bool,
    /// Carries it out.
    pub run: fn(&mut Call<'_>) -> Outcome,
}

/// An argument.
pub struct Arg {
    /// Its name in the JSON.
    pub name: &'static str,
    /// What it is.
    pub kind: ArgKind,
    /// Whether it must be given.
    pub required: bool,
    /// Whether it takes all that follows.
    pub many: bool,
}

/// The type of an argument.
pub enum ArgKind {
    /// Any text.
    Text,
    /// Text of these characters.
    TextOf(&'static str),
    /// An integer, perhaps with a least value.
    Int {
        /// The least value.
        min: Option<i64>,
    },
    /// A number, perhaps with a least value.
    Float {
        /// The least value.
        min: Option<f64>,
    },
    /// A number from 0 to 1.
    Fraction,
    /// `--NAME`, with underscores turned into hyphens.
    Bool,
    /// One of some words.
    Choice(&'static [&'static str]),
    /// A pool's name.
    Pool,
    /// An object's name.
    Object,
    /// `osd.N` or `N`.
    OsdName,
    /// `POOL.SEED`.
    Pg,
    /// The name that an OSD gives itself.
    Uuid,
    /// `ADDRESS:PORT/NONCE`.
    Addr,
}

/// The characters of names in Ceph's maps.
pub(super) const NAME_CHARS: &str = "[A-Za-z0-9-_.]";
/// The same and what stands in `key=value`.
pub(super) const VALUE_CHARS: &str = "[A-Za-z0-9-_.=]";

/// An argument that must be given.
pub(super) const fn req(name: &'static str, kind: ArgKind) -> Arg {
    Arg { name, kind, required: true, many: false }
}

/// An argument that may be left out.
pub(super) const fn opt(name: &'static str, kind: ArgKind) -> Arg {
    Arg { name, kind, required: false, many: false }
}

/// An argument that takes all that follows.
pub(super) const fn many(arg: Arg) -> Arg {
    Arg { many: true, ..arg }
}

/// The table as `get_command_descriptions` answers it.
pub fn descriptions<'a>(commands: impl IntoIterator<Item = &'a Command>) -> Node {
    Node::map(commands.into_iter().enumerate().map(|(i, c)| (format!("cmd{i:03}"), c.describe())))
}

const FLAG_DEPRECATED: u32 = 4;

/// What a manager of 16.2.15 answers by itself.
const MANAGERS: [&str; 45] = [
    "config show",
    "config show-with-defaults",
    "osd blocked-by",
    "osd deep-scrub",
    "osd destroy",
    "osd df",
    "osd ok-to-stop",
    "osd perf",
    "osd pool autoscale-status",
    "osd pool cancel-force-backfill",
    "osd pool cancel-force-recovery",
    "osd pool deep-scrub",
    "osd pool force-backfill",
    "osd pool force-recovery",
    "osd pool repair",
    "osd pool scrub",
    "osd pool stats",
    "osd purge",
    "osd repair",
    "osd reweight-by-pg",
    "osd reweight-by-utilization",
    "osd safe-to-destroy",
    "osd scrub",
    "osd test-reweight-by-pg",
    "osd test-reweight-by-utilization",
    "pg cancel-force-backfill",
    "pg cancel-force-recovery",
    "pg debug",
    "pg deep-scrub",
    "pg dump",
    "pg dump_json",
    "pg dump_pools_json",
    "pg dump_stuck",
    "pg force-backfill",
    "pg force-recovery",
    "pg getmap",
    "pg ls",
    "pg ls-by-osd",
    "pg ls-by-pool",
    "pg ls-by-primary",
    "pg repair",
    "pg scrub",
    "pg stat",
    "service dump",
    "service status",
];

/// The words, how the answer is to be written, and which daemon is meant.
const EVERYWHERE: [&str; 3] = ["prefix", "format", "target"];

impl Command {
    /// What a client must be allowed.
    pub fn needs(&self) -> Perms {
        let each = [('r', Perms::R), ('w', Perms::W), ('x', Perms::X)];
        each.into_iter().filter(|(c, _)| self.perm.contains(*c)).fold(Perms::NONE, |all, (_, p)| all | p)
    }

    /// Whether a stock cluster's manager answers it, and not its monitors.
    pub fn is_managers(&self) -> bool {
        self.is_absent || MANAGERS.contains(&self.prefix)
    }

    /// Whether a field of the JSON means something: the arguments, and what programs put into every command.
    pub(super) fn takes(&self, field: &str) -> bool {
        self.args.iter().any(|arg| arg.name == field) || EVERYWHERE.contains(&field)
    }

    fn describe(&self) -> Node {
        let words = self.prefix.split(' ').map(Node::from);
        object! {
            "sig": Node::array(words.chain(self.args.iter().map(Arg::describe))),
            "help": self.help,
            "module": self.module,
            "perm": self.perm,
            "flags": if self.deprecated { FLAG_DEPRECATED } else { 0 },
        }
    }
}

impl Arg {
    fn describe(&self) -> Node {
        let (kind, detail) = self.kind.describe();
        let mut node = Node::Object(Vec::new());
        let mut put = |name, value: String| node.push(name, value);
        if let Some((name, value)) = detail {
            put(name, value);
        }
        if self.many {
            put("n", "N".to_owned());
        }
        put("name", self.name.to_owned());
        if !self.required {
            put("req", "false".to_owned());
        }
        put("type", kind.to_owned());
        node
    }
}

impl ArgKind {
    /// Ceph's name of the type, and what narrows it.
    fn describe(&self) -> (&'static str, Option<(&'static str, String)>) {
        match self {
            Self::Text => ("CephString", None),
            Self::TextOf(chars) => ("CephString", Some(("goodchars", (*chars).to_owned()))),
            Self::Int { min } => ("CephInt", min.map(|min| ("range", min.to_string()))),
            Self::Float { min } => ("CephFloat", min.map(|min| ("range", format!("{min:.1}")))),
            Self::Fraction => ("CephFloat", Some(("range", "0.0|1.0".to_owned()))),
            Self::Bool => ("CephBool", None),
            Self::Choice(words) => ("CephChoices", Some(("strings", words.join("|")))),
            Self::Pool => ("CephPoolname", None),
            Self::Object => ("CephObjectname", None),
            Self::OsdName => ("CephOsdName", None),
            Self::Pg => ("CephPgid", None),
            Self::Uuid => ("CephUUID", None),
            Self::Addr => ("CephEntityAddr", None),
        }
    }
}
