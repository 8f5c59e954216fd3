//! A trial of the program where nothing else is: a root with that one file.
//!
//! It must not need `/proc`, `/dev`, locales, certificates, or the C library's modules for names of hosts.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Result;
use crate::process::{output_of, succeed};

/// A host that only the root's own `/etc/hosts` knows.
const HOST: &str = "loligo-trial";

/// What the root has besides the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    Empty,
    /// The kernel's random numbers as files: a debug build is linked from packages that read them there.
    WithRandom,
}

/// Starts the program as a server in a root of its own, and asks it as a client by a host's name. Needs root;
/// otherwise says that nothing was tried.
pub(super) fn of_the_program(program: &Path, kind: Root) -> Result<()> {
    let root = std::env::temp_dir().join(format!("loligo-trial.{}", std::process::id()));
    fs::create_dir_all(root.join("etc"))?;
    fs::write(root.join("etc/hosts"), format!("127.0.0.1 {HOST}\n"))?;
    fs::copy(program, root.join("loligo"))?;
    let tried = match output_of(inside(&root).arg("--version")) {
        Ok(_) if kind == Root::WithRandom => {
            devices(&root, &[("random", "8"), ("urandom", "9")]).and_then(|()| serves(&root))
        }
        Ok(_) => serves(&root),
        Err(why) => {
            eprintln!("xtask: the program was not tried in an empty root, which needs root: {why}");
            Ok(())
        }
    };
    fs::remove_dir_all(&root)?;
    tried
}

/// Makes devices of memory (`/dev/null` and its kin), by their minor numbers.
pub(super) fn devices(root: &Path, devices: &[(&str, &str)]) -> Result<()> {
    fs::create_dir_all(root.join("dev"))?;
    for (name, minor) in devices {
        let path = root.join("dev").join(name);
        succeed(Command::new("mknod").args(["-m", "666"]).arg(path).args(["c", "1", minor]))?;
    }
    Ok(())
}

fn serves(root: &Path) -> Result<()> {
    let mut serve = inside(root);
    serve.args([
        "serve",
        "--data",
        "/data",
        "--store",
        "memory",
        "--pools",
        "trial",
        "--mon-addr",
        "127.0.0.1:0",
    ]);
    let mut server = Ended(serve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().ok_or("no pipe to the server")?).read_line(&mut line)?;
    let port = line.split_whitespace().find_map(|word| word.strip_prefix("mon=127.0.0.1:"));
    let port = port.ok_or_else(|| format!("the server is not ready in an empty root: {line:?}"))?;
    let mut asks = inside(root);
    asks.args(["-c", "/data/ceph.conf", "-m", &format!("{HOST}:{port}"), "lspools"]);
    match output_of(&mut asks)?.trim() {
        "trial" => Ok(()),
        other => Err(format!("in an empty root lspools says {other:?}").into()),
    }
}

fn inside(root: &Path) -> Command {
    let mut command = Command::new("chroot");
    command.arg(root).arg("/loligo").env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

/// A process that ends with this.
pub(super) struct Ended(pub(super) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
