//! The stock tools of the machine and of further releases.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// One installation of Ceph.
pub(crate) struct Stock {
    root: PathBuf,
    /// The release's number, such as 16.
    pub(crate) release: u32,
}

impl Stock {
    /// Returns all installations. The machine's own is first and must exist.
    pub(crate) fn all() -> Vec<Self> {
        let own = Self::at(Path::new("/")).expect("crushtool and osdmaptool are installed");
        let roots = std::env::var_os("STOCK_CEPH_ROOTS");
        let more = roots.and_then(|roots| std::fs::read_dir(roots).ok()).into_iter().flatten().flatten();
        std::iter::once(own).chain(more.filter_map(|entry| Self::at(&entry.path()))).collect()
    }

    fn at(root: &Path) -> Option<Self> {
        if !root.join("usr/bin/crushtool").exists() {
            return None;
        }
        let mut stock = Self { root: root.to_owned(), release: 0 };
        // "ceph version 16.2.15 (…) pacific (stable)"
        let version = stock.command("monmaptool").arg("--version").output().ok()?;
        let version = String::from_utf8(version.stdout).ok()?;
        stock.release = version.split_whitespace().nth(2)?.split('.').next()?.parse().ok()?;
        Some(stock)
    }

    /// Returns a command that runs one of the installation's programs.
    pub(crate) fn command(&self, program: &str) -> Command {
        if self.root == Path::new("/") {
            return Command::new(program);
        }
        let mut command = Command::new("chroot");
        command.arg(&self.root).arg(program);
        command
    }

    /// Creates a file that the installation's programs can read.
    pub(crate) fn file(&self, bytes: &[u8]) -> StockFile {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("loligo-maps.{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let inside = Path::new("/tmp").join(name);
        let outside = self.root.join(inside.strip_prefix("/").expect("it is absolute"));
        std::fs::write(&outside, bytes).expect("a temporary file can be written");
        StockFile { inside, outside }
    }
}

/// A temporary file, removed when dropped.
pub(crate) struct StockFile {
    /// The path inside the installation's root.
    pub(crate) inside: PathBuf,
    outside: PathBuf,
}

impl StockFile {
    pub(crate) fn read(&self) -> Vec<u8> {
        std::fs::read(&self.outside).expect("the temporary file is there")
    }
}

impl Drop for StockFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.outside);
    }
}

/// Runs a program and returns its standard output.
///
/// # Panics
/// If the program failed.
pub(crate) fn stdout(command: &mut Command) -> String {
    let output = command.output().expect("the program can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compares two texts line by line.
///
/// # Panics
/// At the first line that differs; the message contains `what`.
pub(crate) fn assert_same_lines(theirs: &str, ours: &str, what: &str) {
    if let Some((theirs, ours)) = theirs.lines().zip(ours.lines()).find(|(theirs, ours)| theirs != ours) {
        panic!("{what}:\ntheirs {theirs}\nours   {ours}");
    }
    assert_eq!(theirs.lines().count(), ours.lines().count(), "{what}: lines");
}

/// Runs `check` for `count` consecutive seeds, on all processors. `LOLIGO_SEED` sets the first seed; the
/// default is 1.
pub(crate) fn for_each_seed(count: u64, check: impl Fn(u64) + Sync) {
    let first = std::env::var("LOLIGO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let i @ 0.. = next.fetch_add(1, Ordering::Relaxed)
                    && i < count
                {
                    check(first + i);
                }
            });
        }
    });
}
