//! The client's handshake with a server, up to the point where requests may begin.

use std::fmt;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use bytes::BytesMut;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::proto::{Joining, Offer, Unwilling};

/// Time limit for each read and write of the handshake.
const PATIENCE: Duration = Duration::from_secs(30);
/// The port assigned to NBD.
const PORT: u16 = 10809;
/// Bytes per read.
const READ_BYTES: usize = 4096;

/// An export of a server, as `nbd://HOST[:PORT]/NAME` or `nbd+unix:///NAME?socket=PATH` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    place: Place,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// Why a URI names no export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The URI asks for TLS.
    #[error("the kernel's client does not speak TLS")]
    Tls,
    /// The URI has another form.
    #[error("'{0}' is not nbd://HOST[:PORT]/NAME or nbd+unix:///NAME?socket=PATH")]
    Form(String),
}

/// Why the handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The connection could not be made, or it ended.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// The server refused, or its answer was not valid.
    #[error(transparent)]
    Unwilling(#[from] Unwilling),
}

/// A connection whose handshake has chosen an export; requests may begin.
#[derive(Debug)]
pub struct Joined {
    /// The socket, in blocking mode and without time-outs.
    pub socket: OwnedFd,
    /// The server's description of the export.
    pub offer: Offer,
}

impl Target {
    /// Names an export at a Unix socket.
    pub fn unix(path: impl Into<PathBuf>, name: impl Into<String>) -> Self {
        Self { place: Place::Unix(path.into()), name: name.into() }
    }

    /// Parses a URI.
    ///
    /// # Errors
    /// The URI has another form, or asks for TLS.
    pub fn parse(uri: &str) -> Result<Self, TargetError> {
        let form = || TargetError::Form(uri.to_owned());
        let (scheme, rest) = uri.split_once("://").ok_or_else(form)?;
        match scheme {
            "nbd" => Self::tcp(rest).ok_or_else(form),
            "nbd+unix" => Self::at_socket(rest).ok_or_else(form),
            "nbds" | "nbds+unix" => Err(TargetError::Tls),
            _ => Err(form()),
        }
    }

    fn tcp(rest: &str) -> Option<Self> {
        let (place, name) = rest.split_once('/').unwrap_or((rest, ""));
        // An IPv6 address is enclosed in brackets, since it contains colons.
        let (host, port) = match place.strip_prefix('[') {
            Some(bracketed) => {
                let (host, behind) = bracketed.split_once(']')?;
                (host, if behind.is_empty() { None } else { Some(behind.strip_prefix(':')?) })
            }
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Some(PORT), |port| port.parse().ok())?;
        let is_plain = !host.is_empty() && !host.contains([':', '@']) || place.starts_with('[');
        let place = Place::Tcp { host: host.to_owned(), port };
        (is_plain && !name.contains(['?', '#'])).then_some(())?;
        Some(Self { place, name: unescaped(name)? })
    }

    fn at_socket(rest: &str) -> Option<Self> {
        let (name, socket) = rest.strip_prefix('/')?.split_once("?socket=")?;
        if socket.is_empty() || socket.contains(['&', '#']) {
            return None;
        }
        Some(Self::unix(unescaped(socket)?, unescaped(name)?))
    }

    /// Connects and negotiates the export.
    ///
    /// # Errors
    /// The connection failed, or the server refused the export.
    pub fn join(&self) -> Result<Joined, JoinError> {
        match &self.place {
            Place::Tcp { host, port } => {
                let stream = TcpStream::connect((&**host, *port))?;
                stream.set_nodelay(true)?;
                self.join_at(stream)
            }
            Place::Unix(path) => self.join_at(UnixStream::connect(path)?),
        }
    }

    fn join_at<S>(&self, stream: S) -> Result<Joined, JoinError>
    where
        S: AsFd + Into<OwnedFd>,
        for<'a> &'a S: io::Read + Write,
    {
        limit(&stream, Some(PATIENCE))?;
        let offer = self.talk(&stream, &stream)?;
        limit(&stream, None)?;
        Ok(Joined { socket: stream.into(), offer })
    }

