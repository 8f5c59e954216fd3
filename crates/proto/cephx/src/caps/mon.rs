//! Capabilities for monitors (`src/mon/MonCap.cc` in Ceph).
//!
//! ```text
//! grant := "allow" ( * | [r][w][x] | service NAME [r][w][x] | command NAME [with constraints] | profile NAME )
//!        | "profile" NAME                                      each with [fsname NAME] [network NET/LEN]
//! constraint := KEY=VALUE | KEY prefix TEXT | KEY regex TEXT
//! ```
//!
//! Grants are cumulative. A constraint's `regex` must match the whole argument; an invalid one matches
//! nothing.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bitflags::bitflags;
use loligo_wire::EntityName;
use regex_lite::Regex;

use super::scan::{CapsError, Network, Scanner};

bitflags! {
    /// A set of the rights read, write and execute.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Perms: u8 {
        /// Read.
        const R = 1;
        /// Write.
        const W = 2;
        /// Administer; for service `auth`, reading keys requires it too.
        const X = 4;
        /// All three rights.
        const RWX = 7;
    }
}

impl Perms {
    /// No right.
    pub const NONE: Self = Self::empty();
}

/// A command of a client to the monitor.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// Its name: `osd pool create`.
    pub prefix: &'a str,
    /// Its arguments, lists joined by spaces.
    pub args: &'a BTreeMap<String, String>,
}

/// The rights of a client on monitors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonCaps {
    grants: Vec<Grant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    what: What,
    /// The file system that the grant is for; `None` for all.
    fs_name: Option<String>,
    network: Option<Network>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    /// `*`.
    All,
    /// Every service except `config-key`, whose secrets need `*` or a grant of their own.
    Every(Perms),
    Service(String, Perms),
    Command {
        name: String,
        constraints: Vec<(String, Constraint)>,
    },
}

/// The condition on an argument. The argument must be present, except for [`Constraint::Absent`].
#[derive(Clone, Debug, PartialEq, Eq)]
enum Constraint {
    Equal(String),
    Prefix(String),
    /// A client's address with its nonce, `IP:PORT/NONCE`: it identifies a process, not a machine.
    AddressWithNonce,
    /// `daemon-private/NAME/…` with the client's own name.
    OwnPrivateKey,
    Regex(Pattern),
    /// The argument must not be present.
    Absent,
}

/// A pattern that must match a whole argument.
#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    /// `None` if the text is not a valid pattern.
    regex: Option<Regex>,
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), regex: Regex::new(&format!("^(?:{text})$")).ok() }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl MonCaps {
    /// Parses a capability's text. An empty text allows nothing.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        let mut s = Scanner::new(text);
        let mut grants = Vec::new();
        while !s.is_empty() {
            parse_grant(&mut s, &mut grants)?;
            if !s.symbol(',') && !s.symbol(';') && !s.is_empty() {
                return Err(s.error("a comma"));
            }
        }
        Ok(Self { grants })
    }

    /// Whether everything is allowed.
    pub fn allow_all(&self) -> bool {
        self.grants.iter().any(|g| g.what == What::All && g.fs_name.is_none() && g.network.is_none())
    }

    /// Whether a client at `addr` has the rights `needed` on a file system: with [`Perms::R`] it is shown
    /// the file system's maps.
    pub fn allows_fs(&self, fs_name: &str, needed: Perms, addr: Option<IpAddr>) -> bool {
        let here = self.grants.iter().filter(|g| g.network.is_none_or(|n| n.contains(addr)));
        let mut of_fs = here.filter(|g| g.fs_name.as_ref().is_none_or(|name| name == fs_name));
        of_fs.any(|grant| match &grant.what {
            What::All => true,
            What::Every(perms) => perms.contains(needed),
            What::Service(service, perms) => service == "mds" && perms.contains(needed),
            What::Command { .. } => false,
        })
    }

    /// Whether `who`, at `addr`, has the rights `needed` on a service (`mon`, `osd`, `auth`, `config`,
    /// …), possibly through a command.
    pub fn allows(
        &self,
        who: &EntityName,
        service: &str,
        command: Option<Command<'_>>,
        needed: Perms,
        addr: Option<IpAddr>,
    ) -> bool {
        let here = self.grants.iter().filter(|g| g.network.is_none_or(|n| n.contains(addr)));
        let mut allowed = Perms::NONE;
        for grant in here {
            allowed |= grant.what.allowed(who, service, command);
            if grant.what == What::All || (allowed != Perms::NONE && allowed.contains(needed)) {
                return true;
            }
        }
        needed == Perms::NONE && !self.grants.is_empty()
    }
}

