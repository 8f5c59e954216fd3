//! Capabilities for object storage (`src/osd/OSDCap.cc` in Ceph).
//!
//! ```text
//! grant   := "allow" spec match | "allow" match spec | "profile" NAME match
//! spec    := * | [r][w][x] [class-read] [class-write] | class NAME [METHOD]
//! match   := [pool NAME] [namespace NAME[*]] [tag APPLICATION KEY=VALUE] [object_prefix TEXT] [network NET/LEN]
//! ```
//!
//! Grants are separated by commas or semicolons. A single grant must allow all access that an operation
//! needs; class calls may be allowed by several grants together.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::scan::{CapsError, Network, Scanner};

/// The rights of a client on objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdCaps {
    grants: Vec<Grant>,
}

/// A single grant.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    scope: Scope,
    spec: Spec,
}

/// The objects that a grant applies to. An empty or `None` field is no restriction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Scope {
    pool: String,
    namespace: Option<Namespace>,
    tag: Option<Tag>,
    object_prefix: String,
    network: Option<Network>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Namespace {
    name: String,
    /// Whether the name is a prefix of the matching namespaces.
    prefix: bool,
}

/// An application of the pool, and a key and value in the application's metadata. `*` matches any.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tag {
    application: String,
    key: String,
    value: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Spec {
    /// `*`: all rights.
    All,
    Bits(u8),
    Class {
        name: String,
        /// Empty: all methods.
        method: String,
    },
}

const READ: u8 = 1;
const WRITE: u8 = 2;
const CLASS_READ: u8 = 4;
const CLASS_WRITE: u8 = 8;
const EXECUTE: u8 = CLASS_READ | CLASS_WRITE;

/// The access that an operation needs, without its class calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The operation reads.
    pub read: bool,
    /// The operation writes.
    pub write: bool,
}

/// A class method that an operation calls.
#[derive(Clone, Copy, Debug)]
pub struct ClassCall<'a> {
    /// The class.
    pub class: &'a str,
    /// The method.
    pub method: &'a str,
    /// The method reads.
    pub read: bool,
    /// The method writes.
    pub write: bool,
    /// Whether a general `x` covers the class (`osd_class_default_list`).
    pub by_default: bool,
}

/// The properties of a pool that capabilities refer to.
#[derive(Clone, Copy, Debug)]
pub struct PoolFacts<'a> {
    /// The pool's name.
    pub name: &'a str,
    /// The pool's applications, each with its metadata.
    pub applications: &'a BTreeMap<String, BTreeMap<String, String>>,
}

impl OsdCaps {
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

    /// Whether everything is allowed, everywhere.
    pub fn allow_all(&self) -> bool {
        self.grants.iter().any(|g| g.spec == Spec::All && g.scope == Scope::default())
    }

    /// The part of the capabilities that concerns one pool, for a client at `addr`. Compute it once per
    /// session and pool, and again when the pool's name or applications change: checking an operation
    /// against it is cheap.
    pub fn for_pool(&self, pool: PoolFacts<'_>, addr: Option<IpAddr>) -> PoolCaps {
        let here = self.grants.iter().filter(|g| g.scope.covers_pool(pool, addr));
        let mut caps = PoolCaps { anywhere: [false; 4], grants: here.cloned().collect() };
        caps.anywhere = std::array::from_fn(|i| {
            let access = Access { read: i & 1 != 0, write: i & 2 != 0 };
            caps.grants.iter().any(|g| g.scope.covers_whole_pool() && g.spec.allows(access))
        });
        caps
    }
}

/// The rights of a client in one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolCaps {
    /// Indexed by [`Access::index`]: whether the access is allowed for every object of the pool.
    anywhere: [bool; 4],
    /// The grants that apply to the pool; their pool restrictions have been checked.
    grants: Vec<Grant>,
}

impl PoolCaps {
    /// Whether an operation without class calls is allowed. `object` is the operation's locator key if
    /// it has one, else the object's name; empty for an operation on a placement group, such as a
    /// listing.
    pub fn allows(&self, access: Access, namespace: &[u8], object: &[u8]) -> bool {
        self.anywhere[access.index()]
            || self.grants.iter().any(|g| g.scope.covers_object(namespace, object) && g.spec.allows(access))
    }

