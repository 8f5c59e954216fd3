//! Entry point for fuzzing: clients send a script of commands to a monitor without sockets.
//!
//! A step is a byte that selects the client, then bytes that select the command in the table, then its
//! arguments in order. For each argument a byte decides whether it is given, and whether it is a value
//! of its type or any text. Missing bytes read as zero.

use std::sync::Arc;
use std::time::Duration;

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_cephx::handshake::Identity;
use loligo_cephx::key::{CryptoKey, KeyType};
use loligo_cephx::keyring::Keyring;
use loligo_cephx::server::{AuthConfig, AuthServer, Rotation, ServiceKeys};
use loligo_wire::message::mon::{MMonCommand, MMonCommandAck, PaxosHeader};
use loligo_wire::message::{Message, Msg};
use loligo_wire::{
    EntityAddr, EntityAddrVec, EntityName, EntityType, GlobalId, OsdId, PgId, Tid, UTime, Uuid, features,
};
use serde_json::{Map, Value, json};

use crate::command::{Arg, ArgKind, COMMANDS, Command};
use crate::state::error::StateError;
use crate::state::{NewCluster, State};
use crate::{Monitor, Peer, PgUsage, Save, Scrub, SessionId, Space, Usage, UsageSource};

const FSID: Uuid = Uuid([7; 16]);
const NOW: UTime = UTime { sec: 1_800_000_000, nsec: 0 };
/// The maximum number of steps in a script.
const STEPS_MAX: usize = 64;
/// The clients' capabilities.
const CAPS: [&str; 4] =
    ["allow *", "profile rbd", "profile bootstrap-osd", "allow r, allow command \"auth get-or-create\""];
/// Maximum bytes allocated at a time, apart from a command's input: the state, its saved form, a reply.
const MEMORY_MAX: usize = 128 << 20;
/// The maximum size of a reply.
const OUTPUT_MAX: usize = 16 << 20;
/// Words used in arguments: existing names, numbers at limits, values of other types.
const WORDS: [&str; 24] = [
    "p",
    "q",
    "osd.0",
    "0",
    "-1",
    "1",
    "3",
    "8",
    "1.0",
    "1.5",
    "18446744073709551615",
    "client.x",
    "client.admin",
    "host",
    "default",
    "replicated_rule",
    "allow r",
    "127.0.0.1:0/7",
    "true",
    "size",
    "pg_num",
    "rbd",
    "",
    "*",
];

struct Empty;

impl UsageSource for Empty {
    fn usage(&self) -> Usage {
        Usage { space: Space { total: 8 << 30, used: 1 << 30 }, ..Usage::default() }
    }

    fn placement_groups(&self) -> Vec<PgUsage> {
        Vec::new()
    }

    fn scrub(&self, _: &[PgId], _: Scrub) {}
}

/// Runs the bytes as a script, and returns the number of commands that succeeded. `memory` returns the
/// peak number of bytes that the process has allocated since the start.
///
/// # Panics
/// If something panics, a command is not answered exactly once, a reply or the memory exceeds its bound,
/// or the saved state does not read back as it was.
pub fn commands(data: &[u8], memory: impl Fn() -> usize) -> usize {
    let mut monitor = monitor().expect("a new cluster");
    let mut well = 0;
    for (session, caps) in (1..).zip(CAPS) {
        monitor.open(session, peer(session, caps));
    }
    let mut script = Script(data);
    let mut kept = Kept::default();
    for number in 1..=STEPS_MAX as u64 {
        if script.0.is_empty() {
            break;
        }
        let session = SessionId::from(script.byte()) % CAPS.len() as u64 + 1;
        let (text, input) = script.command();
        well += usize::from(step(&mut monitor, &mut kept, session, Tid(number), text, input) == 0);
        let bytes = memory();
        assert!(bytes <= MEMORY_MAX, "{bytes} bytes are allocated");
    }
    well
}

/// The saved state and the changes since.
#[derive(Default)]
struct Kept {
    all: Vec<u8>,
    changes: Vec<Vec<u8>>,
}

impl Kept {
    fn note(&mut self, save: Save, state: &State) {
        match save {
            Save::Change(change) => self.changes.push(change.to_vec()),
            Save::All => *self = Self { all: state.to_json().to_vec(), changes: Vec::new() },
        }
    }

    fn open(&self) -> Result<State, StateError> {
        let changes: Vec<_> = self.changes.iter().map(Vec::as_slice).collect();
        State::restore(&self.all, &changes).map(|(_, state)| state)
    }
}

fn step(
    monitor: &mut Monitor,
    kept: &mut Kept,
    session: SessionId,
    tid: Tid,
    text: String,
    input: Bytes,
) -> i32 {
    let shown = text.clone();
    let command = MMonCommand {
        paxos: PaxosHeader { version: 0 },
        fsid: FSID,
        cmd: vec![text.into_bytes().into()],
        input,
    };
    let now = UTime { sec: NOW.sec + tid.0.saturating_as::<u32>(), nsec: 0 };
    monitor.handle(session, &Msg::new(&command).with_tid(tid), now).expect("a well-formed message");
    let effects = monitor.take_effects();
    let acks: Vec<_> =
        effects.out.iter().filter(|(_, msg)| msg.header.kind == MMonCommandAck::KIND).collect();
    let [(to, ack)] = acks[..] else { panic!("{shown}: {} answers", acks.len()) };
    assert_eq!((*to, ack.header.tid), (session, tid), "{shown}");
    let ack = ack.open::<MMonCommandAck>().expect("what we wrote opens");
    assert!(ack.output.len() <= OUTPUT_MAX, "{shown}: {} bytes of output", ack.output.len());
    if let Some(save) = effects.save {
        kept.note(save, monitor.state());
        let now = monitor.state().to_json();
        let again = State::from_json(&now).unwrap_or_else(|e| panic!("after {shown}: {e}"));
        assert!(*again.to_json() == *now, "after {shown}: what is saved opens as something else");
        let again = kept.open().unwrap_or_else(|e| panic!("after {shown}: {e}"));
        assert!(*again.to_json() == *now, "after {shown}: the changes that are saved make something else");
    }
    ack.result
}