impl Grant {
    fn anywhere(what: What) -> Self {
        Self { what, fs_name: None, network: None }
    }
}

impl What {
    fn allowed(&self, who: &EntityName, service: &str, command: Option<Command<'_>>) -> Perms {
        match self {
            Self::All => Perms::RWX,
            Self::Every(_) if service == "config-key" => Perms::NONE,
            Self::Every(perms) => *perms,
            Self::Service(name, perms) if name == service => *perms,
            Self::Command { name, constraints } => {
                let matches = |command: Command<'_>| {
                    let fulfilled = |(key, c): &(String, Constraint)| match command.args.get(key) {
                        Some(arg) => c.is_fulfilled(arg, who),
                        None => *c == Constraint::Absent,
                    };
                    command.prefix == name && constraints.iter().all(fulfilled)
                };
                if command.is_some_and(matches) { Perms::RWX } else { Perms::NONE }
            }
            Self::Service(..) => Perms::NONE,
        }
    }
}

impl Constraint {
    fn is_fulfilled(&self, arg: &str, who: &EntityName) -> bool {
        match self {
            Self::Equal(value) => arg == value,
            Self::Prefix(prefix) => arg.starts_with(prefix),
            Self::AddressWithNonce => arg.split_once('/').is_some_and(|(addr, nonce)| {
                !addr.is_empty() && !nonce.is_empty() && nonce.bytes().all(|b| b.is_ascii_digit())
            }),
            Self::OwnPrivateKey => arg.starts_with(&format!("daemon-private/{who}/")),
            Self::Regex(pattern) => pattern.regex.as_ref().is_some_and(|regex| regex.is_match(arg)),
            Self::Absent => false,
        }
    }
}

fn parse_grant(s: &mut Scanner<'_>, grants: &mut Vec<Grant>) -> Result<(), CapsError> {
    let allowed = s.keyword("allow");
    let first = grants.len();
    if let Some(profile) = s.setting("profile")? {
        grants.extend(expand_profile(&profile).into_iter().map(Grant::anywhere));
    } else if !allowed {
        return Err(s.error("allow or profile"));
    } else {
        grants.push(Grant::anywhere(parse_what(s)?));
    }
    if let Some(name) = s.setting("fsname")? {
        grants[first..].iter_mut().for_each(|g| g.fs_name = Some(name.clone()));
    }
    if s.keyword("network") {
        let network = s.network()?;
        grants[first..].iter_mut().for_each(|g| g.network = Some(network));
    }
    Ok(())
}

fn parse_what(s: &mut Scanner<'_>) -> Result<What, CapsError> {
    if let Some(service) = s.setting("service")? {
        return Ok(What::Service(service, parse_perms(s)?));
    }
    if let Some(name) = s.setting("command")? {
        let mut constraints = Vec::new();
        if s.keyword("with") {
            while !s.is_empty() && !matches!(s.peek_word(), "" | "fsname" | "network") {
                constraints.push(parse_constraint(s)?);
            }
        }
        return Ok(What::Command { name, constraints });
    }
    if s.symbol('*') || s.keyword("all") {
        return Ok(What::All);
    }
    parse_perms(s).map(What::Every)
}

