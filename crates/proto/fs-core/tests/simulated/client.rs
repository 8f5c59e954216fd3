//! A client of a simulation: one session, and each file's capabilities, cache and buffer.

use std::cell::Cell;
use std::time::Duration;

use loligo_fs_core::Moment;
use loligo_fs_core::caps::{
    Access as Kind, Acquired, Effect, Grant, Hold, InodeCaps, OpenMode, ReplyCap, View,
};
use loligo_fs_core::grant::{self, Told};
use loligo_fs_core::session::{Effect as SessionEffect, Phase, Session, SessionEvent};
use loligo_fs_core::word::{CapWord, Class};
use loligo_types::{Caps, Ino, Rank, Tid};

use crate::history::{History, What};
use crate::message::{Access, Answer, Ask, Event, File, Life, OpId, Refused};
use crate::net::Net;
use crate::server::TIMEOUT;

const RANK: Rank = Rank(0);

/// What a client has of a file.
struct Inode {
    caps: InodeCaps,
    word: CapWord,
    cache: Option<u64>,
    /// The newest value that the store does not have.
    buffer: Option<u64>,
    /// All values that went into the buffer since the store last had everything.
    unflushed: Vec<u64>,
    /// Counts buffered writes, so that a read from the store does not fill the cache with an older value.
    writes: u64,
    /// The number of the names' change that this client remembers the names of.
    names: Option<u64>,
    waiting: Vec<OpId>,
    running: Vec<Running>,
    has_asked: bool,
}

/// What an operation uses: by the state, or by the word.
enum Held {
    State(Hold),
    Word(Class),
}

impl Held {
    fn is_local(&self) -> bool {
        match self {
            Self::State(hold) => hold.is_local(),
            Self::Word(class) => matches!(class, Class::CachedRead | Class::BufferedWrite),
        }
    }
}

/// An operation at the store.
struct Running {
    id: OpId,
    hold: Held,
    writes_then: u64,
}

pub(crate) struct Client {
    pub(crate) life: Life,
    epoch: u64,
    session: Session,
    inodes: Vec<Inode>,
    tids: Cell<u64>,
    /// The store or the server has said that this life is over.
    pub(crate) is_fenced: bool,
}

impl Client {
    pub(crate) fn new(life: Life, files: usize, epoch: u64) -> Self {
        let inode = |file: usize| Inode {
            caps: InodeCaps::new(Ino(0x1000 + file as u64)),
            word: CapWord::new(),
            cache: None,
            buffer: None,
            unflushed: Vec::new(),
            writes: 0,
            names: None,
            waiting: Vec::new(),
            running: Vec::new(),
            has_asked: false,
        };
        Self {
            life,
            epoch,
            session: Session::new(RANK, Duration::from_millis(TIMEOUT)),
            inodes: (0..files).map(inode).collect(),
            tids: Cell::new(life.number * 1_000_000),
            is_fenced: false,
        }
    }

    pub(crate) fn start(&mut self, net: &mut Net, history: &mut History) {
        self.session.open(now(net));
        self.session_effects(net, history);
        net.after(1000, Event::ClientTick(self.life));
    }

    pub(crate) fn trusted(&self, file: File, net: &Net) -> Caps {
        let validity = self.session.validity();
        let view = View { now: now(net), validity: &|_| Some(validity), flush_tid: &|| Tid(0) };
        self.inodes[file].caps.trusted(&view)
    }

    /// The operations that end with this life.
    pub(crate) fn ops(&self) -> Vec<OpId> {
        let ops = self.inodes.iter().flat_map(|inode| {
            inode.waiting.iter().copied().chain(inode.running.iter().map(|running| running.id))
        });
        ops.collect()
    }

    /// Values that end with this life.
    pub(crate) fn unflushed(&self) -> Vec<u64> {
        self.inodes.iter().flat_map(|inode| inode.unflushed.iter().copied()).collect()
    }

    pub(crate) fn state(&self, file: File) -> String {
        let Inode { caps, waiting, running, has_asked, .. } = &self.inodes[file];
        let running: Vec<OpId> = running.iter().map(|running| running.id).collect();
        let session = &self.session;
        format!("{caps:?} waiting {waiting:?} running {running:?} asked {has_asked} {session:?}")
    }

    pub(crate) fn begin(&mut self, id: OpId, net: &mut Net, history: &mut History) {
        let (file, mode) = (history.op(id).file, mode(history.op(id).what));
        self.event(file, net, |caps, view| caps.opened(mode, view));
        self.inodes[file].waiting.push(id);
        let access = kind(history.op(id).what);
        self.event(file, net, |caps, view| caps.wait(access, true, view));
        self.effects(file, net, history);
        self.go_on(file, net, history);
    }

