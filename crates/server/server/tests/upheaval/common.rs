//! Programs to run, a directory to run them in, and a client.

use std::ffi::OsStr;
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use std::{env, fs};

use loligo_rados::{Builder, IoCtx, Rados};

/// The timeout of all waits.
pub(crate) const LONG: Duration = Duration::from_secs(40);

/// The beginning of Python scripts: a connected cluster `c` and an open pool `io`. The configuration is
/// their first argument.
pub(crate) const PYTHON_HEAD: &str = "import rados, sys\n\
    c = rados.Rados(conffile=sys.argv[1]); c.connect(); io = c.open_ioctx('data')\n";

/// A builder of clients with a configuration, without the environment.
pub(crate) fn builder(conf: &Path) -> Builder {
    Builder::new().conf_file(conf.to_str().expect("a path in UTF-8"))
}

pub(crate) async fn connect(conf: &Path) -> (Rados, IoCtx) {
    let rados = builder(conf).connect().await.expect("connects");
    let pool = rados.ioctx("data").await.expect("the pool");
    (rados, pool)
}

/// Waits for `work`, with a timeout.
pub(crate) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.unwrap_or_else(|_| panic!("{what}: nothing after {LONG:?}"))
}

/// A program that is killed when this is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Starts a program with its standard output piped.
    pub(crate) fn start<S: AsRef<OsStr>>(program: impl AsRef<OsStr>, args: &[S], conf: &Path) -> Self {
        let mut command = Command::new(&program);
        command.args(args).env("CEPH_CONF", conf).stdin(Stdio::null()).stdout(Stdio::piped());
        Self(command.spawn().unwrap_or_else(|e| panic!("{:?}: {e}", program.as_ref())))
    }

    /// The lines that it prints.
    pub(crate) fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        let stdout = self.0.stdout.take().expect("piped, and taken once");
        BufReader::new(stdout).lines().map_while(Result::ok)
    }

    /// Kills the program at once (SIGKILL).
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
    }

    /// Waits until the program has ended.
    pub(crate) fn status(mut self) -> ExitStatus {
        self.0.wait().expect("it ends")
    }

    /// Waits until the program has ended successfully.
    pub(crate) fn succeed(self, what: &str) {
        let status = self.status();
        assert!(status.success(), "{what}: {status}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The `loligo` program.
pub(crate) fn loligo() -> PathBuf {
    env::var_os("LOLIGO_BIN").expect("LOLIGO_BIN names the loligo program").into()
}

/// A directory for one test, removed at its end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("loligo-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path in UTF-8").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
