//! Mounts of ours and of a stock client, and what the tests do with them.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a process may take to end, or to see something, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(110);

pub(crate) fn conf() -> PathBuf {
    std::env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf").into()
}

pub(crate) fn loligo() -> Command {
    let program = std::env::var_os("LOLIGO_BIN").expect("LOLIGO_BIN names the program");
    let mut command = Command::new(program);
    command.arg("-c").arg(conf());
    command
}

#[track_caller]
pub(crate) fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&output.stdout));
    output
}

/// A local folder, removed in the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("loligo-mount-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder");
        Self(dir)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Never what is mounted there.
        let _ = fs::remove_dir(&self.0);
    }
}

/// A directory of the file system, mounted by us and by a stock client.
pub(crate) struct Place {
    pub(crate) ours: Ours,
    pub(crate) theirs: Fuse,
    pub(crate) name: String,
}

/// A mount of ours, in the foreground so that it can be watched.
pub(crate) struct Ours {
    pub(crate) process: Child,
    pub(crate) folder: Folder,
}

impl Ours {
    pub(crate) fn mount(name: &str, source: &str, options: &[&str]) -> Self {
        Self::mount_with(&[], name, source, options)
    }

    /// Mounts with options of the client, too.
    pub(crate) fn mount_with(client: &[&str], name: &str, source: &str, options: &[&str]) -> Self {
        let folder = Folder::new(name);
        let mut command = loligo();
        command.args(client);
        command.arg("mount").args(options).arg("-f").arg(source).arg(&folder.0).stdout(Stdio::piped());
        let mut process = command.spawn().expect("it starts");
        let mut line = String::new();
        let out = process.stdout.take().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("a line");
        assert!(line.starts_with("ready dir="), "{line:?}");
        Self { process, folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    /// Unmounts and waits until the process has ended, which is when all is durable.
    pub(crate) fn umount(mut self) {
        done(Command::new("umount").arg(&self.folder.0));
        let status = ended(&mut self.process).expect("it ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.folder.0).stderr(Stdio::null()).status();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn ended(process: &mut Child) -> Option<std::process::ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(status) = process.try_wait().expect("a child") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

/// The folder of the cluster. It has the same path where the programs of its release are.
pub(crate) fn stock_dir() -> PathBuf {
    std::env::var_os("LOLIGO_STOCK_DIR").expect("LOLIGO_STOCK_DIR names a cluster").into()
}

/// A program of the cluster's release.
pub(crate) fn stock(program: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg(stock_dir().join("exec")).arg(program);
    command
}

/// A mount of the cluster's release of ceph-fuse; it ends when this is dropped.
pub(crate) struct Fuse(pub(crate) PathBuf);

impl Fuse {
    pub(crate) fn mount(name: &str) -> Self {
        let dir = stock_dir().join(format!("mount-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder");
        let mut command = stock("ceph-fuse");
        command.arg("-c").arg(conf()).arg(&dir).args(["--client_mount_timeout", "60", "--pid-file", ""]);
        done(&mut command);
        Self(dir)
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        // Never what is mounted there.
        let _ = fs::remove_dir(&self.0);
    }
}

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        Self::with(name, &[])
    }

    pub(crate) fn with(name: &str, options: &[&str]) -> Self {
        let theirs = Fuse::mount(name);
        // A name of this run's own: a cluster may be used twice.
        let name = format!("mount-{name}-{}", std::process::id());
        fs::DirBuilder::new().mode(0o777).create(theirs.0.join(&name)).expect("made");
        let ours = Ours::mount(&name, &format!(":/{name}"), options);
        Self { ours, theirs, name }
    }

    pub(crate) fn ours(&self, path: &str) -> PathBuf {
        self.ours.path(path)
    }

    pub(crate) fn theirs(&self, path: &str) -> PathBuf {
        self.theirs.0.join(&self.name).join(path)
    }
}

pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ (at >> 12) as u8 ^ seed).collect()
}

pub(crate) fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.expect_err("it fails").raw_os_error().expect("an errno")
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entry = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("an entry").file_name().into_string().expect("text")
    };
    let mut names: Vec<String> = fs::read_dir(dir).expect("a directory").map(entry).collect();
    names.sort();
    names
}

/// Runs a script that fails if what it checks does not hold.
#[track_caller]
pub(crate) fn shell(dir: &Path, script: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-euc", script]).current_dir(dir);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env_remove("CARGO_TARGET_DIR");
    let output = done(&mut command);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