fn parse_constraint(s: &mut Scanner<'_>) -> Result<(String, Constraint), CapsError> {
    let key = s.string()?;
    if s.symbol('=') {
        return Ok((key, Constraint::Equal(s.string()?)));
    }
    if let Some(prefix) = s.setting("prefix")? {
        return Ok((key, Constraint::Prefix(prefix)));
    }
    match s.setting("regex")? {
        Some(text) => Ok((key, Constraint::Regex(Pattern::new(&text)))),
        None => Err(s.error("=, prefix or regex")),
    }
}

fn parse_perms(s: &mut Scanner<'_>) -> Result<Perms, CapsError> {
    if s.symbol('*') || s.keyword("all") {
        return Ok(Perms::RWX);
    }
    let word = s.peek_word();
    let mut rest = word;
    let mut perms = Perms::NONE;
    for (letter, perm) in [('r', Perms::R), ('w', Perms::W), ('x', Perms::X)] {
        if let Some(after) = rest.strip_prefix(letter) {
            perms |= perm;
            rest = after;
        }
    }
    if !rest.is_empty() || perms == Perms::NONE {
        return Err(s.error("what is allowed (*, r, w, x, service NAME, command NAME)"));
    }
    s.take_word();
    Ok(perms)
}

/// The grants of a profile. A profile that Ceph does not know allows nothing.
fn expand_profile(profile: &str) -> Vec<What> {
    let service = |name: &str, perms| What::Service(name.to_owned(), perms);
    let command = |name: &str| What::Command { name: name.to_owned(), constraints: Vec::new() };
    let (r, w, rw, all) = (Perms::R, Perms::W, Perms::R | Perms::W, Perms::RWX);
    let mut whats = match profile {
        "read-only" => vec![What::Every(r)],
        "read-write" => vec![What::Every(rw)],
        "mon" => vec![service("mon", all), service("log", all)],
        "osd" => vec![service("osd", all), service("mon", r), service("pg", rw), service("log", w)],
        "mds" => vec![
            service("mds", all),
            service("mon", r),
            service("osd", r),
            service("log", w),
            command("osd pool rmsnap"),
            command("osd blocklist"),
            command("osd blacklist"),
        ],
        "mgr" => {
            let each = [("log", rw), ("mon", rw), ("mds", rw), ("fs", rw), ("osd", rw), ("config-key", rw)];
            let each = each.into_iter().chain([("mgr", all), ("auth", all), ("config", rw)]);
            each.map(|(name, perms)| service(name, perms)).collect()
        }
        "fs-client" => vec![service("mon", r), service("mds", r), service("osd", r), service("pg", r)],
        "simple-rados-client"
        | "simple-rados-client-with-blocklist"
        | "rbd"
        | "rbd-read-only"
        | "rbd-mirror"
        | "rbd-mirror-peer" => {
            vec![service("mon", r), service("osd", r), service("pg", r)]
        }
        "crash" => vec![service("mon", r)],
        "role-definer" => vec![service("mon", r), service("auth", all)],
        _ => bootstrap_profile(profile),
    };
    let simple = profile == "simple-rados-client-with-blocklist";
    if simple || matches!(profile, "rbd" | "rbd-read-only" | "rbd-mirror" | "rbd-mirror-peer") {
        whats.extend(["blocklist", "blacklist"].map(own_blocklist_entry));
    }
    match profile {
        "mon" | "osd" | "mds" | "mgr" => {
            let own = ["get", "put", "set", "exists", "delete"];
            whats.extend(own.map(|verb| config_key(verb, Constraint::OwnPrivateKey)));
        }
        "rbd-mirror" => whats.push(config_key("get", Constraint::Prefix("rbd/mirror/".to_owned()))),
        "rbd-mirror-peer" => {
            whats.push(config_key("set", Constraint::Regex(Pattern::new("rbd/mirror/[^/]+"))));
        }
        _ => {}
    }
    whats
}

