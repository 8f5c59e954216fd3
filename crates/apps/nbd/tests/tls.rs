//! Goal: a client with a shared key can use devices, and any other client learns nothing. Method: a
//! gateway over real sockets, and clients of the same TLS library; stock clients are in the tests of the
//! program.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use loligo_nbd::tls::{Acceptor, CertificateFiles, TlsError, TlsFiles};
use loligo_nbd::{Allowed, Definition, Opener, Registry, Server, Spec};
use s2n_tls::config::Config;
use s2n_tls::connection::{Builder, Connection};
use s2n_tls::enums::{Mode, PskHmac};
use s2n_tls::error::Error;
use s2n_tls::psk::Psk;
use s2n_tls::security::DEFAULT_TLS13;
use s2n_tls_tokio::{TlsConnector, TlsStream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

const KEY: [u8; 32] = [7; 32];

/// A key file, removed on drop.
struct KeyFile(PathBuf);

impl KeyFile {
    fn new(what: &str, text: &str, mode: u32) -> Self {
        let path = std::env::temp_dir().join(format!("loligo-nbd-keys-{what}.{}", std::process::id()));
        fs::write(&path, text).expect("room");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        Self(path)
    }

    fn files(&self) -> TlsFiles {
        TlsFiles { certificates: None, shared_keys: Some(self.0.clone()) }
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A file in which `user` has [`KEY`], and some other users have keys of their own.
fn keys() -> String {
    let hex = |byte: u8| format!("{byte:02x}").repeat(32);
    format!("other:{}\nuser:{}\nlast:{}\n", hex(1), hex(7), hex(2))
}

/// A client with a key.
#[derive(Clone)]
struct Keyed {
    user: &'static str,
    key: [u8; 32],
}

impl Builder for Keyed {
    type Output = Connection;

    fn build_connection(&self, mode: Mode) -> Result<Connection, Error> {
        let mut config = Config::builder();
        config.with_system_certs(false)?.set_security_policy(&DEFAULT_TLS13)?.set_max_blinding_delay(0)?;
        let mut psk = Psk::builder()?;
        psk.set_identity(self.user.as_bytes())?.set_secret(&self.key)?.set_hmac(PskHmac::SHA256)?;
        let mut connection = config.build()?.build_connection(mode)?;
        connection.append_psk(&psk.build()?)?;
        Ok(connection)
    }
}

/// Sends STARTTLS and does the TLS handshake.
async fn secured(addr: SocketAddr, client: Keyed) -> io::Result<TlsStream<TcpStream>> {
    let mut stream = TcpStream::connect(addr).await?;
    stream.read_exact(&mut [0; 18]).await?;
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x05\0\0\0\0").await?;
    let mut reply = [0; 20];
    stream.read_exact(&mut reply).await?;
    assert_eq!(reply[8..], [0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0], "STARTTLS is acknowledged");
    Ok(TlsConnector::new(client).connect("localhost", stream).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_a_shared_key_uses_devices_and_nobody_else() {
    let file = KeyFile::new("good", &keys(), 0o600);
    let registry = Registry::new(Opener::local(), Handle::current());
    let spec = Spec::parse("memory:1M").expect("it is one");
    let disk =
        Definition { name: "disk".to_owned(), description: String::new(), spec, allow: Default::default() };
    registry.add(disk).await.expect("memory");
    let mut server = Server::new(registry, Some(Acceptor::new(&file.files()).expect("keys")));
    let addr = server.listen("127.0.0.1:0".parse().expect("an address")).await.expect("a free port");

    let mut client = secured(addr, Keyed { user: "user", key: KEY }).await.expect("the key is known");
    client.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\x04disk").await.expect("it listens");
    let mut export = [0; 10];
    client.read_exact(&mut export).await.expect("the export");
    assert_eq!(export[..8], (1u64 << 20).to_be_bytes());
    // Long enough for many records in both directions.
    let data: Vec<u8> = (0..500_000u32).map(|n| (n / 3) as u8).collect();
    let request = |command: u8| {
        let head = [&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, command][..], &[0; 7], &[command], &[0; 8]].concat();
        [head, (data.len() as u32).to_be_bytes().to_vec()].concat()
    };
    client.write_all(&[request(1), data.clone()].concat()).await.expect("it listens");
    client.write_all(&request(0)).await.expect("it listens");
    client.flush().await.expect("it listens");
    let mut replies = vec![0; 32 + data.len()];
    client.read_exact(&mut replies).await.expect("two answers");
    assert_eq!(replies[..16], *b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x01");
    assert_eq!(replies[16..32], *b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\0");
    assert!(replies[32..] == data);

    for (user, key) in [("user", [8; 32]), ("other", KEY), ("nobody", KEY)] {
        let refused = secured(addr, Keyed { user, key }).await;
        assert!(refused.is_err(), "{user}");
    }
    // Without TLS the client learns nothing, and the connection is closed.
    let mut plain = TcpStream::connect(addr).await.expect("it listens");
    plain.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04disk").await.expect("it listens");
    let mut said = Vec::new();
    plain.read_to_end(&mut said).await.expect("it ends");
    assert_eq!(said.len(), 18, "the greeting alone");
    server.close().await;
}

/// Chooses a device over TLS; returns whether the client got it.
async fn has(addr: SocketAddr, client: Keyed, name: &str) -> bool {
    let mut client = secured(addr, client).await.expect("the key is known");
    let head = [&b"IHAVEOPT\0\0\0\x01"[..], &(name.len() as u32).to_be_bytes(), name.as_bytes()].concat();
    client.write_all(&head).await.expect("it listens");
    client.flush().await.expect("it listens");
    client.read_exact(&mut [0; 10]).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_is_there_for_those_alone_to_whom_it_is_allowed() {
    let file = KeyFile::new("allow", &keys(), 0o600);
    let registry = Registry::new(Opener::local(), Handle::current());
    for (name, allow) in [
        ("anybody's", Allowed::default()),
        ("user's", Allowed::only(vec!["psk:user".parse().expect("an identity")])),
        ("nobody's", Allowed::only(Vec::new())),
    ] {
        let spec = Spec::parse("memory:1M").expect("it is one");
        let device = Definition { name: name.to_owned(), description: String::new(), spec, allow };
        registry.add(device).await.expect("memory");
    }
    let mut server = Server::new(registry, Some(Acceptor::new(&file.files()).expect("keys")));
    let addr = server.listen("127.0.0.1:0".parse().expect("an address")).await.expect("a free port");
    let user = Keyed { user: "user", key: KEY };
    let other = Keyed { user: "other", key: [1; 32] };
    for (name, may_user, may_other) in
        [("anybody's", true, true), ("user's", true, false), ("nobody's", false, false)]
    {
        assert_eq!(has(addr, user.clone(), name).await, may_user, "{name}");
        assert_eq!(has(addr, other.clone(), name).await, may_other, "{name}");
    }
    // LIST does not show the device either.
    let mut client = secured(addr, other).await.expect("the key is known");
    client.write_all(b"IHAVEOPT\0\0\0\x03\0\0\0\0IHAVEOPT\0\0\0\x02\0\0\0\0").await.expect("it listens");
    client.flush().await.expect("it listens");
    let mut told = Vec::new();
    // The connection ends without TLS's closing alert.
    let _ = client.read_to_end(&mut told).await;
    let says = |name: &str| told.windows(name.len()).any(|part| part == name.as_bytes());
    assert_eq!((says("anybody's"), says("user's"), says("nobody's")), (true, false, false));
    server.close().await;
}

#[test]
fn keys_that_others_may_read_are_refused() {
    for mode in [0o640, 0o604, 0o660, 0o644] {
        let file = KeyFile::new("open", &keys(), mode);
        let refused = Acceptor::new(&file.files()).err().expect("it is refused").to_string();
        assert!(refused.contains(&format!("mode is 0{mode:o}")), "{refused}");
    }
    let file = KeyFile::new("open", "user:12\n", 0o600);
    let refused = Acceptor::new(&file.files()).err().expect("it is refused").to_string();
    assert!(refused.ends_with("line 1: a key has 16 bytes at least, not 1"), "{refused}");
}

#[test]
fn keys_beside_certificates_that_ask_for_nothing_are_refused() {
    let path = || Path::new("/nowhere").to_owned();
    let certificates = Some(CertificateFiles { certificate: path(), key: path(), client_authority: None });
    let both = TlsFiles { certificates, shared_keys: Some(path()) };
    assert!(matches!(Acceptor::new(&both), Err(TlsError::Anybody)));
    let neither = TlsFiles { certificates: None, shared_keys: None };
    assert!(matches!(Acceptor::new(&neither), Err(TlsError::Nothing)));
}
