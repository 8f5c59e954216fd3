//! Names of images, of groups and of their snapshots: a type for each meaning, so that what takes an image
//! cannot be given a snapshot.

/// Where something lies, as far as its name says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct At {
    pub(super) pool: Option<String>,
    pub(super) namespace: Option<String>,
}

/// `[POOL/[NAMESPACE/]]IMAGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageName {
    pub(super) at: At,
    pub(super) image: String,
}

/// `[POOL/[NAMESPACE/]]IMAGE@SNAPSHOT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SnapshotName {
    pub(super) of: ImageName,
    pub(super) snap: String,
}

/// `[POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageOrSnapshot {
    pub(super) of: ImageName,
    pub(super) snap: Option<String>,
}

/// `[POOL/[NAMESPACE/]]GROUP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupName {
    pub(super) at: At,
    pub(super) group: String,
}

/// `[POOL/[NAMESPACE/]]GROUP@SNAPSHOT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupSnapshotName {
    pub(super) of: GroupName,
    pub(super) snap: String,
}

/// Why a text is no name of the kind that is wanted.
type Wrong = &'static str;

const NAMES_SNAPSHOT: Wrong = "names a snapshot, and the command takes none";
const NAMES_NO_SNAPSHOT: Wrong = "names no snapshot: NAME@SNAPSHOT (snapshot name was not specified)";

impl ImageName {
    /// A snapshot that the name or an option names is refused.
    pub(super) fn parse(text: &str, option: Option<&str>) -> Result<Self, Wrong> {
        let found = ImageOrSnapshot::parse(text, option)?;
        found.snap.is_none().then_some(found.of).ok_or(NAMES_SNAPSHOT)
    }
}

impl SnapshotName {
    pub(super) fn parse(text: &str, option: Option<&str>) -> Result<Self, Wrong> {
        let found = ImageOrSnapshot::parse(text, option)?;
        let snap = found.snap.ok_or(NAMES_NO_SNAPSHOT)?;
        Ok(Self { of: found.of, snap })
    }
}

impl ImageOrSnapshot {
    /// The snapshot that an option names is meant if the name has none.
    pub(super) fn parse(text: &str, option: Option<&str>) -> Result<Self, Wrong> {
        let (at, image, snap) = parts(text, "is not [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]")?;
        let snap = snap.or(option.map(str::to_owned));
        Ok(Self { of: ImageName { at, image }, snap })
    }
}

impl GroupName {
    pub(super) fn parse(text: &str) -> Result<Self, Wrong> {
        let (at, group, snap) = parts(text, "is not [POOL/[NAMESPACE/]]GROUP")?;
        snap.is_none().then_some(Self { at, group }).ok_or(NAMES_SNAPSHOT)
    }
}

impl GroupSnapshotName {
    pub(super) fn parse(text: &str, option: Option<&str>) -> Result<Self, Wrong> {
        let (at, group, snap) = parts(text, "is not [POOL/[NAMESPACE/]]GROUP@SNAPSHOT")?;
        let snap = snap.or(option.map(str::to_owned)).ok_or(NAMES_NO_SNAPSHOT)?;
        Ok(Self { of: GroupName { at, group }, snap })
    }
}

/// `POOL[/NAMESPACE]`. What stands before the last slash is the pool, as `rbd` has it.
pub(super) fn place(text: &str) -> Result<(&str, &str), Wrong> {
    let (pool, namespace) = text.rsplit_once('/').unwrap_or((text, ""));
    match namespace.contains('@') {
        true => Err("is not POOL[/NAMESPACE]: a namespace has no @"),
        false => Ok((pool, namespace)),
    }
}

fn parts(text: &str, wrong: Wrong) -> Result<(At, String, Option<String>), Wrong> {
    let (path, snap) = match text.split_once('@') {
        Some((path, snap)) => (path, Some(snap)),
        None => (text, None),
    };
    let parts: Vec<&str> = path.split('/').collect();
    let (pool, namespace, name) = match parts[..] {
        [name] => (None, None, name),
        [pool, name] => (Some(pool), None, name),
        // No namespace, but a name that begins with a slash, as `rbd` has it: no image is called so.
        [pool, "", _] => (Some(pool), None, &path[pool.len() + 1..]),
        [pool, namespace, name] => (Some(pool), Some(namespace), name),
        _ => return Err(wrong),
    };
    let is_no_snap = |snap: &str| snap.is_empty() || snap.contains(['@', '/']);
    if name.is_empty() || pool == Some("") || snap.is_some_and(is_no_snap) {
        return Err(wrong);
    }
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Ok((At { pool: owned(pool), namespace: owned(namespace) }, name.to_owned(), owned(snap)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let parts = |text| {
            ImageOrSnapshot::parse(text, None).ok().map(|name| {
                let ImageName { at, image } = name.of;
                [at.pool, at.namespace, Some(image), name.snap].map(Option::unwrap_or_default)
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
    fn what_takes_an_image_takes_no_snapshot() {
        assert!(ImageName::parse("p/i", None).is_ok_and(|name| name.image == "i"));
        assert_eq!(ImageName::parse("p/i@s", None), Err(NAMES_SNAPSHOT));
        assert_eq!(ImageName::parse("p/i", Some("s")), Err(NAMES_SNAPSHOT));
        assert_eq!(GroupName::parse("p/g@s"), Err(NAMES_SNAPSHOT));
    }

    #[test]
    fn what_takes_a_snapshot_takes_no_image() {
        assert_eq!(SnapshotName::parse("p/i", None), Err(NAMES_NO_SNAPSHOT));
        assert!(SnapshotName::parse("p/i", Some("s")).is_ok_and(|name| name.snap == "s"));
        assert!(SnapshotName::parse("p/i@t", Some("s")).is_ok_and(|name| name.snap == "t"));
        assert_eq!(GroupSnapshotName::parse("p/g", None), Err(NAMES_NO_SNAPSHOT));
    }

    #[test]
    fn places_have_a_pool_and_perhaps_a_namespace() {
        assert_eq!(place("p"), Ok(("p", "")));
        assert_eq!(place("p/n"), Ok(("p", "n")));
        assert_eq!(place("p/n/x"), Ok(("p/n", "x")));
        assert!(place("p/i@s").is_err());
    }
}
