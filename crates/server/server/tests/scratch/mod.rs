//! Directories for tests' files.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// A directory for one test, removed at its end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// `name` must be unique among tests.
    pub(crate) fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("loligo-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    #[allow(dead_code, reason = "each test file takes what it needs")]
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in the directory.
    #[allow(dead_code, reason = "each test file takes what it needs")]
    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path in UTF-8").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
