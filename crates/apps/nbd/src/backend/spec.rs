//! The textual specification of back ends.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use loligo_rbd::{CacheOptions, Image, Mode, Name};
use loligo_stripe::Striper;

use super::opener::Opener;
use super::renewal::Renewable;
use super::{Access, Backend, BackendError, LocalFile, Memory, Rbd, Striped, rbd};

/// Maximum size of a device in bytes: the kernel's offsets are signed.
const SIZE_MAX: u64 = i64::MAX as u64;

/// The specification of a back end: `memory:SIZE`, `file:PATH`,
/// `rbd:[POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]` or `striped:[POOL/]FILE`. The suffix `,ro` makes it
/// read-only. For an image, the suffix `,cache=SIZE` adds a cache of that many bytes of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    text: Name,
    place: Place,
    read_only: bool,
    /// Size of the cache in bytes; only for images.
    cache: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Memory(u64),
    File(PathBuf),
    Rbd { pool: Option<String>, namespace: Name, image: Name, snap: Option<Name> },
    Striped { pool: Option<String>, file: Name },
}

/// A text that is no valid specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not memory:SIZE, file:PATH, rbd:[POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT] or striped:[POOL/]FILE, with ,ro if it shall only be read, and ,cache=SIZE for a cache of an image"
)]
pub struct SpecError(Name);