    /// Tries every operation that waits for this file.
    fn go_on(&mut self, file: File, net: &mut Net, history: &mut History) {
        for id in std::mem::take(&mut self.inodes[file].waiting) {
            let access = kind(history.op(id).what);
            let Some(hold) = self.acquire(file, access, net) else {
                self.inodes[file].waiting.push(id);
                continue;
            };
            self.event(file, net, |caps, view| caps.wait(access, false, view));
            self.run(id, file, hold, net, history);
        }
        self.ask(file, net);
        self.effects(file, net, history);
    }

    /// Most operations take a reference on the word, as the data path does, and the others one on the state.
    fn acquire(&mut self, file: File, access: Kind, net: &mut Net) -> Option<Held> {
        let validity = self.session.validity();
        let word = &self.inodes[file].word;
        let class = match (access, word.usable()) {
            (Kind::Read, usable) if usable.contains(Caps::FILE_CACHE) => Class::CachedRead,
            (Kind::Read, _) => Class::Read,
            (Kind::Write, usable) if usable.contains(Caps::FILE_BUFFER) => Class::BufferedWrite,
            (Kind::Write, _) => Class::Write,
        };
        let tries_word = net.random.u8(0..3) > 0 && now(net) < validity.until;
        if tries_word && word.try_ref(class, validity.generation).is_ok() {
            return Some(Held::Word(class));
        }
        match self.event(file, net, |caps, view| caps.acquire(access, view)) {
            Acquired::Now(hold) => Some(Held::State(hold)),
            Acquired::Wait => None,
        }
    }

    /// A request changes parts of the inode, and gives back what its server would ask for.
    pub(crate) fn change(&mut self, file: File, parts: Caps, net: &mut Net, history: &mut History) {
        if self.session.phase() != Phase::Open {
            return;
        }
        let unless = if net.random.bool() { Caps::FILE_EXCL } else { Caps::NONE };
        let returned = self.event(file, net, |caps, view| caps.give_with_request(RANK, parts, unless, view));
        net.send_to_server(self.life, self.epoch, Ask::Change(file, parts, returned));
        self.effects(file, net, history);
        self.go_on(file, net, history);
    }

    /// Without a capability the file is opened at the server.
    fn ask(&mut self, file: File, net: &mut Net) {
        let inode = &mut self.inodes[file];
        let lacks = inode.caps.issued_by(RANK).is_none() && !inode.waiting.is_empty();
        if lacks && !inode.has_asked && self.session.phase() == Phase::Open {
            inode.has_asked = true;
            net.send_to_server(self.life, self.epoch, Ask::Open(file, inode.caps.wanted()));
        }
    }

    fn run(&mut self, id: OpId, file: File, hold: Held, net: &mut Net, history: &mut History) {
        let inode = &mut self.inodes[file];
        let known = inode.buffer.or(inode.cache);
        match (history.op(id).what, hold.is_local()) {
            (What::Write(value), true) => {
                inode.buffer = Some(value);
                inode.unflushed.push(value);
                inode.cache = None;
                inode.writes += 1;
                inode.caps.buffered();
                history.wrote(id, net.now);
                self.end(file, &hold, What::Write(value), net);
            }
            (What::Read, true) if known.is_some() => {
                let value = known.unwrap_or_default();
                net.note(|| format!("  op {id}: client {} has {value} of file {file}", self.life.client));
                history.read(id, value, net.now).unwrap_or_else(|why| panic!("{why} (cached)"));
                self.end(file, &hold, What::Read, net);
            }
            (what, _) => {
                let writes_then = inode.writes;
                inode.running.push(Running { id, hold, writes_then });
                let access = match what {
                    What::Read => Access::Read(id),
                    What::Write(value) => Access::Write(id, value),
                };
                net.send_to_store(self.life, file, access);
            }
        }
    }

    fn end(&mut self, file: File, hold: &Held, what: What, net: &mut Net) {
        if let Held::Word(class) = hold {
            // The event below looks again in any case.
            let _drained = self.inodes[file].word.put(*class);
        }
        self.event(file, net, |caps, view| {
            if let What::Write(_) = what {
                caps.changed(Caps::FILE_WR, view);
            }
            match hold {
                Held::State(hold) => caps.put(hold, view),
                Held::Word(_) => caps.check(view),
            }
            caps.closed(mode(what), view);
        });
    }

