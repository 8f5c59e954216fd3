//! Capabilities for file systems (`src/mds/MDSAuthCaps.cc` in Ceph).
//!
//! ```text
//! grant := "allow" | "allow" spec match
//! spec  := * | all | r | rw[f][p][s]
//! match := [fsname=NAME] [path=PATH] [root_squash] [uid=NUMBER [gids=NUMBER,…]] [network NET/LEN]
//! ```
//!
//! Grants are separated by commas or semicolons. A single `allow` allows what `rwps` allows. A path covers
//! the directory and everything below it. Releases 16 to 20 have this grammar, but release 16 refuses
//! `uid` after `fsname` or `root_squash`.

use std::net::IpAddr;

use super::scan::{CapsError, Network, Scanner};

/// Kinds of access to a file system. A letter of a grant's spec stands for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsAccess(u8);

impl FsAccess {
    /// Reading (`r`).
    pub const READ: Self = Self(1);
    /// Writing (`w`).
    pub const WRITE: Self = Self(1 << 1);
    /// Writing although a pool is full (`f`).
    pub const FULL: Self = Self(1 << 2);
    /// Setting layouts and quotas (`p`).
    pub const SET_VXATTR: Self = Self(1 << 3);
    /// Creating and removing snapshots (`s`).
    pub const SNAPSHOT: Self = Self(1 << 4);
    /// Everything (`*`).
    pub const ALL: Self = Self(0x1f);
    /// What a grant without a spec allows: `rwps`.
    const DEFAULT: Self = Self(Self::ALL.0 & !Self::FULL.0);

    /// Whether all of `needed` is in this set.
    pub fn contains(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// This set and `other` together.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The rights of a client on file systems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MdsCaps {
    grants: Vec<MdsGrant>,
}

/// A single grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdsGrant {
    /// What the grant allows.
    pub access: FsAccess,
    /// The file system that the grant is for; empty for all.
    pub fs_name: String,
    /// The directory that the grant is for, without slashes at its ends; empty for the root.
    pub path: String,
    /// Whether user 0 and group 0 must not write.
    pub root_squash: bool,
    /// The only user that the grant is for.
    pub uid: Option<u32>,
    /// The groups of which that user must be in one; empty for no condition.
    pub gids: Vec<u32>,
    network: Option<Network>,
}

/// The process that makes a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsCaller<'a> {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its further groups.
    pub gids: &'a [u64],
    /// The client's address.
    pub addr: Option<IpAddr>,
}

/// The inode that a request is for.
#[derive(Clone, Copy, Debug)]
pub struct FsTarget<'a> {
    /// The name of the file system.
    pub fs_name: &'a str,
    /// The path from the root, without a leading slash.
    pub path: &'a [u8],
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The permissions.
    pub mode: u32,
}

impl MdsCaps {
    /// Parses a capability's text. An empty text allows nothing.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        let mut s = Scanner::new(text);
        let mut grants = Vec::new();
        while !s.is_empty() {
            grants.push(parse_grant(&mut s)?);
            let separated = s.symbol(',') || s.symbol(';');
            match separated {
                true if s.is_empty() => return Err(s.error("the next grant")),
                false if !s.is_empty() => return Err(s.error("a comma")),
                _ => {}
            }
        }
        Ok(Self { grants })
    }

    /// Whether everything is allowed, everywhere.
    pub fn allow_all(&self) -> bool {
        let everywhere = MdsGrant { access: FsAccess::ALL, ..MdsGrant::default() };
        self.grants.contains(&everywhere)
    }

    /// The grants. A server passes them on to its clients, which check them too.
    pub fn grants(&self) -> &[MdsGrant] {
        &self.grants
    }

    /// Whether a client at `addr` may open a session for the directory `root` of a file system.
    pub fn allows_mount(&self, fs_name: &str, root: &[u8], addr: Option<IpAddr>) -> bool {
        self.grants.iter().any(|grant| grant.covers(fs_name, root, addr))
    }

    /// Whether a request that needs `access` is allowed. A single grant must allow all of it. A grant for
    /// one user allows only what the inode's permissions allow that user. For other grants the client
    /// checks the permissions.
    pub fn allows(&self, caller: FsCaller<'_>, target: FsTarget<'_>, access: FsAccess) -> bool {
        self.grants.iter().any(|grant| grant.allows(caller, target, access))
    }
}