impl Spec {
    /// Reads it. Names of images, snapshots, namespaces and files may be any bytes.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: impl Into<Name>) -> Result<Self, SpecError> {
        let text = text.into();
        let none = || SpecError(text.clone());
        let (mut what, mut read_only, mut cache) = (text.as_bytes(), false, None);
        while let Some((before, option)) = split_last(what, b',') {
            match option.strip_prefix(b"cache=").filter(|_| text.starts_with(b"rbd:")) {
                Some(bytes) if cache.is_none() => {
                    cache = Some(size(bytes).filter(|n| *n > 0).ok_or_else(none)?)
                }
                None if option == b"ro" && !read_only => read_only = true,
                _ => break,
            }
            what = before;
        }
        let place = split_first(what, b':').and_then(|(kind, rest)| Place::parse(kind, rest));
        let place = place.ok_or_else(none)?;
        let is_snapshot = matches!(place, Place::Rbd { snap: Some(_), .. });
        Ok(Self { text, place, read_only: read_only || is_snapshot, cache })
    }

    /// Memory of this size.
    pub(crate) fn memory(size: u64) -> Self {
        Self {
            text: format!("memory:{size}").into(),
            place: Place::Memory(size),
            read_only: false,
            cache: None,
        }
    }

    /// The same back end, read-only.
    pub fn only_read(self) -> Self {
        Self { read_only: true, ..self }
    }

    /// Opens the back end.
    pub(crate) async fn open(&self, opener: &Arc<Opener>) -> Result<Box<dyn Backend>, BackendError> {
        let mode = if self.read_only { Mode::ReadOnly } else { Mode::ReadWrite };
        Ok(match &self.place {
            Place::Memory(size) => Box::new(Memory::new(*size, self.read_only)),
            Place::File(path) => {
                let access = if self.read_only { Access::ReadOnly } else { Access::ReadWrite };
                let path = path.clone();
                let opened = tokio::task::spawn_blocking(move || LocalFile::open(&path, access));
                Box::new(opened.await.map_err(BackendError::of)??)
            }
            Place::Rbd { pool, namespace, image, snap } => {
                let io = opener.pool(pool.as_deref()).await?.with_namespace(namespace.clone());
                let opened = match snap {
                    Some(snap) => Image::open_snapshot(&io, image, snap).await,
                    None => Image::open(&io, image, mode).await,
                };
                let image = opened.map_err(BackendError::of)?;
                let image = match self.cache {
                    Some(bytes) => rbd::cached(image, CacheOptions::of_size(bytes), self.read_only)
                        .await
                        .map_err(BackendError::of)?,
                    None => image,
                };
                let backend = Box::new(Rbd::new(image, self.read_only));
                Box::new(Renewable::new(backend, io.rados().clone(), Arc::clone(opener)))
            }
            Place::Striped { pool, file } => {
                let io = opener.pool(pool.as_deref()).await?;
                let (pool, rados) = (io.pool(), io.rados().clone());
                let opened = Striped::open(&Striper::new(io), pool, file, self.read_only).await;
                let backend = Box::new(opened.map_err(BackendError::of)?);
                Box::new(Renewable::new(backend, rados, Arc::clone(opener)))
            }
        })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl Place {
    fn parse(kind: &[u8], rest: &[u8]) -> Option<Self> {
        if rest.is_empty() {
            return None;
        }
        match kind {
            b"memory" => size(rest).filter(|size| *size <= SIZE_MAX).map(Self::Memory),
            b"file" => Some(Self::File(Name::from(rest).as_path().to_owned())),
            b"rbd" => Self::image(rest),
            b"striped" => Some(match split_first(rest, b'/') {
                Some((pool, file)) if !pool.is_empty() && !file.is_empty() => {
                    Self::Striped { pool: Some(text(pool)?), file: file.into() }
                }
                Some(_) => return None,
                None => Self::Striped { pool: None, file: rest.into() },
            }),
            _ => None,
        }
    }

    fn image(words: &[u8]) -> Option<Self> {
        let (place, snap) = match split_first(words, b'@') {
            Some((_, b"")) => return None,
            Some((place, snap)) => (place, Some(Name::from(snap))),
            None => (words, None),
        };
        let parts: Vec<&[u8]> = place.split(|byte| *byte == b'/').collect();
        let (pool, namespace, image) = match parts[..] {
            [image] => (None, &b""[..], image),
            [pool, image] => (Some(pool), &b""[..], image),
            [pool, namespace, image] => (Some(pool), namespace, image),
            _ => return None,
        };
        if image.is_empty() || pool == Some(b"") {
            return None;
        }
        let pool = match pool {
            Some(pool) => Some(text(pool)?),
            None => None,
        };
        Some(Self::Rbd { pool, namespace: namespace.into(), image: image.into(), snap })
    }
}

/// Names of pools are text.
fn text(bytes: &[u8]) -> Option<String> {
    str::from_utf8(bytes).ok().map(str::to_owned)
}

fn split_first(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == at)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

fn split_last(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().rposition(|byte| *byte == at)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// A number of bytes, with K, M, G.
fn size(bytes: &[u8]) -> Option<u64> {
    loligo_types::parse_size(str::from_utf8(bytes).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Option<(Place, bool)> {
        Spec::parse(text).ok().map(|spec| (spec.place, spec.read_only))
    }

    #[test]
    fn specifications_are_taken_apart() {
        assert_eq!(place("memory:4k"), Some((Place::Memory(4096), false)));
        assert_eq!(place("file:/a,b:c,ro"), Some((Place::File("/a,b:c".into()), true)));
        let image = |pool: Option<&str>, namespace: &str, snap: Option<&str>| Place::Rbd {
            pool: pool.map(str::to_owned),
            namespace: namespace.into(),
            image: "i".into(),
            snap: snap.map(Name::from),
        };
        assert_eq!(place("rbd:i"), Some((image(None, "", None), false)));
        assert_eq!(place("rbd:p/n/i"), Some((image(Some("p"), "n", None), false)));
        assert_eq!(place("rbd:p/i@s"), Some((image(Some("p"), "", Some("s")), true)));
        let file = Place::Striped { pool: Some("p".to_owned()), file: "a/b".into() };
        assert_eq!(place("striped:p/a/b"), Some((file, false)));
    }

    #[test]
    fn all_names_but_a_pool_s_may_be_any_bytes() {
        let spec = Spec::parse(b"rbd:p/\xfe/\xff@\xfd,ro").expect("it is one");
        let (pool, snap) = (Some("p".to_owned()), Some(b"\xfd".into()));
        let image = Place::Rbd { pool, namespace: b"\xfe".into(), image: b"\xff".into(), snap };
        assert_eq!((spec.place, spec.text.len()), (image, 14));
        let file = Place::Striped { pool: None, file: b"\xff".into() };
        assert_eq!(Spec::parse(b"striped:\xff").expect("it is one").place, file);
        assert_eq!(Spec::parse(b"file:/\xff").expect("it is one").to_string(), "file:/\\xff");
        assert!(Spec::parse(b"rbd:\xff/i").is_err() && Spec::parse(b"rbd:i,cache=\xff").is_err());
    }

    #[test]
    fn images_may_have_a_cache() {
        let cache = |text: &str| Spec::parse(text).ok().map(|spec| (spec.cache, spec.read_only));
        assert_eq!(cache("rbd:p/i,cache=64M"), Some((Some(64 << 20), false)));
        assert_eq!(cache("rbd:p/i@s,cache=1m,ro"), Some((Some(1 << 20), true)));
        assert_eq!(cache("rbd:p/i,ro,cache=1g"), Some((Some(1 << 30), true)));
        assert_eq!(cache("rbd:p/i,ro"), Some((None, true)));
        // For other kinds `,cache=` is part of the name.
        assert_eq!(place("file:/a,cache=1M"), Some((Place::File("/a,cache=1M".into()), false)));
        for text in ["rbd:p/i,cache=", "rbd:p/i,cache=0", "rbd:p/i,cache=x", "memory:1M,cache=1M"] {
            assert_eq!(cache(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "memory",
            "memory:",
            "memory:x",
            "memory:9E",
            "rbd:",
            "rbd:i@",
            "rbd:/i",
            "rbd:a/b/c/d",
            "disk:x",
            "striped:/f",
        ] {
            assert_eq!(place(text), None, "{text}");
        }
    }
}
