//! Signatures of commands. The `ceph` program first requests this table (`get_command_descriptions`), to
//! check its command line and to encode the command.

use loligo_cephx::caps::Perms;

use super::{Call, Outcome};
use crate::output::json::{Node, object};

/// A command.
pub struct Command {
    /// The words of its name.
    pub prefix: &'static str,
    /// Its arguments.
    pub args: &'static [Arg],
    /// The help text.
    pub help: &'static str,
    /// The monitor service to which a capability must give access (`allow service=osd r`).
    pub module: &'static str,
    /// The permissions needed there: some of `r`, `w` and `x`. Commands on keys need `x`.
    pub perm: &'static str,
    /// Whether it is an alias that tools should not use any more.
    pub deprecated: bool,
    /// Whether its single-line JSON ends without a newline, as in a stock monitor.
    pub bare: bool,
    /// Whether it belongs to a manager module. This server has no modules.
    pub is_absent: bool,
    /// The function that runs it.
    pub run: fn(&mut Call<'_>) -> Outcome,
}

/// An argument.
pub struct Arg {
    /// Its field name in the JSON.
    pub name: &'static str,
    /// Its type.
    pub kind: ArgKind,
    /// Whether it must be given.
    pub required: bool,
    /// Whether it is repeatable and takes all remaining words.
    pub many: bool,
}

/// The type of an argument.
pub enum ArgKind {
    /// Any text.
    Text,
    /// Text with only these characters.
    TextOf(&'static str),
    /// An integer, possibly with a minimum.
    Int {
        /// The minimum.
        min: Option<i64>,
    },
    /// A number, possibly with a minimum.
    Float {
        /// The minimum.
        min: Option<f64>,
    },
    /// A number from 0 to 1.
    Fraction,
    /// `--NAME`, with underscores turned into hyphens.
    Bool,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A pool's name.
    Pool,
    /// An object's name.
    Object,
    /// `osd.N` or `N`.
    OsdName,
    /// `POOL.SEED`.
    Pg,
    /// An OSD's UUID.
    Uuid,
    /// `ADDRESS:PORT/NONCE`.
    Addr,
}

/// The characters of names in Ceph's maps.
pub(super) const NAME_CHARS: &str = "[A-Za-z0-9-_.]";
/// The same, and the `=` of `key=value`.
pub(super) const VALUE_CHARS: &str = "[A-Za-z0-9-_.=]";

/// A required argument.
pub(super) const fn req(name: &'static str, kind: ArgKind) -> Arg {
    Arg { name, kind, required: true, many: false }
}

/// An optional argument.
pub(super) const fn opt(name: &'static str, kind: ArgKind) -> Arg {
    Arg { name, kind, required: false, many: false }
}

/// A repeatable argument.
pub(super) const fn many(arg: Arg) -> Arg {
    Arg { many: true, ..arg }
}

/// The reply to `get_command_descriptions`.
pub fn descriptions<'a>(commands: impl IntoIterator<Item = &'a Command>) -> Node {
    Node::map(commands.into_iter().enumerate().map(|(i, c)| (format!("cmd{i:03}"), c.describe())))
}

const FLAG_DEPRECATED: u32 = 4;

/// The commands that a manager of 16.2.15 itself answers.
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

/// Fields that every command accepts: its name, the output format, and the daemon it is for.
const EVERYWHERE: [&str; 3] = ["prefix", "format", "target"];

impl Command {
    /// The permissions that a client needs.
    pub fn needs(&self) -> Perms {
        let each = [('r', Perms::R), ('w', Perms::W), ('x', Perms::X)];
        each.into_iter().filter(|(c, _)| self.perm.contains(*c)).fold(Perms::NONE, |all, (_, p)| all | p)
    }

    /// Whether a stock cluster's manager answers it, not its monitors.
    pub fn is_managers(&self) -> bool {
        self.is_absent || MANAGERS.contains(&self.prefix)
    }

    /// Whether the command accepts a field of the JSON: an argument, or a field that every command
    /// accepts.
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
    /// Ceph's name of the type, and its restriction.
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
