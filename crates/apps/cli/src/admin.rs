//! Admin sockets: serves a client's own if one is configured, and queries those of other programs.

use std::io::{self, Read, Write};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use loligo_admin::{Admin, AdminSocket, Command, ConfigOption};
use loligo_conf::Conf;
use loligo_rados::InFlight;
use serde_json::Value;

use crate::failure::Failure;
use crate::in_flight;

/// Timeout for a server's reply: a little longer than the server allows a slow command.
const PATIENCE: Duration = Duration::from_secs(35);
/// Maximum length of a reply in bytes; real replies have some kilobytes.
const ANSWER_MAX: u64 = 64 << 20;

/// Sends a request to an admin socket and returns the reply.
///
/// The request is a JSON object followed by a zero byte. The reply is its length in four bytes, then the
/// text.
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
    exchange().map_err(|e| Failure::new(format!("ask {}", socket.display()), why(socket, &e)))
}

/// Explains why a program does not reply, and what the user can do.
fn why(socket: &Path, e: &io::Error) -> String {
    let meta = std::fs::metadata(socket);
    match (e.kind(), meta) {
        (io::ErrorKind::NotFound, _) => format!(
            "there is no admin socket ({e}); a server's is loligo.asok in the directory of its data, and a client has one while it runs if it \
             is started with --admin-socket PATH, or with `admin socket` in its configuration"
        ),
        (_, Ok(meta)) if meta.is_dir() => {
            format!(
                "a directory; the socket of a server whose data it has is {}",
                socket.join("loligo.asok").display()
            )
        }
        (_, Ok(meta)) if !meta.file_type().is_socket() => "not a socket".to_owned(),
        (io::ErrorKind::ConnectionRefused, _) => {
            format!("nobody listens ({e}): the program that had this socket has ended without removing it")
        }
        (io::ErrorKind::PermissionDenied, _) => {
            format!("{e}; only the user who runs the program may ask, and root")
        }
        (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, _) => {
            format!("no answer for {} s", PATIENCE.as_secs())
        }
        _ => e.to_string(),
    }
}

/// The admin socket of this program as a client. Dropping it closes the socket.
pub(crate) struct OfClient {
    _socket: AdminSocket,
    client: Observed,
}

/// The client whose operations an admin socket shows; set once it is connected.
pub(crate) type Observed = Arc<OnceLock<InFlight>>;

impl OfClient {
    /// Returns the cell in which the client is set once it is connected.
    pub(crate) fn client(&self) -> Observed {
        Arc::clone(&self.client)
    }
}

/// Opens the socket that `admin_socket` names, as stock clients do; returns `None` if the option is not
/// set. If the socket cannot be opened, the client warns and continues without it, also as stock clients
/// do.
pub(crate) fn of_client(conf: &Conf) -> Option<OfClient> {
    let name = conf.text("admin_socket").filter(|name| !name.is_empty())?;
    let admin = Admin::new();
    for (option, value) in [("name", conf.name().to_string()), ("admin_socket", name.clone())] {
        admin.option(ConfigOption::new(option, move || value.clone()));
    }
    let client = Observed::default();
    let observed = Arc::clone(&client);
    show_requests(&admin, move || observed.get().cloned());
    let socket = AdminSocket::open(Path::new(&name), admin)
        .inspect_err(|e| eprintln!("loligo: admin socket {name}: {e}; going on without it"));
    Some(OfClient { _socket: socket.ok()?, client })
}

/// Adds a command to an admin socket that lists the client's operations in flight. The list is empty
/// while there is no client.
pub(crate) fn show_requests(admin: &Admin, client: impl Fn() -> Option<InFlight> + Send + Sync + 'static) {
    admin.command(Command::new("objecter_requests", "The operations in flight.", move |request| {
        let in_flight = client().map(|client| client.requests()).unwrap_or_default();
        Ok(request.json(&in_flight::as_stock_has_it(&in_flight)))
    }));
}