impl Default for MdsGrant {
    fn default() -> Self {
        Self {
            access: FsAccess::DEFAULT,
            fs_name: String::new(),
            path: String::new(),
            root_squash: false,
            uid: None,
            gids: Vec::new(),
            network: None,
        }
    }
}

impl MdsGrant {
    fn covers(&self, fs_name: &str, path: &[u8], addr: Option<IpAddr>) -> bool {
        let fs_matches = self.fs_name.is_empty() || self.fs_name == fs_name;
        fs_matches && self.covers_path(path) && self.network.is_none_or(|network| network.contains(addr))
    }

    fn covers_path(&self, path: &[u8]) -> bool {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let below = path.strip_prefix(self.path.as_bytes());
        self.path.is_empty() || below.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    }

    fn allows(&self, caller: FsCaller<'_>, target: FsTarget<'_>, access: FsAccess) -> bool {
        let writes = !FsAccess::READ.contains(access);
        let is_root = caller.uid == 0 || caller.gid == 0;
        self.covers(target.fs_name, target.path, caller.addr)
            && self.access.contains(access)
            && !(self.root_squash && is_root && writes)
            && self.uid.is_none_or(|uid| {
                uid == caller.uid && self.has_group(caller) && permits(caller, target, access)
            })
    }

    fn has_group(&self, caller: FsCaller<'_>) -> bool {
        self.gids.is_empty() || self.gids.iter().any(|gid| is_in_group(caller, *gid))
    }
}

fn is_in_group(caller: FsCaller<'_>, gid: u32) -> bool {
    caller.gid == gid || caller.gids.contains(&gid.into())
}

/// Whether the permissions of the inode allow the access.
fn permits(caller: FsCaller<'_>, target: FsTarget<'_>, access: FsAccess) -> bool {
    let shift = match () {
        () if caller.uid == target.uid => 6,
        () if is_in_group(caller, target.gid) => 3,
        () => 0,
    };
    let mode = target.mode >> shift;
    (!access.contains(FsAccess::READ) || mode & 4 != 0)
        && (!access.contains(FsAccess::WRITE) || mode & 2 != 0)
}

fn parse_grant(s: &mut Scanner<'_>) -> Result<MdsGrant, CapsError> {
    if !s.keyword("allow") {
        return Err(s.error("allow"));
    }
    let mut grant = MdsGrant::default();
    match parse_spec(s) {
        Some(access) => grant.access = access,
        None if s.peek_word().is_empty() => return Ok(grant),
        None => return Err(s.error("what is allowed (*, r, rw, rwf, rwp, rws …)")),
    }
    if let Some(name) = setting(s, "fsname")? {
        grant.fs_name = name;
    }
    if let Some(path) = setting(s, "path")? {
        path.trim_matches('/').clone_into(&mut grant.path);
    }
    grant.root_squash = s.keyword("root_squash");
    if s.keyword("uid") {
        s.symbol('=');
        grant.uid = Some(number(s)?);
        grant.gids = parse_gids(s)?;
    }
    if s.keyword("network") {
        grant.network = Some(s.network()?);
    }
    Ok(grant)
}

/// Consumes `KEYWORD=VALUE`.
fn setting(s: &mut Scanner<'_>, keyword: &str) -> Result<Option<String>, CapsError> {
    if !s.keyword(keyword) {
        return Ok(None);
    }
    if !s.symbol('=') {
        return Err(s.error("="));
    }
    s.string().map(Some)
}