    /// Whether an operation with class calls is allowed. The methods' access counts as class-read and
    /// class-write and is not included in `access`.
    pub fn allows_calls(
        &self,
        access: Access,
        namespace: &[u8],
        object: &[u8],
        calls: &[ClassCall<'_>],
    ) -> bool {
        if calls.is_empty() {
            return self.allows(access, namespace, object);
        }
        let here = || self.grants.iter().filter(|g| g.scope.covers_object(namespace, object));
        // As in Ceph, a grant that lacks the operation's own access does not count for its calls.
        let usable = || here().filter(|g| g.spec.allows(access));
        usable().any(|g| g.spec == Spec::All)
            || (usable().next().is_some() && calls.iter().all(|c| usable().any(|g| g.spec.allows_call(c))))
    }
}

impl Access {
    fn index(self) -> usize {
        usize::from(self.read) | usize::from(self.write) << 1
    }
}

impl Spec {
    fn allows(&self, access: Access) -> bool {
        let bits = match self {
            Self::All => READ | WRITE,
            Self::Bits(bits) => *bits,
            Self::Class { .. } => 0,
        };
        (!access.read || bits & READ != 0) && (!access.write || bits & WRITE != 0)
    }

    fn allows_call(&self, call: &ClassCall<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Bits(bits) => {
                call.by_default
                    && (!call.read || bits & CLASS_READ != 0)
                    && (!call.write || bits & CLASS_WRITE != 0)
            }
            Self::Class { name, method } => {
                name == call.class && (method.is_empty() || method == call.method)
            }
        }
    }
}

impl Scope {
    fn covers_pool(&self, pool: PoolFacts<'_>, addr: Option<IpAddr>) -> bool {
        (self.pool.is_empty() || self.pool == pool.name)
            && self.tag.as_ref().is_none_or(|tag| tag.matches(pool.applications))
            && self.network.is_none_or(|network| network.contains(addr))
    }

    fn covers_whole_pool(&self) -> bool {
        self.namespace.is_none() && self.object_prefix.is_empty()
    }

    fn covers_object(&self, namespace: &[u8], object: &[u8]) -> bool {
        self.namespace.as_ref().is_none_or(|n| n.matches(namespace))
            && object.starts_with(self.object_prefix.as_bytes())
    }
}

impl Namespace {
    fn matches(&self, namespace: &[u8]) -> bool {
        match self.prefix {
            true => namespace.starts_with(self.name.as_bytes()),
            false => namespace == self.name.as_bytes(),
        }
    }
}

impl Tag {
    fn matches(&self, applications: &BTreeMap<String, BTreeMap<String, String>>) -> bool {
        let Some(metadata) = applications.get(&self.application) else {
            return false;
        };
        match (self.key.as_str(), self.value.as_str()) {
            ("*", "*") => true,
            ("*", value) => metadata.values().any(|v| v == value),
            (key, "*") => metadata.contains_key(key),
            (key, value) => metadata.get(key).is_some_and(|v| v == value),
        }
    }
}

fn parse_grant(s: &mut Scanner<'_>, grants: &mut Vec<Grant>) -> Result<(), CapsError> {
    if let Some(profile) = s.setting("profile")? {
        let mut scope = Scope::default();
        while parse_scope(s, &mut scope)? {}
        expand_profile(&profile, &scope, grants);
        return Ok(());
    }
    if !s.keyword("allow") {
        return Err(s.error("allow or profile"));
    }
    let mut scope = Scope::default();
    let mut spec = None;
    loop {
        if spec.is_none() {
            spec = parse_spec(s)?;
            if spec.is_some() {
                continue;
            }
        }
        if !parse_scope(s, &mut scope)? {
            break;
        }
    }
    let spec =
        spec.ok_or_else(|| s.error("what is allowed (*, r, w, x, class-read, class-write, class NAME)"))?;
    grants.push(Grant { scope, spec });
    Ok(())
}