fn config_key(verb: &str, constraint: Constraint) -> What {
    What::Command { name: format!("config-key {verb}"), constraints: vec![("key".to_owned(), constraint)] }
}

/// Capabilities for images that a `bootstrap-rbd` key may grant: profiles of the rbd family.
const RBD_PROFILES: &str = r#"([ ,]*profile(=| +)['"]?rbd[^ ,'"]*['"]?( +pool(=| +)['"]?[^,'"]+['"]?)?)+"#;

/// The bootstrap profiles: they may create keys for daemons of one kind, with exactly the capabilities
/// of that kind.
fn bootstrap_profile(profile: &str) -> Vec<What> {
    let equal = |text: &str| Constraint::Equal(text.to_owned());
    let named = |prefix: &str| Constraint::Prefix(prefix.to_owned());
    let rbd = || Constraint::Regex(Pattern::new(RBD_PROFILES));
    let constraints = match profile {
        "bootstrap-osd" => Vec::new(),
        "bootstrap-mds" => vec![
            ("entity", named("mds.")),
            ("caps_mon", equal("allow profile mds")),
            ("caps_osd", equal("allow rwx")),
            ("caps_mds", equal("allow")),
        ],
        "bootstrap-mgr" => vec![("entity", named("mgr.")), ("caps_mon", equal("allow profile mgr"))],
        "bootstrap-rgw" => vec![
            ("entity", named("client.rgw.")),
            ("caps_mon", equal("allow rw")),
            ("caps_osd", equal("allow rwx")),
        ],
        "bootstrap-rbd" => {
            vec![("entity", named("client.")), ("caps_mon", equal("profile rbd")), ("caps_osd", rbd())]
        }
        "bootstrap-rbd-mirror" => {
            vec![("entity", named("client.")), ("caps_mon", equal("profile rbd-mirror")), ("caps_osd", rbd())]
        }
        _ => return Vec::new(),
    };
    let command = |name: &str| What::Command { name: name.to_owned(), constraints: Vec::new() };
    let mut whats = vec![What::Service("mon".to_owned(), Perms::R)];
    if !profile.starts_with("bootstrap-rbd") {
        whats.extend([What::Service("osd".to_owned(), Perms::R), command("mon getmap")]);
    }
    if profile == "bootstrap-osd" {
        whats.extend(["osd new", "osd purge-new"].map(command));
    } else {
        // Capabilities that the kind does not need are not allowed. Stock allows them, but a key with
        // `mgr allow *` is an administrator's.
        let others = ["caps_mon", "caps_osd", "caps_mgr", "caps_mds"].into_iter();
        let others = others.filter(|service| constraints.iter().all(|(key, _)| key != service));
        let absent: Vec<_> = others.map(|service| (service, Constraint::Absent)).collect();
        let constraints = constraints.into_iter().chain(absent);
        let constraints = constraints.map(|(key, constraint)| (key.to_owned(), constraint));
        whats.push(What::Command {
            name: "auth get-or-create".to_owned(),
            constraints: constraints.collect(),
        });
    }
    whats
}