    pub(crate) fn stored(
        &mut self,
        file: File,
        access: Access,
        result: Result<u64, Refused>,
        net: &mut Net,
        history: &mut History,
    ) {
        let Ok(value) = result else {
            self.is_fenced = true;
            return;
        };
        match access {
            Access::Flush(value) => self.flushed(file, value, net),
            Access::Read(id) | Access::Write(id, _) => {
                let Some(at) = self.inodes[file].running.iter().position(|running| running.id == id) else {
                    return;
                };
                let Running { hold, writes_then, .. } = self.inodes[file].running.swap_remove(at);
                let what = history.op(id).what;
                if let What::Read = what {
                    let inode = &mut self.inodes[file];
                    let is_current = inode.writes == writes_then && inode.buffer.is_none();
                    if hold.is_local() && is_current && inode.cache.is_none() {
                        inode.cache = Some(value);
                    }
                    let read = history.read(id, value, net.now);
                    read.unwrap_or_else(|why| panic!("{why} (from the store, op {id})"));
                } else {
                    history.wrote(id, net.now);
                }
                self.end(file, &hold, what, net);
            }
        }
        self.effects(file, net, history);
        self.go_on(file, net, history);
    }

    fn flushed(&mut self, file: File, value: u64, net: &mut Net) {
        let inode = &mut self.inodes[file];
        inode.unflushed.retain(|other| *other > value);
        if inode.buffer == Some(value) {
            inode.buffer = None;
        }
        self.event(file, net, |caps, view| caps.data_flushed(view));
    }

    pub(crate) fn cache_dropped(&mut self, file: File, net: &mut Net, history: &mut History) {
        self.inodes[file].cache = None;
        self.event(file, net, |caps, view| caps.cache_dropped(view));
        self.effects(file, net, history);
        self.go_on(file, net, history);
    }

    pub(crate) fn hear(&mut self, epoch: u64, answer: Answer, net: &mut Net, history: &mut History) {
        if epoch < self.epoch {
            return;
        }
        let is_reset = matches!(answer, Answer::Session(SessionEvent::Reset));
        if epoch > self.epoch && !is_reset {
            return;
        }
        self.epoch = epoch;
        let file = match answer {
            Answer::Session(event) => {
                self.session.event(event, now(net));
                return self.session_effects(net, history);
            }
            Answer::Opened(file, told, names) => {
                self.inodes[file].has_asked = false;
                let Told { cap_id, caps, wanted, seq } = told;
                let cap = ReplyCap { cap_id, caps, wanted, seq, mseq: 0, is_auth: true };
                self.event(file, net, |caps, view| caps.reply_cap(RANK, &cap, view));
                self.learn_names(file, names, net, history);
                file
            }
            Answer::Told(file, kind, told) => {
                let Told { cap_id, caps, wanted, seq } = told;
                let is_revoke = kind == grant::Kind::Revoke;
                let grant = Grant { cap_id, caps, wanted, seq, mseq: 0, is_revoke };
                self.event(file, net, |caps, view| caps.grant(RANK, &grant, view));
                file
            }
            Answer::FlushAck(file, tid) => {
                self.event(file, net, |caps, view| caps.flush_ack(RANK, tid, view));
                file
            }
        };
        self.effects(file, net, history);
        self.go_on(file, net, history);
    }

    /// The server has told all names, or some of them.
    fn learn_names(&mut self, file: File, names: u64, net: &mut Net, history: &mut History) {
        // What was known may have ended with the same message.
        self.effects(file, net, history);
        if !self.trusted(file, net).contains(Caps::FILE_SHARED) {
            return;
        }
        let all = net.random.bool();
        self.event(file, net, |caps, view| match all {
            true => drop(caps.completed(view)),
            false => caps.named(),
        });
        self.inodes[file].names = Some(names);
    }

    /// The number of the names' change up to which this client believes to know names now.
    pub(crate) fn believed_names(&self, file: File, net: &Net) -> Option<u64> {
        let trusts = self.trusted(file, net).contains(Caps::FILE_SHARED);
        self.inodes[file].names.filter(|_| trusts)
    }

