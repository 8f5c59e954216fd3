//! The textual specification of back ends.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use loligo_rbd::{CacheOptions, Image, Mode};
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
    text: String,
    place: Place,
    read_only: bool,
    /// Size of the cache in bytes; only for images.
    cache: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Memory(u64),
    File(PathBuf),
    Rbd { pool: Option<String>, namespace: String, image: String, snap: Option<String> },
    Striped { pool: Option<String>, file: String },
}

/// A text that is no valid specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not memory:SIZE, file:PATH, rbd:[POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT] or striped:[POOL/]FILE, with ,ro if it shall only be read, and ,cache=SIZE for a cache of an image"
)]
pub struct SpecError(String);

impl Spec {
    /// Parses a specification.
    ///
    /// # Errors
    /// The text is not valid.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let none = || SpecError(text.to_owned());
        let (mut what, mut read_only, mut cache) = (text, false, None);
        while let Some((before, option)) = what.rsplit_once(',') {
            match option.strip_prefix("cache=").filter(|_| text.starts_with("rbd:")) {
                Some(bytes) if cache.is_none() => {
                    cache = Some(size(bytes).filter(|n| *n > 0).ok_or_else(none)?)
                }
                None if option == "ro" && !read_only => read_only = true,
                _ => break,
            }
            what = before;
        }
        let place = what.split_once(':').and_then(|(kind, rest)| Place::parse(kind, rest));
        let place = place.ok_or_else(none)?;
        let is_snapshot = matches!(place, Place::Rbd { snap: Some(_), .. });
        Ok(Self { text: text.to_owned(), place, read_only: read_only || is_snapshot, cache })
    }

    /// Memory of this size.
    pub(crate) fn memory(size: u64) -> Self {
        Self { text: format!("memory:{size}"), place: Place::Memory(size), read_only: false, cache: None }
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
        f.write_str(&self.text)
    }
}

impl Place {
    fn parse(kind: &str, rest: &str) -> Option<Self> {
        if rest.is_empty() {
            return None;
        }
        match kind {
            "memory" => size(rest).filter(|size| *size <= SIZE_MAX).map(Self::Memory),
            "file" => Some(Self::File(rest.into())),
            "rbd" => Self::image(rest),
            "striped" => Some(match rest.split_once('/') {
                Some((pool, file)) if !pool.is_empty() && !file.is_empty() => {
                    Self::Striped { pool: Some(pool.to_owned()), file: file.to_owned() }
                }
                Some(_) => return None,
                None => Self::Striped { pool: None, file: rest.to_owned() },
            }),
            _ => None,
        }
    }

    fn image(text: &str) -> Option<Self> {
        let (place, snap) = match text.split_once('@') {
            Some((place, snap)) => (place, Some(snap).filter(|snap| !snap.is_empty())?.to_owned().into()),
            None => (text, None),
        };
        let parts: Vec<&str> = place.split('/').collect();
        let (pool, namespace, image) = match parts[..] {
            [image] => (None, "", image),
            [pool, image] => (Some(pool), "", image),
            [pool, namespace, image] => (Some(pool), namespace, image),
            _ => return None,
        };
        let is_named = !image.is_empty() && pool != Some("");
        is_named.then(|| Self::Rbd {
            pool: pool.map(str::to_owned),
            namespace: namespace.to_owned(),
            image: image.to_owned(),
            snap,
        })
    }
}

/// Parses a number of bytes with an optional suffix such as K, M or G.
fn size(text: &str) -> Option<u64> {
    loligo_cephx::conf::size(&text.to_ascii_uppercase())
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
            namespace: namespace.to_owned(),
            image: "i".to_owned(),
            snap: snap.map(str::to_owned),
        };
        assert_eq!(place("rbd:i"), Some((image(None, "", None), false)));
        assert_eq!(place("rbd:p/n/i"), Some((image(Some("p"), "n", None), false)));
        assert_eq!(place("rbd:p/i@s"), Some((image(Some("p"), "", Some("s")), true)));
        let file = Place::Striped { pool: Some("p".to_owned()), file: "a/b".to_owned() };
        assert_eq!(place("striped:p/a/b"), Some((file, false)));
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
