//! The policy, and the events of one inode.

use std::collections::BTreeMap;

use loligo_types::{CapId, Caps, GlobalId};

use super::conflict::conflicts;
use super::holder::{Holder, is_after};

/// A client's session.
pub type Client = GlobalId;

/// The name of bits that the server holds itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(pub u64);

/// What the server does while it holds bits itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It reads what the parts cover: nobody else may have changes that it does not know.
    Read,
    /// It changes what the parts cover: nobody may have the old value.
    Change,
}

/// What a message to a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It adds bits, or says that nothing changes.
    Grant,
    /// It takes bits, and adds none.
    Revoke,
}

/// What a client is told of its capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The capability. A client that has dropped it has another one when it asks again.
    pub cap_id: CapId,
    /// All bits that it may have from now on.
    pub caps: Caps,
    /// What the server takes it to want.
    pub wanted: Caps,
    /// The number of the message.
    pub seq: u32,
}

/// What a client says of its capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// The capability.
    pub cap_id: CapId,
    /// The last message that the client has processed.
    pub seq: u32,
    /// The last issue that it has processed.
    pub issue_seq: u32,
    /// What it has.
    pub caps: Caps,
    /// What it wants.
    pub wanted: Caps,
}

/// Something that the owner must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a message about the capability.
    Send(Client, Kind, Told),
    /// The bits are free: the server may do what it holds them for.
    Ready(HoldId),
    /// Evict the client: its session is stale, and others want what it may have changed. Only after the
    /// stores refuse it, call [`InodeGrants::remove`] for all inodes.
    Evict(Client),
}

/// The capabilities of one inode.
#[derive(Clone, Debug, Default)]
pub struct InodeGrants {
    clients: BTreeMap<Client, Holder>,
    holds: BTreeMap<HoldId, (Use, Caps, bool)>,
    /// Whether clients may still claim what they had before a restart: nobody gets anything until then.
    is_claiming: bool,
    effects: Vec<Effect>,
}

/// What everybody may have while nobody writes.
const READERS: Caps =
    Caps::PIN.union(Caps::ANY_SHARED).union(Caps::FILE_CACHE).union(Caps::FILE_RD).union(Caps::FILE_LAZYIO);

/// What everybody may have while several use the file and one writes.
const MIXED: Caps = Caps::PIN
    .union(Caps::AUTH_SHARED)
    .union(Caps::LINK_SHARED)
    .union(Caps::XATTR_SHARED)
    .union(Caps::FILE_RD)
    .union(Caps::FILE_WR)
    .union(Caps::FILE_LAZYIO);

/// What the only user of a file that it writes may have.
const ALONE: Caps = READERS.union(Caps::ANY_EXCL).union(Caps::FILE_WR).union(Caps::FILE_BUFFER);

/// The parts of an inode.
const PARTS: [Caps; 4] = [Caps::ANY_AUTH, Caps::ANY_LINK, Caps::ANY_XATTR, Caps::ANY_FILE];

/// What shows that a client uses the file's data.
const DATA: Caps = Caps::FILE_RD.union(Caps::FILE_CACHE).union(Caps::ANY_FILE_WR);

impl InodeGrants {
    /// An inode that no client has.
    pub fn new() -> Self {
        Self::default()
    }

    /// An inode after a restart of the server: nothing is given or taken until
    /// [`InodeGrants::claims_ended`].
    pub fn restarted() -> Self {
        Self { is_claiming: true, ..Self::default() }
    }