    pub(crate) fn server_seen(&mut self, epoch: u64, net: &mut Net, history: &mut History) {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.session.event(SessionEvent::RankReconnects, now(net));
            self.session_effects(net, history);
        }
    }

    pub(crate) fn tick(&mut self, net: &mut Net, history: &mut History) {
        self.session.tick(now(net));
        self.session_effects(net, history);
        for file in 0..self.inodes.len() {
            self.event(file, net, |caps, view| caps.tick(view));
            if net.random.u8(0..10) == 0 {
                self.event(file, net, |caps, view| caps.flush(view));
            }
            if net.random.u8(0..40) == 0 && !self.inodes[file].has_asked {
                self.inodes[file].caps.release();
            }
            self.effects(file, net, history);
        }
        net.after(1000, Event::ClientTick(self.life));
    }

    /// A program calls `fsync`.
    pub(crate) fn sync(&mut self, file: File, net: &mut Net, history: &mut History) {
        self.event(file, net, |caps, view| caps.flush(view));
        self.effects(file, net, history);
    }

    fn session_effects(&mut self, net: &mut Net, history: &mut History) {
        for effect in self.session.take_effects() {
            match effect {
                SessionEffect::Send(outgoing) => {
                    net.send_to_server(self.life, self.epoch, Ask::Session(outgoing));
                }
                SessionEffect::Opened | SessionEffect::Renewed { .. } => {
                    self.all(net, history, |caps, view| {
                        caps.check(view);
                    })
                }
                SessionEffect::Reconnect { previous } => self.reconnect(previous, net, history),
                SessionEffect::Lost => {
                    for inode in &mut self.inodes {
                        inode.has_asked = false;
                    }
                    self.all(net, history, |caps, view| caps.lost(RANK, view));
                    self.session.open(now(net));
                    self.session_effects(net, history);
                }
                SessionEffect::Rejected { .. } => self.is_fenced = true,
                SessionEffect::Voided
                | SessionEffect::Trim(_)
                | SessionEffect::SendReleases
                | SessionEffect::ReadOnly
                | SessionEffect::Closed => {}
            }
        }
    }

    fn reconnect(&mut self, previous: u32, net: &mut Net, history: &mut History) {
        let mut claims = Vec::new();
        for file in 0..self.inodes.len() {
            self.inodes[file].has_asked = false;
            let claim = self.event(file, net, |caps, view| caps.reconnect(RANK, previous, view));
            claims.extend(claim.map(|claim| (file, claim)));
        }
        net.send_to_server(self.life, self.epoch, Ask::Reconnect(claims));
        self.session.reconnect_sent(now(net));
        self.all(net, history, |caps, view| caps.reconnected(RANK, view));
    }

    /// Runs an event on every file.
    fn all(&mut self, net: &mut Net, history: &mut History, run: impl Fn(&mut InodeCaps, &View<'_>)) {
        for file in 0..self.inodes.len() {
            self.event(file, net, &run);
            self.effects(file, net, history);
            self.go_on(file, net, history);
        }
    }

    /// Carries out what the state of a file asks for.
    fn effects(&mut self, file: File, net: &mut Net, history: &mut History) {
        let (life, epoch) = (self.life, self.epoch);
        let mut wakes = false;
        for effect in self.inodes[file].caps.take_effects() {
            match effect {
                Effect::SendUpdate(update) => net.send_to_server(life, epoch, Ask::Update(file, update)),
                Effect::SendRelease(release) => {
                    net.send_to_server(life, epoch, Ask::Release(file, release.cap_id, release.issue_seq));
                }
                Effect::DropCache => {
                    let delay = net.random.u64(0..30);
                    net.after(delay, Event::CacheDropped(life, file));
                }
                Effect::FlushData => {
                    // The data may have gone with a flush that began before and was taken after it came.
                    match self.inodes[file].buffer {
                        Some(value) => net.send_to_store(life, file, Access::Flush(value)),
                        None => net.send_from_store(life, file, Access::Flush(0), Ok(0)),
                    }
                }
                Effect::Wake => wakes = true,
                Effect::Lost(_) => {
                    let inode = &mut self.inodes[file];
                    history.lost(&std::mem::take(&mut inode.unflushed));
                    inode.buffer = None;
                }
                Effect::ForgetNames => self.inodes[file].names = None,
            }
        }
        if wakes && !self.inodes[file].waiting.is_empty() {
            self.go_on(file, net, history);
        }
    }

    fn event<T>(&mut self, file: File, net: &Net, run: impl FnOnce(&mut InodeCaps, &View<'_>) -> T) -> T {
        let validity = self.session.validity();
        let tids = &self.tids;
        let flush_tid = || {
            tids.set(tids.get() + 1);
            Tid(tids.get())
        };
        let view = View { now: now(net), validity: &|_| Some(validity), flush_tid: &flush_tid };
        let Inode { caps, word, .. } = &mut self.inodes[file];
        caps.outside(word.busy());
        let result = run(caps, &view);
        word.publish(caps.publishable(&view), validity.generation);
        result
    }
}

fn now(net: &Net) -> Moment {
    Moment(Duration::from_millis(net.now))
}

fn mode(what: What) -> OpenMode {
    OpenMode { reads: what == What::Read, writes: what != What::Read, is_lazy: false }
}

fn kind(what: What) -> Kind {
    if what == What::Read { Kind::Read } else { Kind::Write }
}
