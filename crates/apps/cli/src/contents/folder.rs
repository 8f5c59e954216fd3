//! The folders of `serve --load`: what in them becomes which object.

use std::fs::{self, Metadata, ReadDir};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use loligo_server::Limits;

use crate::failure::{Context, Failure};
use crate::name::Name;

/// A folder whose files become the objects of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PoolFolder {
    pub(super) pool: String,
    pub(super) path: PathBuf,
}

/// A file that becomes an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectFile {
    pub(super) name: Name,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// Names a file of `--load`, for messages.
fn loaded(path: &Path) -> String {
    format!("--load {}", path.display())
}

/// Whether a name is one that volumes of Kubernetes have for themselves, such as `..data`. The files in there
/// are also seen beside it, as links.
fn is_of_volume(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".."))
}

/// The folders in a folder, which are pools.
pub(super) fn pools(folder: &Path) -> Result<Vec<PoolFolder>, Failure> {
    let what = || loaded(folder);
    let mut pools = Vec::new();
    for entry in fs::read_dir(folder).context(what)? {
        let path = entry.context(what)?.path();
        if is_of_volume(&path) {
            continue;
        }
        if !fs::metadata(&path).context(|| loaded(&path))?.is_dir() {
            let why = "it lies in no pool's folder; the form is DIR/POOL/OBJECT";
            return Err(Failure::new(loaded(&path), why));
        }
        let pool = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let pool = pool.ok_or_else(|| Failure::new(loaded(&path), "the name of a pool must be UTF-8"))?;
        pools.push(PoolFolder { pool, path });
    }
    if pools.is_empty() {
        return Err(Failure::new(what(), "there are no folders in it, which would be pools"));
    }
    pools.sort_by(|a, b| a.pool.cmp(&b.pool));
    Ok(pools)
}

impl ObjectFile {
    /// Checks that OSDs take such an object.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), Failure> {
        let Self { name, bytes, .. } = self;
        let (name_bytes, name_max, max) =
            (name.as_bytes().len(), limits.object_name_len, limits.object_bytes);
        let why = if name_bytes > name_max {
            format!("its name as an object has {name_bytes} bytes, at most {name_max} are possible")
        } else if *bytes > max {
            format!(
                "{bytes} bytes, an object has at most {max} ({} MiB); make it an image with --image, or split it",
                max >> 20
            )
        } else {
            return Ok(());
        };
        Err(Failure::new(loaded(&self.path), why))
    }
}

/// The files of a pool's folder and of the folders below, in no order. It ends after an error.
pub(super) struct Files<'a> {
    of: &'a PoolFolder,
    is_begun: bool,
    /// From the pool's folder to the one that is being read. Few: names of objects are limited.
    levels: Vec<Level>,
}

struct Level {
    folder: PathBuf,
    entries: ReadDir,
    id: (u64, u64),
}

impl<'a> Files<'a> {
    pub(super) fn of(of: &'a PoolFolder) -> Self {
        Self { of, is_begun: false, levels: Vec::new() }
    }

    fn enter(&mut self, folder: PathBuf, found: &Metadata) -> Result<(), Failure> {
        let id = (found.dev(), found.ino());
        if self.levels.iter().any(|level| level.id == id) {
            let why = "it is a link to a folder that it lies in; leave it out";
            return Err(Failure::new(loaded(&folder), why));
        }
        let entries = fs::read_dir(&folder).context(|| loaded(&folder))?;
        self.levels.push(Level { folder, entries, id });
        Ok(())
    }

    /// Returns the next file.
    fn step(&mut self) -> Result<Option<ObjectFile>, Failure> {
        if !self.is_begun {
            self.is_begun = true;
            let top = &self.of.path;
            let found = fs::metadata(top).context(|| loaded(top))?;
            self.enter(top.clone(), &found)?;
        }
        while let Some(level) = self.levels.last_mut() {
            let Some(entry) = level.entries.next() else {
                self.levels.pop();
                continue;
            };
            let path = entry.context(|| loaded(&level.folder))?.path();
            if is_of_volume(&path) {
                continue;
            }
            let found = fs::metadata(&path).context(|| loaded(&path))?;
            if found.is_dir() {
                self.enter(path, &found)?;
            } else if found.is_file() {
                let name = path.strip_prefix(&self.of.path).unwrap_or(&path).as_os_str().to_owned();
                return Ok(Some(ObjectFile { name: name.into(), path, bytes: found.len() }));
            } else {
                return Err(Failure::new(loaded(&path), "neither a file nor a folder; leave it out"));
            }
        }
        Ok(None)
    }
}

impl Iterator for Files<'_> {
    type Item = Result<ObjectFile, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.step();
        if next.is_err() {
            self.levels.clear();
        }
        next.transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder that goes with this.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("loligo-folder-{name}.{}", std::process::id()));
            fs::create_dir_all(path.join("p/deep")).expect("a folder");
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn names(folder: &PoolFolder) -> Result<Vec<String>, String> {
        let files = Files::of(folder).map(|file| file.map(|file| file.name.to_string()));
        let mut names: Vec<String> = files.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        names.sort();
        Ok(names)
    }

    #[test]
    fn files_are_named_by_their_paths() {
        let scratch = Scratch::new("names");
        let top = &scratch.0;
        // As a volume of Kubernetes looks.
        fs::create_dir_all(top.join("p/..2026")).expect("a folder");
        symlink("..2026", top.join("p/..data")).expect("a link");
        fs::write(top.join("p/..2026/linked"), "1").expect("a file");
        symlink("..data/linked", top.join("p/linked")).expect("a link");
        fs::write(top.join("p/deep/er"), "2").expect("a file");
        fs::create_dir_all(top.join("empty")).expect("a folder");
        let found = pools(top).expect("two pools");
        assert_eq!(found.iter().map(|folder| folder.pool.as_str()).collect::<Vec<_>>(), ["empty", "p"]);
        assert_eq!(names(&found[0]), Ok(vec![]));
        assert_eq!(names(&found[1]), Ok(vec!["deep/er".to_owned(), "linked".to_owned()]));
    }

    #[test]
    fn a_link_to_its_own_folder_ends() {
        let scratch = Scratch::new("loop");
        symlink("..", scratch.0.join("p/deep/up")).expect("a link");
        let found = pools(&scratch.0).expect("a pool");
        let refused = names(&found[0]).expect_err("a loop");
        assert!(refused.contains("p/deep/up: it is a link to a folder that it lies in"), "{refused}");
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let limits = Limits::default();
        let of = |name: String, bytes| {
            let file = ObjectFile { name: name.into(), path: "/f".into(), bytes };
            file.check(&limits).map_err(|e| e.to_string())
        };
        assert_eq!(of("o".repeat(2048), 128 << 20), Ok(()));
        let large = of("o".to_owned(), (128 << 20) + 1).expect_err("it is too large");
        assert!(large.contains("134217729 bytes, an object has at most 134217728 (128 MiB)"), "{large}");
        let long = of("o".repeat(2049), 0).expect_err("its name is too long");
        assert!(long.contains("2049 bytes, at most 2048"), "{long}");
    }
}
