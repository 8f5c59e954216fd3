//! Admin sockets: that of a client, for who has configured one, and asking at others'.

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
    exchange().map_err(|e| Failure::new(format!("ask {}", socket.display()), why(socket, &e)))
}

/// What keeps a program from answering, and what can be done.
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

/// The admin socket of this program as a client, as long as it is kept.
pub(crate) struct OfClient {
    _socket: AdminSocket,
    client: Observed,
}

/// The client whose operations an admin socket shows, once it is connected.
pub(crate) type Observed = Arc<OnceLock<InFlight>>;

impl OfClient {
    /// Where the client is to be put when it is connected.
    pub(crate) fn client(&self) -> Observed {
        Arc::clone(&self.client)
    }
}

/// Opens the socket that `admin_socket` names, as stock clients do; none if it is not set. Like them we go on
/// without it if it can't be had, and say so.
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

/// Has an admin socket tell what a client has in flight, or nothing as long as there is no client.
pub(crate) fn show_requests(admin: &Admin, client: impl Fn() -> Option<InFlight> + Send + Sync + 'static) {
    admin.command(Command::new("objecter_requests", "The operations in flight.", move |request| {
        let in_flight = client().map(|client| client.requests()).unwrap_or_default();
        Ok(request.json(&in_flight::as_stock_has_it(&in_flight)))
    }));
}