    fn talk(&self, mut input: impl io::Read, mut output: impl Write) -> Result<Offer, JoinError> {
        let mut joining = Joining::new(&*self.name);
        let (mut from, mut out) = (BytesMut::new(), BytesMut::new());
        loop {
            let offer = joining.next(&mut from, &mut out)?;
            output.write_all(&out)?;
            out.clear();
            match offer {
                // The kernel, which takes over the socket, would miss bytes that were already read.
                Some(_) if !from.is_empty() => return Err(Unwilling::Answer.into()),
                Some(offer) => return Ok(offer),
                None => {}
            }
            let mut bytes = [0; READ_BYTES];
            match input.read(&mut bytes) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(n) => from.extend_from_slice(&bytes[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::from(io::ErrorKind::TimedOut).into());
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp { host, port } if host.contains(':') => {
                write!(f, "'{}' at [{host}]:{port}", self.name)
            }
            Place::Tcp { host, port } => write!(f, "'{}' at {host}:{port}", self.name),
            Place::Unix(path) => write!(f, "'{}' at {}", self.name, path.display()),
        }
    }
}

/// Sets the time limits of the socket's reads and writes.
fn limit(socket: impl AsFd, time: Option<Duration>) -> io::Result<()> {
    set_socket_timeout(&socket, Timeout::Recv, time)?;
    Ok(set_socket_timeout(&socket, Timeout::Send, time)?)
}

/// Decodes `%XX` in a part of a URI. Returns `None` if an escape or the UTF-8 is not valid.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (code, behind) = behind.split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        bytes.push(digit(code[0])? << 4 | digit(code[1])?);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn places_and_names_are_read() {
        let tcp = |host: &str, port, name: &str| {
            Ok(Target { place: Place::Tcp { host: host.to_owned(), port }, name: name.to_owned() })
        };
        assert_eq!(Target::parse("nbd://localhost"), tcp("localhost", 10809, ""));
        assert_eq!(Target::parse("nbd://10.0.0.1:7/a/b%20c"), tcp("10.0.0.1", 7, "a/b c"));
        assert_eq!(Target::parse("nbd://[::1]/x"), tcp("::1", 10809, "x"));
        assert_eq!(Target::parse("nbd://[::1]:1/x"), tcp("::1", 1, "x"));
        assert_eq!(Target::parse("nbd+unix:///x?socket=/run/a%3fb"), Ok(Target::unix("/run/a?b", "x")));
        assert_eq!(Target::parse("nbds://localhost/x"), Err(TargetError::Tls));
        for text in [
            "",
            "localhost",
            "nbd://",
            "nbd://h:port/x",
            "nbd://user@h/x",
            "nbd://h/x?y=z",
            "nbd://[::1/x",
            "nbd://::1/x",
            "nbd://h/%2",
            "nbd://h/%ff",
            "nbd+unix://x?socket=s",
            "nbd+unix:///x",
            "nbd+unix:///x?socket=",
            "http://h/x",
        ] {
            assert_eq!(Target::parse(text), Err(TargetError::Form(text.to_owned())));
        }
    }

    /// Returns the error of joining a server that sends `words` and then shuts down its side.
    fn told(what: &'static str, words: &'static [u8]) -> JoinError {
        let path = std::env::temp_dir().join(format!("loligo-join-{what}.{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("room");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            stream.write_all(words).expect("it listens");
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = io::Read::read_to_end(&mut stream, &mut Vec::new());
        });
        let why = Target::unix(&path, "x").join().expect_err("it does not offer anything");
        server.join().expect("it ends");
        std::fs::remove_file(&path).expect("it was there");
        why
    }

    #[test]
    fn a_server_that_goes_or_says_too_much_is_not_joined() {
        assert_eq!(told("gone", b"NBDMAGIC").to_string(), "unexpected end of file");
        let early = b"NBDMAGICIHAVEOPT\0\x03\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\x80\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x09\0\x03!";
        assert!(matches!(told("early", early), JoinError::Unwilling(Unwilling::Answer)));
        assert!(matches!(told("else", b"220 mail"), JoinError::Unwilling(Unwilling::Stranger)));
    }
}