    /// Takes the effects of all events since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether no client has anything, and nothing is held.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.holds.is_empty()
    }

    /// What a client may be using: what it was told last, and what it has not returned.
    pub fn issued(&self, client: Client) -> Caps {
        self.clients.get(&client).map_or(Caps::NONE, Holder::issued)
    }

    /// What a client wants.
    pub fn wanted(&self, client: Client) -> Caps {
        self.clients.get(&client).map_or(Caps::NONE, |holder| holder.wanted)
    }

    /// The clients.
    pub fn clients(&self) -> impl Iterator<Item = Client> + '_ {
        self.clients.keys().copied()
    }

    /// A reply gives the client a capability: what it wants additionally, and what the policy permits and
    /// conflicts with nobody now. Nothing is revoked by a reply. `cap_id` returns a number that the server
    /// has not used; it is called if the client has no capability.
    pub fn reply(&mut self, client: Client, wanted: Caps, cap_id: impl FnOnce() -> CapId) -> Told {
        let new = || Holder::new(cap_id(), Caps::NONE, Caps::NONE);
        let holder = self.clients.entry(client).or_insert_with(new);
        let id = holder.cap_id;
        holder.wanted |= wanted;
        let (had, is_stale, is_gathering) = (holder.pending, holder.is_stale, holder.is_gathering());
        let permitted = self.permitted(client);
        let new = match is_stale || is_gathering || self.is_claiming {
            true => Caps::NONE,
            false => self.grantable(client, permitted),
        };
        let caps = had | new | Caps::PIN;
        let told = self.clients.get_mut(&client).map(|holder| {
            let seq = holder.send(caps);
            holder.issue_seq = seq;
            Told { cap_id: id, caps, wanted: holder.wanted, seq }
        });
        self.update();
        told.unwrap_or(Told { cap_id: id, caps: Caps::NONE, wanted, seq: 0 })
    }

    /// A client says what it has and wants. What it says of a capability that it has dropped since means
    /// nothing.
    pub fn confirm(&mut self, client: Client, said: &Said) {
        let Said { cap_id, seq, issue_seq, caps, wanted } = *said;
        let Some(holder) = self.clients.get_mut(&client).filter(|holder| holder.cap_id == cap_id) else {
            return;
        };
        holder.confirm(seq, caps);
        // A client that has not seen the last issue cannot know why it wants less.
        holder.wanted = if issue_seq == holder.issue_seq { wanted } else { holder.wanted | wanted };
        self.update();
    }

    /// A client has dropped its capability. A release that crossed with an issue is ignored.
    pub fn release(&mut self, client: Client, cap_id: CapId, issue_seq: u32) {
        let is_over = |holder: &Holder| holder.cap_id == cap_id && !is_after(holder.issue_seq, issue_seq);
        if self.clients.get(&client).is_some_and(is_over) {
            self.remove(client);
        }
    }

    /// The client is gone: its session is closed; or it was evicted, no store accepts anything from it, and
    /// the time of its last renewal is over, so that it answers nothing from its cache either.
    pub fn remove(&mut self, client: Client) {
        if self.clients.remove(&client).is_some() {
            self.update();
        }
    }

    /// After a restart of the server a client claims what it had.
    pub fn claim(&mut self, client: Client, cap_id: CapId, caps: Caps, wanted: Caps) {
        self.clients.insert(client, Holder::new(cap_id, caps, wanted));
    }

    /// All claims are made: the policy applies again.
    ///
    /// The server waits for claims at least as long as a session's time-out. Otherwise a client that has
    /// not heard of the restart could still read from its cache what others have changed.
    pub fn claims_ended(&mut self) {
        self.is_claiming = false;
        self.update();
    }

    /// A session has missed its renewals. What only reads is void at once; a client with anything else is
    /// evicted when others want it.
    pub fn stale(&mut self, client: Client) {
        let Some(holder) = self.clients.get_mut(&client) else { return };
        holder.is_stale = true;
        if !holder.issued().intersects(Caps::ANY_WR) {
            holder.void();
        }
        self.update();
    }

    /// A stale session was renewed. The client counts on nothing from before, so it is told again what it
    /// has and what it gets.
    pub fn resume(&mut self, client: Client) {
        let Some(holder) = self.clients.get_mut(&client).filter(|holder| holder.is_stale) else { return };
        if holder.is_doomed {
            return;
        }
        holder.is_stale = false;
        if !holder.is_gathering() && holder.pending != Caps::PIN {
            let caps = holder.pending;
            let told = tell(holder, caps);
            self.effects.push(Effect::Send(client, Kind::Grant, told));
        }
        self.update();
    }

    /// The server wants to read or to change what these parts cover; [`Effect::Ready`] follows, perhaps at
    /// once. It must call [`InodeGrants::unhold`] afterwards.
    pub fn hold(&mut self, id: HoldId, how: Use, parts: Caps) {
        self.holds.insert(id, (how, parts, false));
        self.update();
    }

    /// The server has done what it held bits for.
    pub fn unhold(&mut self, id: HoldId) {
        if self.holds.remove(&id).is_some() {
            self.update();
        }
    }

    /// What the policy permits a client, by what all want.
    fn permitted(&self, client: Client) -> Caps {
        let wants = |holder: &Holder, bits: Caps| !holder.is_stale && holder.wanted.intersects(bits);
        let users = self.clients.values().filter(|holder| wants(holder, DATA)).count();
        let writers = self.clients.values().filter(|holder| wants(holder, Caps::ANY_FILE_WR)).count();
        let is_user = self.clients.get(&client).is_some_and(|holder| wants(holder, DATA));
        let by_state = match (writers, users) {
            (0, _) => READERS,
            (_, 1) if is_user => ALONE,
            (_, 1) => Caps::PIN,
            _ if is_user => MIXED,
            _ => Caps::PIN,
        };
        self.holds.values().fold(by_state, |caps, (how, parts, _)| caps - taken(*how, *parts))
    }

    /// The parts of `permitted` that conflict with nothing that others have. A part is given whole or not
    /// at all: Fc with Fw, for example, would let a client cache what it cannot keep true.
    fn grantable(&self, client: Client, permitted: Caps) -> Caps {
        let others = self.clients.iter().filter(|(other, _)| **other != client);
        let issued = others.fold(Caps::NONE, |all, (_, holder)| all | holder.issued());
        let free = PARTS.iter().map(|part| permitted & *part);
        let free = free.filter(|bits| !conflicts(*bits).intersects(issued));
        free.fold(permitted & Caps::PIN, |all, bits| all | bits)
    }

    /// Brings all clients to what the policy permits: first takes, then gives.
    fn update(&mut self) {
        if self.is_claiming {
            return;
        }
        let clients: Vec<Client> = self.clients.keys().copied().collect();
        for client in &clients {
            self.take(*client);
        }
        for client in &clients {
            self.give(*client);
        }
        let issued = self.clients.values().fold(Caps::NONE, |all, holder| all | holder.issued());
        for (id, (how, parts, is_ready)) in &mut self.holds {
            if !*is_ready && !issued.intersects(taken(*how, *parts)) {
                *is_ready = true;
                self.effects.push(Effect::Ready(*id));
            }
        }
    }

    /// Revokes what the policy does not permit.
    fn take(&mut self, client: Client) {
        let permitted = self.permitted(client);
        let is_needed = self.is_needed(client);
        let Some(holder) = self.clients.get_mut(&client) else { return };
        if holder.is_stale {
            let is_in_the_way = !(holder.issued() - permitted).is_empty() && is_needed;
            if is_in_the_way && !holder.is_doomed {
                holder.is_doomed = true;
                self.effects.push(Effect::Evict(client));
            }
            return;
        }
        let kept = holder.pending & permitted;
        if kept != holder.pending {
            let told = tell(holder, kept);
            self.effects.push(Effect::Send(client, Kind::Revoke, told));
        }
    }

    /// Whether another client or the server waits for what this client has.
    fn is_needed(&self, client: Client) -> bool {
        let mut others = self.clients.iter().filter(|(other, _)| **other != client);
        let issued = self.issued(client);
        let is_held = self.holds.values().any(|(how, parts, _)| issued.intersects(taken(*how, *parts)));
        is_held
            || others.any(|(other, holder)| {
                let gets = self.permitted(*other) - holder.pending;
                !holder.is_stale && !holder.wanted.is_empty() && conflicts(gets).intersects(issued)
            })
    }

    /// Grants what the policy permits, to a client that wants something and owes nothing.
    fn give(&mut self, client: Client) {
        let permitted = self.permitted(client);
        let Some(holder) = self.clients.get(&client) else { return };
        if holder.is_stale || holder.is_gathering() || (holder.wanted - Caps::PIN).is_empty() {
            return;
        }
        let caps = holder.pending | self.grantable(client, permitted);
        let Some(holder) = self.clients.get_mut(&client) else { return };
        if caps != holder.pending {
            let told = tell(holder, caps);
            self.effects.push(Effect::Send(client, Kind::Grant, told));
        }
    }
}

/// Tells a client that it may have `caps`.
fn tell(holder: &mut Holder, caps: Caps) -> Told {
    Told { cap_id: holder.cap_id, caps, wanted: holder.wanted, seq: holder.send(caps) }
}

/// What no client may have while the server holds parts.
fn taken(how: Use, parts: Caps) -> Caps {
    let covered = PARTS.iter().filter(|part| part.intersects(parts));
    let all = covered.fold(Caps::NONE, |all, part| all | *part);
    match how {
        Use::Read => all & Caps::ANY_WR,
        Use::Change => all - Caps::FILE_LAZYIO,
    }
}