/// Parses one part of a scope; returns `false` if there is none. Each part may be given once.
fn parse_scope(s: &mut Scanner<'_>, scope: &mut Scope) -> Result<bool, CapsError> {
    let word = s.peek_word();
    let again = match word {
        "pool" => !scope.pool.is_empty(),
        "namespace" => scope.namespace.is_some(),
        "object_prefix" => !scope.object_prefix.is_empty(),
        "tag" => scope.tag.is_some(),
        "network" => scope.network.is_some(),
        _ => return Ok(false),
    };
    if again {
        return Err(s.error("the next grant"));
    }
    s.take_word();
    match word {
        "pool" => {
            s.symbol('=');
            scope.pool = s.string()?;
        }
        "namespace" => {
            s.symbol('=');
            let (name, prefix) = s.pattern()?;
            scope.namespace = Some(Namespace { name, prefix });
        }
        "object_prefix" => {
            s.symbol('=');
            scope.object_prefix = s.string()?;
        }
        "tag" => scope.tag = Some(parse_tag(s)?),
        _ => scope.network = Some(s.network()?),
    }
    Ok(true)
}

fn parse_tag(s: &mut Scanner<'_>) -> Result<Tag, CapsError> {
    let application = s.string()?;
    let key = string_or_any(s)?;
    if !s.symbol('=') {
        return Err(s.error("="));
    }
    Ok(Tag { application, key, value: string_or_any(s)? })
}

fn string_or_any(s: &mut Scanner<'_>) -> Result<String, CapsError> {
    if s.symbol('*') || s.keyword("all") { Ok("*".to_owned()) } else { s.string() }
}

fn parse_spec(s: &mut Scanner<'_>) -> Result<Option<Spec>, CapsError> {
    if s.symbol('*') || s.keyword("all") {
        return Ok(Some(Spec::All));
    }
    if s.keyword("class") {
        let name = s.string()?;
        let next_is_method = !s.is_empty()
            && !matches!(s.peek_word(), "" | "pool" | "namespace" | "object_prefix" | "tag" | "network");
        let method = if next_is_method { s.string()? } else { String::new() };
        return Ok(Some(Spec::Class { name, method }));
    }
    let mut bits = 0;
    if let Some(letters) = letters(s.peek_word()) {
        bits |= letters;
        s.take_word();
    }
    loop {
        bits |= match s.peek_word() {
            "class-read" => CLASS_READ,
            "class-write" => CLASS_WRITE,
            _ => break,
        };
        s.take_word();
    }
    Ok((bits != 0).then_some(Spec::Bits(bits)))
}

/// Parses `r`, `w` and `x`, each at most once and in this order.
fn letters(word: &str) -> Option<u8> {
    let rest = word.strip_prefix('r');
    let (read, rest) = (rest.is_some(), rest.unwrap_or(word));
    let (write, rest) = (rest.starts_with('w'), rest.strip_prefix('w').unwrap_or(rest));
    let (execute, rest) = (rest.starts_with('x'), rest.strip_prefix('x').unwrap_or(rest));
    let bits = (u8::from(read) * READ) | (u8::from(write) * WRITE) | (u8::from(execute) * EXECUTE);
    (rest.is_empty() && bits != 0).then_some(bits)
}

/// Adds the grants of a profile. A profile that Ceph does not know adds none.
fn expand_profile(profile: &str, scope: &Scope, grants: &mut Vec<Grant>) {
    let in_scope = |spec| Grant { scope: scope.clone(), spec };
    let on_objects = |object_prefix: &str, scope: &Scope, spec| Grant {
        scope: Scope { object_prefix: object_prefix.to_owned(), ..scope.clone() },
        spec,
    };
    let everywhere = Scope { network: scope.network, ..Scope::default() };
    let rbd_method = |method: &str| Spec::Class { name: "rbd".to_owned(), method: method.to_owned() };
    match profile {
        "read-only" => grants.push(in_scope(Spec::Bits(READ))),
        "read-write" => grants.push(in_scope(Spec::Bits(READ | WRITE))),
        "rbd" => grants.extend([
            on_objects("rbd_children", &everywhere, Spec::Bits(CLASS_READ)),
            on_objects("rbd_mirroring", &everywhere, Spec::Bits(CLASS_READ)),
            on_objects("rbd_info", &scope.without_namespace(), rbd_method("metadata_list")),
            // A client that creates an image reads whether its pool was validated.
            on_objects("rbd_info", &everywhere, Spec::Bits(READ)),
            in_scope(Spec::Bits(READ | WRITE | EXECUTE)),
        ]),
        "rbd-read-only" => grants.extend([
            in_scope(Spec::Bits(READ | CLASS_READ)),
            on_objects("rbd_info", &scope.without_namespace(), rbd_method("metadata_list")),
            on_objects("rbd_header.", scope, rbd_method("child_attach")),
            on_objects("rbd_header.", scope, rbd_method("child_detach")),
        ]),
        _ => {}
    }
}

