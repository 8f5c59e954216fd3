//! Goal: a server starts all daemons in its list, without knowing any by name. Method: a toy metadata
//! server that answers one message is added to the list. A client connects to the address that the
//! server reports for it, with a ticket or, if authentication is off, without.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loligo_cephx::client::{AuthClient, ClientConfig};
use loligo_cephx::handshake::ClientAuth;
use loligo_conf::read_keyring;
use loligo_msgr::{
    AcceptAuth, Config, ConnectAuth, Connection, Dispatcher, Error, Messenger, Policies, Policy,
};
use loligo_server::{Auth, Daemon, Handle, Server, Surroundings};
use loligo_wire::message::mon::{MCommand, MCommandReply};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{EntityAddr, EntityName, EntityType, UTime};
use tokio::sync::mpsc;

/// Replies to each command with the command's own words.
struct Toy {
    around: Surroundings,
    asked: Arc<AtomicU64>,
}

impl Daemon for Toy {
    fn name(&self) -> EntityName {
        EntityName { kind: EntityType::MDS, id: "toy".to_owned() }
    }

    fn dispatcher(&self) -> Arc<dyn Dispatcher> {
        Arc::new(Echo(Arc::clone(&self.asked)))
    }

    fn auth(&self) -> Arc<dyn AcceptAuth> {
        self.around.tickets_for(EntityType::MDS)
    }

    fn policies(&self) -> Policies {
        Policies::new(Policy::stateless_server())
    }
}

struct Echo(Arc<AtomicU64>);

impl Dispatcher for Echo {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..).filter(|msg| msg.header.kind == MCommand::KIND) {
            self.0.fetch_add(1, Ordering::Relaxed);
            let command: MCommand = msg.open().expect("the client's own");
            let status = format!("{} of {}", command.cmd.concat(), conn.peer().kind);
            let reply = MCommandReply { result: 0, status, output: Default::default() };
            conn.send(Msg::new(&reply).with_tid(msg.header.tid)).expect("the client waits");
        }
    }
}

/// Events on the client's connections.
#[derive(Debug)]
enum News {
    Up,
    Answer(MCommandReply),
    Failed(String),
}

struct Inbox(mpsc::UnboundedSender<News>);

impl Dispatcher for Inbox {
    fn dispatch(&self, _: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            if msg.header.kind == MCommandReply::KIND {
                let _ = self.0.send(News::Answer(msg.open().expect("an answer")));
            }
        }
    }

    fn connected(&self, _: &Arc<Connection>) {
        let _ = self.0.send(News::Up);
    }

    fn refused(&self, _: &Arc<Connection>, why: &Error) {
        let _ = self.0.send(News::Failed(why.to_string()));
    }

    fn reset(&self, _: &Arc<Connection>, why: &Error) {
        let _ = self.0.send(News::Failed(why.to_string()));
    }
}

/// Authenticates the client: to the monitor with the key, to other daemons with the ticket that the
/// monitor issued.
struct Proof(Arc<AuthClient>);

impl ConnectAuth for Proof {
    fn connector(&self, peer: EntityType) -> Box<dyn ClientAuth> {
        match peer {
            EntityType::MON => self.0.mon_auth(),
            service => self.0.service_auth(service, self.0.global_id()),
        }
    }
}

/// Logs in, connects to the address that the server reports for the toy, and returns the reply.
async fn ask_toy(server: &Handle, words: &str) -> String {
    let admin = EntityName::client("admin");
    let keys = read_keyring(server.keyring()).expect("the server has written it");
    let key = if server_has_keys(server) { keys.key(&admin).cloned() } else { None };
    let services = vec![EntityType::MON, EntityType::MDS];
    let auth = AuthClient::new(ClientConfig { services, ..ClientConfig::new(admin, key, UTime::now) });
    let (tell, mut told) = mpsc::unbounded_channel();
    let messenger = Messenger::new(Config::new(EntityType::CLIENT), Arc::new(Inbox(tell)));
    let proof: Arc<dyn ConnectAuth> = Arc::new(Proof(Arc::clone(&auth)));
    let dial = |kind, addr| messenger.connect(kind, addr, Policy::lossy_client(), Arc::clone(&proof));
    let mon = dial(EntityType::MON, EntityAddr::msgr2(server.mon_addr()));
    let news = told.recv().await.expect("the messenger lives");
    assert!(matches!(news, News::Up), "the monitor lets us in: {news:?}");
    assert!(auth.can_reach(EntityType::MDS), "with a ticket for metadata servers");
    mon.mark_down();
    let toy =
        server.daemons().iter().find(|daemon| daemon.name.to_string() == "mds.toy").expect("it is listed");
    let conn = dial(EntityType::MDS, *toy.addrs.msgr2().expect("it speaks msgr2"));
    let command = MCommand { cmd: vec![words.to_owned()], ..MCommand::default() };
    conn.send(Msg::new(&command)).expect("it waits for the connection");
    loop {
        match told.recv().await.expect("the messenger lives") {
            News::Up => {}
            News::Failed(why) => panic!("the toy cannot be reached: {why}"),
            News::Answer(reply) => {
                messenger.shutdown().await;
                return reply.status;
            }
        }
    }
}

fn server_has_keys(server: &Handle) -> bool {
    let conf = std::fs::read_to_string(server.conf()).expect("the server has written it");
    conf.contains("auth client required = cephx")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_of_the_list_is_started_and_dialled() {
    for auth in [Auth::Cephx, Auth::None] {
        let asked = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&asked);
        let make = move |around: &Surroundings| {
            Arc::new(Toy { around: around.clone(), asked: Arc::clone(&counter) }) as Arc<dyn Daemon>
        };
        let server = Server::memory().auth(auth).daemon(make).start().expect("the server starts");
        let names: Vec<String> = server.daemons().iter().map(|daemon| daemon.name.to_string()).collect();
        assert_eq!(names, ["osd.0", "mgr.a", "mds.toy", "mon.a"]);
        assert_eq!(ask_toy(&server, "who asks?").await, "who asks? of client", "{auth:?}");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        server.shutdown().await;
    }
}