/// A client that takes a lock over may blocklist the process that held it, and nothing else.
fn own_blocklist_entry(word: &str) -> What {
    What::Command {
        name: format!("osd {word}"),
        constraints: vec![
            (format!("{word}op"), Constraint::Equal("add".to_owned())),
            ("addr".to_owned(), Constraint::AddressWithNonce),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn allows(caps: &str, service: &str, needed: Perms) -> bool {
        check(caps, service, None, needed)
    }

    fn check(caps: &str, service: &str, command: Option<(&str, &[(&str, &str)])>, needed: Perms) -> bool {
        let caps = MonCaps::parse(caps).unwrap_or_else(|e| panic!("{e}"));
        let args = command.map(|(_, args)| args).unwrap_or_default();
        let args = args.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let command = command.map(|(prefix, _)| Command { prefix, args: &args });
        caps.allows(&"osd.3".parse().unwrap(), service, command, needed, Some([10, 0, 0, 1].into()))
    }

    #[test]
    fn letters_and_services() {
        assert!(allows("allow *", "config-key", Perms::RWX));
        assert!(!allows("allow rwx", "config-key", Perms::R));
        assert!(allows("allow r", "osd", Perms::R));
        assert!(!allows("allow r", "osd", Perms::R | Perms::W));
        assert!(allows("allow r, allow w", "osd", Perms::R | Perms::W), "grants add up");
        assert!(allows("allow service osd rw", "osd", Perms::W));
        assert!(!allows("allow service=osd rw", "mon", Perms::R));
        assert!(!allows("", "mon", Perms::R));
        assert!(!allows("", "mon", Perms::NONE));
        assert!(allows("allow r network 10.0.0.0/8", "mon", Perms::R));
        assert!(!allows("allow * network 10.1.0.0/16", "mon", Perms::R));
    }

    #[test]
    fn commands_with_arguments() {
        let caps = "allow command \"osd pool create\" with pool prefix test- size=3";
        let create = |pool, size| {
            check(caps, "osd", Some(("osd pool create", &[("pool", pool), ("size", size)])), Perms::RWX)
        };
        assert!(create("test-1", "3"));
        assert!(!create("prod", "3") && !create("test-1", "2"));
        assert!(!check(caps, "osd", Some(("osd pool create", &[("pool", "test-1")])), Perms::R));
        assert!(!check(caps, "osd", Some(("osd pool rm", &[])), Perms::R));
        assert!(check("allow command status", "mon", Some(("status", &[])), Perms::R));
        let regex = |text: &str, arg| {
            let caps = format!("allow command status with x regex '{text}'");
            check(&caps, "mon", Some(("status", &[("x", arg)])), Perms::R)
        };
        assert!(regex(".*", "1") && regex("a|bc", "bc") && regex("[0-9]{2}", "17"));
        assert!(!regex("a|bc", "abc") && !regex("[0-9]{2}", "170") && !regex("(", "("));
    }

    #[test]
    fn profiles() {
        assert!(allows("allow profile osd", "osd", Perms::RWX) && allows("profile=osd", "mon", Perms::R));
        assert!(!allows("profile osd", "auth", Perms::R));
        let key =
            |key| check("profile osd", "config-key", Some(("config-key get", &[("key", key)])), Perms::R);
        assert!(key("daemon-private/osd.3/x") && !key("daemon-private/osd.4/x"));
        let block = |addr| {
            let args = [("blocklistop", "add"), ("addr", addr)];
            check("profile rbd", "osd", Some(("osd blocklist", &args)), Perms::R | Perms::W)
        };
        assert!(block("10.0.0.1:0/123") && !block("10.0.0.1") && !block("10.0.0.0/8/x"));
        assert!(!allows("profile nonsense", "mon", Perms::R));
        assert!(
            allows("profile mgr", "auth", Perms::RWX) && !allows("profile bootstrap-rbd", "osd", Perms::R)
        );
        let make = |profile: &str, entity, mon, osd| {
            let args = [("entity", entity), ("caps_mon", mon), ("caps_osd", osd)];
            check(profile, "auth", Some(("auth get-or-create", &args)), Perms::RWX)
        };
        assert!(make("profile bootstrap-rgw", "client.rgw.a", "allow rw", "allow rwx"));
        assert!(!make("profile bootstrap-rgw", "client.a", "allow rw", "allow rwx"));
        assert!(!make("profile bootstrap-rgw", "client.rgw.a", "allow *", "allow rwx"));
        let images = "profile rbd pool=x, profile rbd-read-only pool y";
        assert!(make("profile bootstrap-rbd", "client.a", "profile rbd", images));
        assert!(!make("profile bootstrap-rbd", "client.a", "profile rbd", "profile rbd pool=x, allow *"));
    }

    #[test]
    fn a_bootstrap_key_gives_its_own_kind_and_no_more() {
        let kinds = [
            (
                "mds",
                "mds.a",
                [("mon", "allow profile mds"), ("osd", "allow rwx"), ("mds", "allow")].as_slice(),
            ),
            ("mgr", "mgr.a", &[("mon", "allow profile mgr")]),
            ("rgw", "client.rgw.a", &[("mon", "allow rw"), ("osd", "allow rwx")]),
            ("rbd", "client.a", &[("mon", "profile rbd"), ("osd", "profile rbd")]),
            ("rbd-mirror", "client.a", &[("mon", "profile rbd-mirror"), ("osd", "profile rbd")]),
        ];
        for (kind, entity, caps) in kinds {
            let named: Vec<_> = caps.iter().map(|(service, cap)| (format!("caps_{service}"), *cap)).collect();
            let own: Vec<_> =
                named.iter().map(|(key, cap)| (&**key, *cap)).chain([("entity", entity)]).collect();
            let makes = |args: &[(&str, &str)]| {
                check(
                    &format!("profile bootstrap-{kind}"),
                    "auth",
                    Some(("auth get-or-create", args)),
                    Perms::RWX,
                )
            };
            assert!(makes(&own), "{kind}");
            for left_out in 0..own.len() {
                let mut less = own.clone();
                less.remove(left_out);
                assert!(!makes(&less), "{kind} without {}", own[left_out].0);
            }
            for service in ["caps_mon", "caps_osd", "caps_mgr", "caps_mds"] {
                let mut more = own.clone();
                more.retain(|(key, _)| *key != service);
                more.push((service, "allow *"));
                assert!(!makes(&more), "{kind} with {service}");
            }
            let of = |entity: &str| {
                let mut other = own.clone();
                other.retain(|(key, _)| *key != "entity");
                other.push(("entity", entity));
                makes(&other)
            };
            assert!(!of("osd.0") && !of("mon."), "{kind}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "allow",
            "allow q",
            "allow service x",
            "allow command",
            "allow rw,, x",
            "deny r",
            "allow r network x",
        ] {
            assert!(MonCaps::parse(text).is_err(), "{text}");
        }
        assert!(MonCaps::parse(" allow * ").unwrap().allow_all());
    }

    #[test]
    fn grants_may_be_for_one_file_system() {
        let caps =
            MonCaps::parse("allow r fsname=a network 10.0.0.0/8, allow rw fsname b").expect("capabilities");
        let here = Some([10, 0, 0, 1].into());
        assert!(caps.allows_fs("a", Perms::R, here) && !caps.allows_fs("a", Perms::W, here));
        assert!(!caps.allows_fs("a", Perms::R, Some([192, 168, 0, 1].into())));
        assert!(caps.allows_fs("b", Perms::W, here) && !caps.allows_fs("c", Perms::R, here));
        // The rights on the monitors themselves do not depend on the file system.
        assert!(allows("allow r fsname=a", "mon", Perms::R));
        let by_profile = MonCaps::parse("profile fs-client").expect("capabilities");
        assert!(by_profile.allows_fs("any", Perms::R, here));
        assert!(!MonCaps::parse("allow * fsname=a").expect("capabilities").allow_all());
    }

    proptest! {
        /// Spaces around a text mean nothing, and an error says where the text is wrong.
        #[test]
        fn any_text_is_parsed_or_refused(text in "(allow|profile|service|command|with|rwx|[=*, ;\"'a-z\u{e4}]){0,12}") {
            match MonCaps::parse(&text) {
                Ok(caps) => prop_assert_eq!(MonCaps::parse(&format!(" {text} ")), Ok(caps)),
                Err(error) => prop_assert!(error.text == text && text.ends_with(&error.at), "{error}"),
            }
        }
    }
}