impl Scope {
    /// The default namespace of the same pool, where librbd stores data that belongs to the whole pool.
    fn without_namespace(&self) -> Self {
        Self { namespace: Some(Namespace { name: String::new(), prefix: false }), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const R: Access = Access { read: true, write: false };
    const W: Access = Access { read: false, write: true };
    const RW: Access = Access { read: true, write: true };
    const NEITHER: Access = Access { read: false, write: false };

    fn pool(caps: &str, name: &str) -> PoolCaps {
        let applications = BTreeMap::from([
            ("rbd".to_owned(), BTreeMap::new()),
            ("cephfs".to_owned(), BTreeMap::from([("data".to_owned(), "fs1".to_owned())])),
        ]);
        let caps = OsdCaps::parse(caps).unwrap_or_else(|e| panic!("{e}"));
        caps.for_pool(PoolFacts { name, applications: &applications }, Some([10, 0, 0, 1].into()))
    }

    fn call<'a>(class: &'a str, method: &'a str, write: bool) -> ClassCall<'a> {
        ClassCall { class, method, read: true, write, by_default: class != "odd" }
    }

    #[test]
    fn letters_allow_what_they_say() {
        let all = pool("allow *", "p");
        assert!(all.allows(RW, b"", b"o") && all.allows_calls(RW, b"n", b"o", &[call("odd", "m", true)]));
        let r = pool("allow r", "p");
        assert!(r.allows(R, b"", b"o") && !r.allows(W, b"", b"o") && !r.allows(RW, b"", b"o"));
        let rwx = pool("allow rwx", "p");
        assert!(rwx.allows(RW, b"n", b"o") && rwx.allows_calls(RW, b"", b"o", &[call("lock", "lock", true)]));
        assert!(!rwx.allows_calls(RW, b"", b"o", &[call("odd", "m", true)]));
        assert!(!pool("", "p").allows(NEITHER, b"", b"o"));
        // One grant must allow the whole operation.
        assert!(!pool("allow r, allow w", "p").allows(RW, b"", b"o"));
    }

    #[test]
    fn scopes_confine() {
        let p = "allow rw pool=x namespace=y object_prefix z";
        assert!(pool(p, "x").allows(RW, b"y", b"z1"));
        assert!(!pool(p, "x").allows(RW, b"", b"z1"));
        assert!(!pool(p, "x").allows(RW, b"y", b"a"));
        assert!(!pool(p, "w").allows(RW, b"y", b"z1"));
        let wild = pool("allow pool x namespace y* rw", "x");
        assert!(wild.allows(R, b"y", b"") && wild.allows(R, b"y2", b"") && !wild.allows(R, b"x", b""));
        assert!(!pool("allow rw namespace=\"\"", "p").allows(R, b"n", b"o"));
        assert!(pool("allow rw namespace=\"\"", "p").allows(R, b"", b"o"));
        assert!(pool("allow r network 10.0.0.0/8", "p").allows(R, b"", b"o"));
        assert!(!pool("allow r network 192.168.0.0/16", "p").allows(R, b"", b"o"));
        assert!(pool("allow r pool='odd name', allow rw pool=\"p\"", "p").allows(W, b"", b"o"));
    }

    #[test]
    fn tags_look_at_the_pool_s_applications() {
        for (caps, allowed) in [
            ("allow rw tag cephfs data=fs1", true),
            ("allow rw tag cephfs data=fs2", false),
            ("allow rw tag cephfs *=fs1", true),
            ("allow rw tag cephfs data=*", true),
            ("allow rw tag cephfs metadata=*", false),
            ("allow rw tag rbd *=*", true),
            ("allow rw tag rgw *=*", false),
            ("allow rw namespace=n tag rbd *=*", false),
        ] {
            assert_eq!(pool(caps, "p").allows(RW, b"", b"o"), allowed, "{caps}");
        }
    }

    #[test]
    fn classes_can_be_named() {
        let lock = pool("allow class lock, allow r", "p");
        assert!(lock.allows_calls(NEITHER, b"", b"o", &[call("lock", "lock", true)]));
        assert!(!lock.allows_calls(NEITHER, b"", b"o", &[call("rbd", "create", true)]));
        let method = pool("allow class odd m", "p");
        assert!(method.allows_calls(NEITHER, b"", b"o", &[call("odd", "m", true)]));
        assert!(!method.allows_calls(NEITHER, b"", b"o", &[call("odd", "n", true)]));
        assert!(!method.allows_calls(R, b"", b"o", &[call("odd", "m", true)]), "reading is not allowed");
        let read = pool("allow r class-read", "p");
        assert!(read.allows_calls(R, b"", b"o", &[call("rbd", "get_size", false)]));
        assert!(!read.allows_calls(R, b"", b"o", &[call("rbd", "create", true)]));
        // Several grants may allow the calls together.
        let both = [call("odd", "m", true), call("other", "m", true)];
        assert!(pool("allow class odd, allow class other", "p").allows_calls(NEITHER, b"", b"o", &both));
    }

    #[test]
    fn profiles() {
        let rbd = pool("profile rbd pool=x", "x");
        assert!(rbd.allows_calls(RW, b"n", b"rbd_header.1", &[call("rbd", "create", true)]));
        let in_namespace = pool("profile rbd pool=x namespace=n", "x");
        assert!(in_namespace.allows(RW, b"n", b"o") && !in_namespace.allows(R, b"", b"o"));
        assert!(in_namespace.allows(R, b"", b"rbd_info") && !in_namespace.allows(W, b"", b"rbd_info"));
        let elsewhere = pool("profile rbd pool=x", "y");
        assert!(!elsewhere.allows(R, b"", b"o"));
        assert!(elsewhere.allows_calls(NEITHER, b"", b"rbd_children", &[call("rbd", "get_children", false)]));
        let read_only = pool("profile rbd-read-only", "x");
        assert!(read_only.allows(R, b"", b"o") && !read_only.allows(W, b"", b"o"));
        assert!(read_only.allows_calls(NEITHER, b"", b"rbd_header.1", &[call("rbd", "child_attach", true)]));
        assert!(!pool("profile nonsense", "x").allows(R, b"", b"o"));
        assert!(pool("profile read-write pool=x", "x").allows(RW, b"", b"o"));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "allow",
            "allow q",
            "allow rw pool=",
            "deny *",
            "allow rw pool=a pool=b",
            "allow r;; ,",
            "allow wr",
            "allow r tag a b",
            "allow r network 10.0.0.0",
            "allow r pool=\"x",
        ] {
            assert!(OsdCaps::parse(text).is_err(), "{text}");
        }
        let error = OsdCaps::parse("allow rw poool=x").unwrap_err().to_string();
        assert_eq!(error, "capability 'allow rw poool=x': a comma expected at 'poool=x'");
        assert!(OsdCaps::parse("allow *").unwrap().allow_all());
        assert!(!OsdCaps::parse("allow * pool=x").unwrap().allow_all());
    }

    proptest! {
        /// Spaces around a text mean nothing, and an error says where the text is wrong.
        #[test]
        fn any_text_is_parsed_or_refused(text in "(allow|profile|pool|namespace|tag|class|rwx|[=*, ;\"'a-z\u{e4}]){0,12}") {
            match OsdCaps::parse(&text) {
                Ok(caps) => prop_assert_eq!(OsdCaps::parse(&format!(" {text} ")), Ok(caps)),
                Err(error) => prop_assert!(error.text == text && text.ends_with(&error.at), "{error}"),
            }
        }
    }
}
