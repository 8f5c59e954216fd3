//! The admin socket and its thread.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{env, fs};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::{self, Runtime};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use crate::protocol;
use crate::table::Admin;

/// Maximum number of concurrent connections; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 16;
/// Time limit for a client to send its request, and to read its reply.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a failed accept, which fails for example when no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that serves requests until it is dropped. Dropping it removes its file.
#[derive(Debug)]
pub struct AdminSocket {
    path: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AdminSocket {
    /// Listens at a path. A stale socket, on which no process listens, or any other file at the path is
    /// replaced.
    ///
    /// # Errors
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if a process listens there; the system's error if the
    /// thread, the socket or its file cannot be created.
    pub fn open(path: &Path, admin: Admin) -> io::Result<Self> {
        if net::UnixStream::connect(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let listener = listen_private(path)?;
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        let run = move || match runtime(listener) {
            Ok((runtime, listener)) => {
                let _ = ready.send(Ok(()));
                serve(&runtime, &listener, &admin, stopped);
                // A command that still runs is not waited for: it may depend on parts of the program
                // that wait for this socket to close.
                runtime.shutdown_background();
            }
            Err(e) => drop(ready.send(Err(e))),
        };
        let thread = thread::Builder::new().name("loligo-asok".to_owned()).spawn(run)?;
        is_ready.recv().map_err(io::Error::other)??;
        Ok(Self { path: path.to_owned(), stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens at a path and replaces a file there. At no time can any user but the owner connect: the
/// socket is created in a directory that is closed to others, and renamed to `path` once its own mode is
/// set. That directory has a short name, since the path of a socket is limited to 107 bytes when it is
/// bound; `path` may be longer.
pub fn listen_private(path: &Path) -> io::Result<net::UnixListener> {
    let dir = closed_dir_beside(path)?;
    let bound = bind(&dir.join("s")).and_then(|listener| {
        fs::set_permissions(dir.join("s"), fs::Permissions::from_mode(0o600))?;
        fs::rename(dir.join("s"), path)?;
        Ok(listener)
    });
    let _ = fs::remove_dir_all(&dir);
    bound
}

/// Creates an empty directory that only the owner may enter. Concurrently started programs use different
/// ones.
fn closed_dir_beside(path: &Path) -> io::Result<PathBuf> {
    loop {
        // A hasher's random keys serve as a source of random numbers.
        let random = RandomState::new().build_hasher().finish() >> 32;
        let dir = path.with_file_name(format!(".{random:08x}"));
        match fs::DirBuilder::new().mode(0o700).create(&dir) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| dir),
        }
    }
}

fn bind(path: &Path) -> io::Result<net::UnixListener> {
    const SOCKET_PATH_MAX: usize = 107;
    if path.as_os_str().len() <= SOCKET_PATH_MAX {
        return net::UnixListener::bind(path);
    }
    // Binds through a symbolic link with a shorter path to the directory.
    let random = RandomState::new().build_hasher().finish();
    let link = env::temp_dir().join(format!("loligo-asok.{random:016x}"));
    let (dir, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    std::os::unix::fs::symlink(dir, &link)?;
    let bound = net::UnixListener::bind(link.join(name));
    let _ = fs::remove_file(&link);
    bound
}

fn runtime(listener: net::UnixListener) -> io::Result<(Runtime, UnixListener)> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    listener.set_nonblocking(true)?;
    let entered = runtime.enter();
    let listener = UnixListener::from_std(listener)?;
    drop(entered);
    Ok((runtime, listener))
}

fn serve(runtime: &Runtime, listener: &UnixListener, admin: &Admin, mut stopped: oneshot::Receiver<()>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    runtime.block_on(async {
        loop {
            let accepted = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (place, listener.accept().await)
            };
            let (place, stream) = tokio::select! {
                _ = &mut stopped => return,
                (place, accepted) = accepted => match accepted {
                    Ok((stream, _)) => (place, stream),
                    Err(_) => {
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
            };
            let admin = admin.clone();
            tokio::spawn(async move {
                // The result is dropped: a client that disconnects or is too slow gets no answer.
                let place = Arc::new(place);
                let _ = converse(stream, &admin, Arc::clone(&place)).await;
                drop(place);
            });
        }
    });
}

/// Handles one request. Its command keeps `place`, so that commands that do not end are bounded, too.
async fn converse(
    mut stream: UnixStream,
    admin: &Admin,
    place: Arc<impl Send + Sync + 'static>,
) -> io::Result<()> {
    let Some(request) = timeout(PATIENCE, receive(&mut stream)).await?? else { return Ok(()) };
    let reply = protocol::reply(&admin.answer(request, place).await);
    timeout(PATIENCE, async {
        stream.write_all(&reply).await?;
        stream.shutdown().await
    })
    .await?
}

/// Receives a request without its terminator. Returns `None` if the client has disconnected or exceeds
/// the size limit.
async fn receive(stream: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
    let mut received = Vec::with_capacity(1024);
    loop {
        if let Some(len) = protocol::end(&received) {
            received.truncate(len);
            return Ok(Some(received));
        }
        if received.len() >= protocol::REQUEST_MAX {
            return Ok(None);
        }
        let room = (protocol::REQUEST_MAX - received.len()) as u64;
        if stream.take(room).read_buf(&mut received).await? == 0 {
            return Ok(None);
        }
    }
}
