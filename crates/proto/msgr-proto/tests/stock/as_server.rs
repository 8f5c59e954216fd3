//! A stock `rados` connects to this server, which acts as a monitor.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use loligo_cephx::handshake::ConMode;
use loligo_cephx::key::KeyType;
use loligo_cephx::keyring::Keyring;
use loligo_cephx::server::{AuthConfig, AuthServer, Rotation, ServiceKeys};
use loligo_msgr_proto::{Event, FLAG_LOSSY, Frame, Handshake, Limits, Local, ServerIdent};
use loligo_wire::features::SUPPORTED;
use loligo_wire::{EntityAddr, EntityType, GlobalId, UTime};

use crate::{drive, next_frame};

const KEYRING: &str =
    "[client.admin]\nkey = AQCpDjxhAAAAABAAMDEyMzQ1Njc4OWFiY2RlZg==\ncaps mon = \"allow *\"\n";
const MON_SUBSCRIBE: u16 = 15;

/// Stops the connecting program when dropped.
struct Rados {
    child: Child,
    keyring: PathBuf,
}

impl Rados {
    fn connect(to: SocketAddr, mode: &str) -> Self {
        let keyring =
            std::env::temp_dir().join(format!("loligo-proto-{}-{mode}.keyring", std::process::id()));
        std::fs::write(&keyring, KEYRING).expect("a keyring can be written");
        let child = Command::new("rados")
            .args(["-m", &format!("v2:{to}"), "-n", "client.admin", "--keyring"])
            .arg(&keyring)
            .args([&format!("--ms_mon_client_mode={mode}"), "--no-config-file", "lspools"])
            .env_remove("CEPH_CONF")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("rados is installed");
        Self { child, keyring }
    }
}

impl Drop for Rados {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.keyring);
    }
}

fn auth() -> Arc<AuthServer> {
    let config = AuthConfig::new(UTime::now);
    let (mon_ttl, service_ttl) = (config.mon_ticket_ttl, config.service_ticket_ttl);
    let keys = ServiceKeys::new(Rotation { mon_ttl, service_ttl, cipher: KeyType::Aes }, UTime::now());
    let keyring = Keyring::parse(KEYRING).expect("a good keyring");
    AuthServer::new(config, Arc::new(keyring), Arc::new(keys), GlobalId(4_100))
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_stock_client_subscribes_in_both_modes() {
    for (mode, name) in [(ConMode::Crc, "crc"), (ConMode::Secure, "secure")] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let our_sock = listener.local_addr().expect("it is bound");
        let _rados = Rados::connect(our_sock, name);
        let (mut socket, peer) = listener.accept().expect("rados connects");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout can be set");

        let local =
            Local { kind: EntityType::MON, peer_addr: EntityAddr::msgr2(peer), limits: Limits::default() };
        let mut hs = Handshake::server(local, auth().mon_acceptor());
        drive(&mut hs, &mut socket, &mut |hs, event| match event {
            Event::ClientIdent(ident) => {
                assert_eq!(ident.target_addr, EntityAddr::msgr2(our_sock));
                let ident = ServerIdent {
                    addrs: EntityAddr::msgr2(our_sock).into(),
                    gid: 0,
                    global_seq: 1,
                    supported_features: SUPPORTED,
                    required_features: 0,
                    flags: FLAG_LOSSY,
                    cookie: 0,
                };
                hs.accept(ident).map(|()| true)
            }
            _ => Ok(false),
        })
        .expect("the session opens");
        let mut conn = hs.into_established().expect("it is open");
        assert_eq!(conn.peer.mode, mode);
        assert_eq!(conn.peer.identity.map(|i| i.name.to_string()), Some("client.admin".to_owned()));

        let now = UTime { sec: 7, nsec: 8 };
        conn.sealer.keepalive2(now, &mut conn.out).expect("it can be sealed");
        socket.write_all(&conn.out.take()).expect("rados takes what we write");
        let (mut subscribed, mut alive) = (false, false);
        while !subscribed || !alive {
            match next_frame(&mut conn.opener, &mut socket) {
                Frame::Message(msg) => subscribed |= msg.header.kind == MON_SUBSCRIBE,
                Frame::Keepalive2Ack(theirs) => alive = theirs == now,
                _ => {}
            }
        }
    }
}
