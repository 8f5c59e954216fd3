//! Names of images, of groups and of their snapshots. Each kind has a type of its own, so that a command
//! on images cannot receive a snapshot.

use crate::name::Name;

/// The pool and namespace that a name contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct At {
    pub(super) pool: Option<String>,
    pub(super) namespace: Option<Name>,
}

/// `[POOL/[NAMESPACE/]]IMAGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageName {
    pub(super) at: At,
    pub(super) image: Name,
}

/// `[POOL/[NAMESPACE/]]IMAGE@SNAPSHOT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SnapshotName {
    pub(super) of: ImageName,
    pub(super) snap: Name,
}

/// `[POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageOrSnapshot {
    pub(super) of: ImageName,
    pub(super) snap: Option<Name>,
}

/// `[POOL/[NAMESPACE/]]GROUP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupName {
    pub(super) at: At,
    pub(super) group: Name,
}

/// `[POOL/[NAMESPACE/]]GROUP@SNAPSHOT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupSnapshotName {
    pub(super) of: GroupName,
    pub(super) snap: Name,
}

/// The reason why a text is no name of the required kind.
type Wrong = &'static str;

const NAMES_SNAPSHOT: Wrong = "names a snapshot, and the command takes none";
const NAMES_NO_SNAPSHOT: Wrong = "names no snapshot: NAME@SNAPSHOT (snapshot name was not specified)";

impl ImageName {
    /// Parses an image's name. A snapshot in the name or in an option is refused.
    pub(super) fn parse(text: &[u8], option: Option<&Name>) -> Result<Self, Wrong> {
        let found = ImageOrSnapshot::parse(text, option)?;
        found.snap.is_none().then_some(found.of).ok_or(NAMES_SNAPSHOT)
    }
}

impl SnapshotName {
    pub(super) fn parse(text: &[u8], option: Option<&Name>) -> Result<Self, Wrong> {
        let found = ImageOrSnapshot::parse(text, option)?;
        let snap = found.snap.ok_or(NAMES_NO_SNAPSHOT)?;
        Ok(Self { of: found.of, snap })
    }
}

impl ImageOrSnapshot {
    /// Parses a name. If it has no snapshot, that of the option is used.
    pub(super) fn parse(text: &[u8], option: Option<&Name>) -> Result<Self, Wrong> {
        let (at, image, snap) = parts(text, "is not [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]")?;
        let snap = snap.or(option.cloned());
        Ok(Self { of: ImageName { at, image }, snap })
    }
}

impl GroupName {
    pub(super) fn parse(text: &[u8]) -> Result<Self, Wrong> {
        let (at, group, snap) = parts(text, "is not [POOL/[NAMESPACE/]]GROUP")?;
        snap.is_none().then_some(Self { at, group }).ok_or(NAMES_SNAPSHOT)
    }
}

impl GroupSnapshotName {
    pub(super) fn parse(text: &[u8], option: Option<&Name>) -> Result<Self, Wrong> {
        let (at, group, snap) = parts(text, "is not [POOL/[NAMESPACE/]]GROUP@SNAPSHOT")?;
        let snap = snap.or(option.cloned()).ok_or(NAMES_NO_SNAPSHOT)?;
        Ok(Self { of: GroupName { at, group }, snap })
    }
}

/// Parses `POOL[/NAMESPACE]`. The pool is the text before the last slash, as in `rbd`.
pub(super) fn place(text: &[u8]) -> Result<(&str, &[u8]), Wrong> {
    let at = text.iter().rposition(|byte| *byte == b'/');
    let (pool, namespace) = at.map_or((text, &b""[..]), |at| (&text[..at], &text[at + 1..]));
    match namespace.contains(&b'@') {
        true => Err("is not POOL[/NAMESPACE]: a namespace has no @"),
        false => Ok((pool_name(pool)?, namespace)),
    }
}

/// Returns a pool's name. Pools are the only things here whose names must be UTF-8.
fn pool_name(pool: &[u8]) -> Result<&str, Wrong> {
    str::from_utf8(pool).map_err(|_| "names a pool that is not UTF-8: this program can use none")
}

