//! `ceph tell osd.0 …`: the commands of the admin socket, for whoever may do everything with objects.

use std::sync::Arc;

use loligo_admin::{Admin, Command, Failure, Refusal};
use loligo_cephx::caps::OsdCaps;
use loligo_msgr::{Connection, Dispatcher, Error};
use loligo_osd::Osd;
use loligo_wire::message::mon::{MCommand, MCommandReply};
use loligo_wire::message::{Message, Msg};
use loligo_wire::{PgId, Tid};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const EBUSY: i32 = 16;

/// Commands that run at a time, over all clients. Each has a thread for as long as it takes; what comes beyond is refused.
const RUNNING_MAX: usize = 16;

/// What the OSD's messenger hands messages to: commands to the admin table, everything else to the OSD.
pub(crate) struct OsdDoor {
    osd: Arc<Osd>,
    admin: Admin,
    running: Arc<Semaphore>,
}

impl OsdDoor {
    pub(crate) fn new(osd: Arc<Osd>, admin: Admin) -> Arc<Self> {
        Arc::new(Self { osd, admin, running: Arc::new(Semaphore::new(RUNNING_MAX)) })
    }

    fn command(&self, conn: &Arc<Connection>, msg: &Msg) {
        let command: MCommand = match msg.open() {
            Ok(command) => command,
            Err(e) => return conn.refuse(msg.header.kind, e),
        };
        let tid = msg.header.tid;
        if !may_do_everything(conn) {
            return answer(conn, tid, (-EACCES, "access denied".to_owned(), String::new()));
        }
        let Ok(permit) = Arc::clone(&self.running).try_acquire_owned() else {
            return answer(conn, tid, (-EBUSY, "too many commands at a time".to_owned(), String::new()));
        };
        let (admin, conn) = (self.admin.clone(), Arc::clone(conn));
        // A command may take a while, and this thread serves a client's requests.
        tokio::task::spawn_blocking(move || {
            answer(&conn, tid, run(&admin, &command.cmd.concat()));
            drop(permit);
        });
    }
}

impl Dispatcher for OsdDoor {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        if msgs.iter().any(|msg| msg.header.kind == MCommand::KIND) {
            let commands = msgs.extract_if(.., |msg| msg.header.kind == MCommand::KIND);
            commands.for_each(|msg| self.command(conn, &msg));
        }
        self.osd.dispatch(conn, msgs);
    }

    fn reset(&self, conn: &Arc<Connection>, why: &Error) {
        self.osd.reset(conn, why);
    }
}

fn may_do_everything(conn: &Connection) -> bool {
    let caps = conn.identity().and_then(|identity| OsdCaps::parse(&identity.caps).ok());
    caps.is_some_and(|caps| caps.allow_all())
}

/// A result, what to tell people, and the output.
fn run(admin: &Admin, request: &str) -> (i32, String, String) {
    match admin.run(request.as_bytes()) {
        Ok(output) => (0, String::new(), output),
        Err(Refusal::Unknown(words)) => (-EINVAL, format!("unknown command prefix {words}"), String::new()),
        Err(Refusal::Failed(Failure(why))) => (-EINVAL, why, String::new()),
    }
}

fn answer(conn: &Connection, tid: Tid, (result, status, output): (i32, String, String)) {
    let reply = MCommandReply { result, status, output: output.into() };
    // Who asked may be gone.
    let _ = conn.send(Msg::new(&reply).with_tid(tid));
}

/// Adds what is asked of placement groups: `ceph tell PGID query`.
pub(crate) fn register(admin: &Admin, osd: Arc<Osd>) {
    let query = move |request: &loligo_admin::Request| {
        let pgid = request.arg("pgid").ok_or_else(|| Failure("no pgid specified".to_owned()))?;
        let pg: PgId = pgid.parse().map_err(|_| Failure(format!("couldn't parse pgid '{pgid}'")))?;
        let map = osd.map();
        let there = map.pool(pg.pool).is_some_and(|pool| pg.seed < pool.pg_num());
        if !there {
            return Err(Failure(format!("i don't have pgid {pgid}")));
        }
        Ok(request.json(&describe(pg, map.epoch.0)))
    };
    let command = Command::new("query", "Show the state of a placement group.", query);
    admin.command(command.optional("pgid", &[]));
}

fn describe(pg: PgId, epoch: u32) -> Value {
    json!({
        "snap_trimq": "[]",
        "snap_trimq_len": 0,
        "state": "active+clean",
        "epoch": epoch,
        "up": [0],
        "acting": [0],
        "acting_recovery_backfill": ["0"],
        "info": { "pgid": pg.to_string() },
        "peer_info": [],
        "recovery_state": [{ "name": "Started/Primary/Active" }],
    })
}
