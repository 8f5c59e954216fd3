//! `loligo server`: the state of a running server in memory, as a whole: to a file, from a file, and back to
//! what it was when the server was ready.
//!
//! The server does the work. It is asked at its admin socket, so only the user who runs it may ask, and files
//! are those of the server's machine.

use std::path::{Path, PathBuf, absolute};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use loligo_conf::{Conf, Environment};
use loligo_rados::Builder;
use loligo_wire::{EntityName, EntityType};
use serde_json::{Value, json};

use crate::admin::ask;
use crate::carried::progress;
use crate::failure::{Context, Failure};

/// What to do with a server.
#[derive(Subcommand)]
pub(crate) enum ServerCommand {
    /// Return a server in memory to the state that it had when it was ready, in milliseconds.
    ///
    /// Objects, pools, users and settings are again what they were after --load, --image, --user and
    /// --snapshot; the server keeps its addresses, its id and its clients' tickets. All clients are
    /// disconnected and connect again by themselves; watches are gone. An operation without an answer is
    /// executed after the reset.
    Reset(At),
    /// Write the whole state of a server in memory to a file, for `serve --snapshot` and `server restore`.
    ///
    /// It is the state of one moment, with all objects, pools, users, keys and settings. Only the file's
    /// owner may read it: it has the cluster's keys. Watches are left out.
    Dump(OfFile),
    /// Return a server in memory to the state of a file.
    ///
    /// As `reset`, which still returns to the state when the server was ready. The server keeps its id and
    /// the key of client.admin, and must show as many OSDs as the one that was dumped.
    Restore(OfFile),
}

/// A file of a server's state.
#[derive(Args)]
pub(crate) struct OfFile {
    file: PathBuf,
    #[command(flatten)]
    at: At,
}

/// Which server.
#[derive(Args)]
pub(crate) struct At {
    /// The server's admin socket, DIR/loligo.asok of `serve --data DIR` (default: the one that the
    /// configuration names, which is the server's own ceph.conf).
    #[arg(long, value_name = "SOCKET")]
    asok: Option<PathBuf>,
}

pub(crate) fn run(command: &ServerCommand, conf: &Builder) -> Result<(), Failure> {
    match command {
        ServerCommand::Reset(at) => {
            let socket = at.socket(conf)?;
            ordered(&socket, "reset", "server reset", None).map(drop)
        }
        ServerCommand::Dump(OfFile { file, at }) => work(&at.socket(conf)?, "dump", file),
        ServerCommand::Restore(OfFile { file, at }) => work(&at.socket(conf)?, "restore", file),
    }
}

impl At {
    fn socket(&self, conf: &Builder) -> Result<PathBuf, Failure> {
        let what = || "find the server".to_owned();
        if let Some(socket) = &self.asok {
            return Ok(socket.clone());
        }
        let conf = conf.load().context(what)?;
        let none = |why: String| {
            Failure::new(
                what(),
                format!("{why}; name its admin socket with --asok DIR/loligo.asok, or its ceph.conf with -c"),
            )
        };
        let file = conf.file().ok_or_else(|| none("there is no configuration".to_owned()))?;
        let osd = EntityName { kind: EntityType::OSD, id: "0".to_owned() };
        let of_server = Conf::read(file, osd, Environment::current()).context(what)?;
        let socket = of_server.text("admin_socket").filter(|socket| !socket.is_empty());
        socket
            .map(PathBuf::from)
            .ok_or_else(|| none(format!("{} names no admin socket of osd.0", file.display())))
    }
}

/// Has the server begin its work, and waits for the end.
fn work(socket: &Path, word: &str, file: &Path) -> Result<(), Failure> {
    let what = || format!("server {word} {}", file.display());
    // The server has another working directory.
    let path = absolute(file).context(what)?;
    let path = path.to_str().ok_or_else(|| Failure::new(what(), "a name that is UTF-8 is needed"))?;
    let begun =
        ordered(socket, &format!("{word} {}", file.display()), &format!("server {word}"), Some(path))?;
    let (job, bytes) = (&begun["job"], begun["bytes"].as_u64());
    let bar = progress(bytes);
    let mut pause = Pause::new();
    loop {
        let told = ordered(socket, &format!("{word} {}", file.display()), "server job", None)?;
        if told["job"] != *job {
            return Err(Failure::new(
                what(),
                "another dump or restoration has begun since, and this one's end is unknown",
            ));
        }
        bar.set_position(told["done"].as_u64().unwrap_or(0));
        match told["state"].as_str() {
            Some("running") => pause.wait(),
            Some("done") => break,
            _ => {
                return Err(Failure::new(
                    what(),
                    told["why"].as_str().unwrap_or("the server does not say why"),
                ));
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Sends a command; returns the reply, which is JSON or nothing.
fn ordered(socket: &Path, word: &str, prefix: &str, path: Option<&str>) -> Result<Value, Failure> {
    let what = || format!("server {word}");
    let mut request = json!({ "prefix": prefix, "format": "json" });
    if let Some(path) = path {
        request["path"] = json!(path);
    }
    let text = ask(socket, &request)?;
    match text.strip_prefix("ERROR: ") {
        Some(why) => Err(Failure::new(what(), why.trim_end())),
        None if text.trim().is_empty() => Ok(Value::Null),
        None => serde_json::from_str(&text).context(what),
    }
}

/// Waits between questions: a twentieth of the time so far, so that a short job is not kept waiting.
struct Pause(Instant);

impl Pause {
    const MIN: Duration = Duration::from_millis(1);
    const MAX: Duration = Duration::from_millis(100);

    fn new() -> Self {
        Self(Instant::now())
    }

    fn wait(&mut self) {
        thread::sleep((self.0.elapsed() / 20).clamp(Self::MIN, Self::MAX));
    }
}