/// Consumes the groups after a user. A comma continues the list only before a number: otherwise the next
/// grant follows it.
fn parse_gids(s: &mut Scanner<'_>) -> Result<Vec<u32>, CapsError> {
    let mut gids = Vec::new();
    if !s.keyword("gids") {
        return Ok(gids);
    }
    s.symbol('=');
    loop {
        gids.push(number(s)?);
        if !s.symbol_before_digit(',') {
            return Ok(gids);
        }
    }
}

fn number(s: &mut Scanner<'_>) -> Result<u32, CapsError> {
    let number = s.peek_word().parse().map_err(|_| s.error("a number"))?;
    s.take_word();
    Ok(number)
}

/// Consumes what a grant allows, if it says so.
fn parse_spec(s: &mut Scanner<'_>) -> Option<FsAccess> {
    if s.symbol('*') || s.keyword("all") {
        return Some(FsAccess::ALL);
    }
    let (read, write) = (FsAccess::READ, FsAccess::READ.and(FsAccess::WRITE));
    let (full, vxattr, snapshot) = (FsAccess::FULL, FsAccess::SET_VXATTR, FsAccess::SNAPSHOT);
    let access = match s.peek_word() {
        "r" => read,
        "rw" => write,
        "rwf" => write.and(full),
        "rwp" => write.and(vxattr),
        "rws" => write.and(snapshot),
        "rwfp" => write.and(full).and(vxattr),
        "rwfs" => write.and(full).and(snapshot),
        "rwps" => write.and(vxattr).and(snapshot),
        "rwfps" => FsAccess::ALL,
        _ => return None,
    };
    s.take_word();
    Some(access)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RW: FsAccess = FsAccess(3);

    fn caps(text: &str) -> MdsCaps {
        MdsCaps::parse(text).unwrap_or_else(|e| panic!("{e}"))
    }

    fn target(path: &str) -> FsTarget<'_> {
        FsTarget { fs_name: "a", path: path.as_bytes(), uid: 1, gid: 2, mode: 0o640 }
    }

    fn allows(text: &str, path: &str, access: FsAccess) -> bool {
        caps(text).allows(FsCaller { uid: 5, gid: 5, ..FsCaller::default() }, target(path), access)
    }

    #[test]
    fn letters_allow_what_they_say() {
        let (full, vxattr, snapshot) = (FsAccess::FULL, FsAccess::SET_VXATTR, FsAccess::SNAPSHOT);
        for (spec, allowed) in [
            ("r", FsAccess::READ),
            ("rw", RW),
            ("rwf", RW.and(full)),
            ("rwp", RW.and(vxattr)),
            ("rws", RW.and(snapshot)),
            ("rwfp", RW.and(full).and(vxattr)),
            ("rwfs", RW.and(full).and(snapshot)),
            ("rwps", RW.and(vxattr).and(snapshot)),
            ("rwfps", FsAccess::ALL),
            ("*", FsAccess::ALL),
            ("all", FsAccess::ALL),
        ] {
            for access in (0..5).map(|bit| FsAccess(1 << bit)) {
                let text = format!("allow {spec}");
                assert_eq!(allows(&text, "d", access), allowed.contains(access), "{text}: {access:?}");
            }
        }
        assert!(!allows("", "d", FsAccess::READ));
        assert_eq!(caps("allow"), caps("allow rwps"));
        assert_eq!(caps("allow, allow r").grants().len(), 2);
        // One grant must allow the whole request.
        assert!(!allows("allow r path=/d, allow rws path=/e", "d", RW));
        assert!(caps("allow *").allow_all() && !caps("allow * path=/d").allow_all());
    }

    #[test]
    fn paths_end_between_names() {
        for path in ["/foo", "foo", "/foo/", "\"/foo\"", "'foo'"] {
            let text = format!("allow rw path={path}");
            assert!(
                allows(&text, "foo", RW) && allows(&text, "foo/bar", RW) && allows(&text, "/foo", RW),
                "{text}"
            );
            assert!(
                !allows(&text, "food", RW) && !allows(&text, "", RW) && !allows(&text, "fo", RW),
                "{text}"
            );
        }
        assert!(allows("allow rw path=/", "any", RW));
        assert!(allows("allow rw path=\"/odd name\"", "odd name/f", RW));
    }

    /// Goal: every part of a grant is read, and so are the texts of `ceph fs authorize`.
    #[test]
    fn the_parts_of_a_grant() {
        let full = caps("allow rw fsname=a path=/d root_squash uid=5 gids=6,7 network 10.0.0.0/8; allow r");
        assert_eq!(full.grants().len(), 2);
        let grant = &full.grants()[0];
        assert_eq!((grant.fs_name.as_str(), grant.path.as_str(), grant.root_squash), ("a", "d", true));
        assert_eq!((grant.uid, &grant.gids[..]), (Some(5), &[6, 7][..]));
        assert_eq!(caps("allow rw uid=1 gids=2,allow r uid=3").grants().len(), 2);
        let authorized = caps("allow rw fsname=a path=/d, allow r fsname=b");
        assert!(authorized.allows_mount("a", b"/d/e", None) && !authorized.allows_mount("a", b"/", None));
        assert!(authorized.allows_mount("b", b"", None) && !authorized.allows_mount("c", b"", None));
    }

    #[test]
    fn networks_confine() {
        let caps = caps("allow rw network 10.0.0.0/8");
        assert!(caps.allows_mount("a", b"", Some([10, 1, 2, 3].into())));
        assert!(!caps.allows_mount("a", b"", Some([192, 168, 0, 1].into())));
    }

    #[test]
    fn root_squash_denies_changes_by_root() {
        let squashed = caps("allow rwps root_squash");
        let as_user = |uid, gid, access| {
            squashed.allows(FsCaller { uid, gid, ..FsCaller::default() }, target("f"), access)
        };
        assert!(as_user(0, 0, FsAccess::READ) && as_user(5, 5, RW));
        assert!(!as_user(0, 0, RW) && !as_user(0, 5, FsAccess::SNAPSHOT) && !as_user(5, 0, FsAccess::WRITE));
    }

    #[test]
    fn grants_for_a_user_respect_permissions() {
        let caps = caps("allow rw uid=1, allow rw uid=5 gids=2,9");
        let as_user = |uid, gid, gids: &[u64], access| {
            caps.allows(FsCaller { uid, gid, gids, addr: None }, target("f"), access)
        };
        assert!(as_user(1, 1, &[], RW), "the owner");
        assert!(as_user(5, 2, &[], FsAccess::READ) && !as_user(5, 2, &[], RW), "the group may read");
        assert!(as_user(5, 7, &[2], FsAccess::READ), "one of the further groups");
        assert!(!as_user(5, 9, &[], FsAccess::READ), "others may do nothing");
        assert!(!as_user(5, 7, &[], FsAccess::READ), "in none of the grant's groups");
        assert!(!as_user(6, 2, &[], FsAccess::READ), "another user");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "deny *",
            "allow w",
            "allow wr",
            "allow rw path",
            "allow rw path=",
            "allow rw uid=x",
            "allow rw uid=1 gids=",
            "allow rw uid=1 gids=1,,2",
            "allow rw path=/a path=/b",
            // Wrong for stock monitors of releases 16, 18 and 20, too.
            "allow path=/d",
            "allow rwsp",
            "allow rw path=/d fsname=a",
            "allow rw path /d",
            "allow rw fsname=*",
            "allow r,",
            "allow r, allow rw;",
            "allow rw fsname a",
            "allow rw gids=1",
            "allow r network 10.0.0.0",
            "allow r;;",
            "allow r path=\"x",
        ] {
            assert!(MdsCaps::parse(text).is_err(), "{text}");
        }
        let error = MdsCaps::parse("allow rw pth=/x").unwrap_err().to_string();
        assert_eq!(error, "capability 'allow rw pth=/x': a comma expected at 'pth=/x'");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(allow|path=|fsname=|uid=|gids=|root_squash|rwps|[=*,; /\"'0-9a-z\u{e4}]){0,12}") {
            let _ = MdsCaps::parse(&text);
        }
    }
}