fn monitor() -> Option<Monitor> {
    let admin_key = CryptoKey::from_secret(NOW, [1; 16]);
    let cluster = NewCluster { fsid: FSID, now: NOW, host: "host".to_owned(), admin_key };
    let mut state = State::new(cluster).ok()?;
    let addr = |port| EntityAddrVec::from(EntityAddr::msgr2(([127, 0, 0, 1], port).into()));
    state.start(NOW, addr(3300));
    state.boot_osd(NOW, OsdId(0), Uuid([8; 16]), addr(6800)).ok()?;
    let ttl = Duration::from_secs(3600);
    let rotation = Rotation { mon_ttl: ttl, service_ttl: ttl, cipher: KeyType::Aes };
    let keys = Arc::new(ServiceKeys::new(rotation, NOW));
    let auth = AuthServer::new(AuthConfig::new(UTime::now), Arc::new(Keyring::new()), keys, GlobalId(1));
    Some(Monitor::new(state, auth, Arc::new(Empty)))
}

fn peer(session: SessionId, caps: &str) -> Peer {
    let identity = Identity {
        name: EntityName::client(&format!("c{session}")),
        global_id: GlobalId(4_100 + session),
        caps: caps.to_owned(),
        challenge: 0,
    };
    let addr = EntityAddr::msgr2(([127, 0, 0, 1], 0).into());
    let from = addr.sock.map(|sock| sock.ip());
    Peer { kind: EntityType::CLIENT, features: features::SUPPORTED, addr, from, identity }
}

struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    /// Reads a length and that many bytes as text.
    fn text(&mut self) -> String {
        let len = usize::from(self.byte() & 0x3f).min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Reads a command's text and its input.
    fn command(&mut self) -> (String, Bytes) {
        let number = usize::from(u16::from_le_bytes([self.byte(), self.byte()]));
        let how = self.byte();
        let input = if how & 1 == 0 { Bytes::new() } else { self.text().repeat(1 << (how >> 5)).into() };
        if how & 2 != 0 && how & 4 != 0 {
            // Any text, which is JSON only by chance.
            return (self.text(), input);
        }
        let command = &COMMANDS[number % COMMANDS.len()];
        let mut fields = self.fields(command);
        if how & 8 != 0 {
            fields.insert("format".to_owned(), WORDS_OF_FORMAT[usize::from(how >> 4) & 3].into());
        }
        (Value::Object(fields).to_string(), input)
    }

    fn fields(&mut self, command: &Command) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("prefix".to_owned(), command.prefix.into());
        for arg in command.args {
            let how = self.byte();
            if how & 3 == 3 || (how & 3 == 2 && !arg.required) {
                continue;
            }
            let value = if how & 4 == 0 { self.value(arg) } else { self.any(how) };
            let value = if arg.many { json!([value, self.value(arg)]) } else { value };
            fields.insert(arg.name.to_owned(), value);
        }
        fields
    }

    fn word(&mut self) -> &'static str {
        WORDS[usize::from(self.byte()) % WORDS.len()]
    }

    /// A value of the argument's type.
    fn value(&mut self, arg: &Arg) -> Value {
        match arg.kind {
            ArgKind::Int { .. } => i64::from(self.byte()).into(),
            ArgKind::Float { .. } => (f64::from(self.byte()) / 8.0).into(),
            ArgKind::Fraction => (f64::from(self.byte()) / 255.0).into(),
            ArgKind::Bool => (self.byte() & 1 == 0).into(),
            ArgKind::Choice(words) if !words.is_empty() => {
                words[usize::from(self.byte()) % words.len()].into()
            }
            ArgKind::Pool => ["p", "q"][usize::from(self.byte() & 1)].into(),
            ArgKind::OsdName => ["osd.0", "0", "1"][usize::from(self.byte()) % 3].into(),
            ArgKind::Pg => "1.0".into(),
            ArgKind::Uuid => "08080808-0808-0808-0808-080808080808".into(),
            ArgKind::Addr => format!("127.0.0.1:0/{}", self.byte()).into(),
            _ => self.word().into(),
        }
    }

    /// A value of any type.
    fn any(&mut self, how: u8) -> Value {
        match how >> 4 & 3 {
            0 => self.text().into(),
            1 => i64::from_le_bytes(std::array::from_fn(|_| self.byte())).into(),
            2 => json!([self.word(), self.word()]),
            _ => self.word().into(),
        }
    }
}

/// Output formats of the commands.
const WORDS_OF_FORMAT: [&str; 4] = ["json", "json-pretty", "xml", "plain"];