fn parts(text: &[u8], wrong: Wrong) -> Result<(At, Name, Option<Name>), Wrong> {
    let (path, snap) = match text.iter().position(|byte| *byte == b'@') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let (pool, namespace, name) = match parts[..] {
        [name] => (None, None, name),
        [pool, name] => (Some(pool), None, name),
        // This is no namespace but a name that begins with a slash, as in `rbd`: no image has such a
        // name.
        [pool, b"", _] => (Some(pool), None, &path[pool.len() + 1..]),
        [pool, namespace, name] => (Some(pool), Some(namespace), name),
        _ => return Err(wrong),
    };
    let is_no_snap = |snap: &[u8]| snap.is_empty() || snap.iter().any(|byte| b"@/".contains(byte));
    if name.is_empty() || pool == Some(b"") || snap.is_some_and(is_no_snap) {
        return Err(wrong);
    }
    let pool = pool.map(pool_name).transpose()?.map(str::to_owned);
    Ok((At { pool, namespace: namespace.map(Name::from) }, name.into(), snap.map(Name::from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let parts = |text: &str| {
            ImageOrSnapshot::parse(text.as_bytes(), None).ok().map(|name| {
                let ImageName { at, image } = name.of;
                let text = |name: Option<Name>| name.map_or(String::new(), |name| name.to_string());
                [at.pool.unwrap_or_default(), text(at.namespace), image.to_string(), text(name.snap)]
            })
        };
        assert_eq!(parts("i"), Some(["", "", "i", ""].map(str::to_owned)));
        assert_eq!(parts("p/i@s"), Some(["p", "", "i", "s"].map(str::to_owned)));
        assert_eq!(parts("p/n/i@s"), Some(["p", "n", "i", "s"].map(str::to_owned)));
        assert_eq!(parts("p//i@s"), Some(["p", "", "/i", "s"].map(str::to_owned)));
        for wrong in ["", "p/", "/i", "//i", "a/b/c/d", "i@", "@s", "i@s@t", "i@p/s"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn all_but_pools_may_have_any_bytes() {
        let name = ImageOrSnapshot::parse(b"p/\xfe/\xff@\xfd", None).expect("a name");
        assert_eq!(name.of.at.namespace, Some(Name::from(b"\xfe")));
        assert_eq!((name.of.image, name.snap), (Name::from(b"\xff"), Some(Name::from(b"\xfd"))));
        assert_eq!(place(b"p/\xff"), Ok(("p", &b"\xff"[..])));
        assert!(ImageName::parse(b"\xff/i", None).is_err() && place(b"\xff").is_err());
    }

    #[test]
    fn what_takes_an_image_takes_no_snapshot() {
        assert!(ImageName::parse(b"p/i", None).is_ok_and(|name| name.image == "i"));
        assert_eq!(ImageName::parse(b"p/i@s", None), Err(NAMES_SNAPSHOT));
        assert_eq!(ImageName::parse(b"p/i", Some(&"s".into())), Err(NAMES_SNAPSHOT));
        assert_eq!(GroupName::parse(b"p/g@s"), Err(NAMES_SNAPSHOT));
    }

    #[test]
    fn what_takes_a_snapshot_takes_no_image() {
        assert_eq!(SnapshotName::parse(b"p/i", None), Err(NAMES_NO_SNAPSHOT));
        assert!(SnapshotName::parse(b"p/i", Some(&"s".into())).is_ok_and(|name| name.snap == "s"));
        assert!(SnapshotName::parse(b"p/i@t", Some(&"s".into())).is_ok_and(|name| name.snap == "t"));
        assert_eq!(GroupSnapshotName::parse(b"p/g", None), Err(NAMES_NO_SNAPSHOT));
    }

    #[test]
    fn places_have_a_pool_and_perhaps_a_namespace() {
        assert_eq!(place(b"p"), Ok(("p", &b""[..])));
        assert_eq!(place(b"p/n"), Ok(("p", &b"n"[..])));
        assert_eq!(place(b"p/n/x"), Ok(("p/n", &b"x"[..])));
        assert!(place(b"p/i@s").is_err());
    }
}
