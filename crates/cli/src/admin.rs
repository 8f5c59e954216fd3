//! Admin sockets: that of a client, for who has configured one, and asking at others'.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use loligo_admin::{Admin, AdminSocket, ConfigOption};
use loligo_cephx::conf::Conf;
use serde_json::Value;

use crate::failure::{Context, Failure};

/// How long a server may take to answer: a little longer than it gives commands that take their time.
const PATIENCE: Duration = Duration::from_secs(35);
/// Bytes of an answer that are read; real ones have some kilobytes.
const ANSWER_MAX: u64 = 64 << 20;

/// Asks at an admin socket: a JSON object and a zero byte there, four bytes of length and a text back.
pub(crate) fn ask(socket: &Path, request: &Value) -> Result<String, Failure> {
    let exchange = || -> io::Result<String> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{request}\0").as_bytes())?;
        let mut len = [0; 4];
        stream.read_exact(&mut len)?;
        let mut text = String::new();
        stream.take(u64::from(u32::from_be_bytes(len)).min(ANSWER_MAX)).read_to_string(&mut text)?;
        Ok(text)
    };
    exchange().context(|| format!("ask {}", socket.display()))
}

/// Opens the socket that `admin_socket` names, as stock clients do; none if it is not set. Like them we go on without it if
/// it can't be had, and say so.
pub(crate) fn of_client(conf: &Conf) -> Option<AdminSocket> {
    let name = conf.text("admin_socket").filter(|name| !name.is_empty())?;
    let admin = Admin::new();
    for (option, value) in [("name", conf.name().to_string()), ("admin_socket", name.clone())] {
        admin.option(ConfigOption::new(option, move || value.clone()));
    }
    AdminSocket::open(Path::new(&name), admin)
        .inspect_err(|e| eprintln!("loligo: admin socket {name}: {e}; going on without it"))
        .ok()
}
