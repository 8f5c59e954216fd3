//! A client's session: who it is, what it may do, what it wants to be told.

use std::collections::BTreeMap;
use std::net::IpAddr;

use loligo_cephx::caps::{Command as CapsCommand, MonCaps, Perms};
use loligo_cephx::handshake::Identity;
use loligo_wire::EntityAddr;
use loligo_wire::EntityType;
use loligo_wire::message::mon::Subscription;

use crate::command::release_of;
use crate::command::{Args, Caller, Command};
use crate::output::json::{Node, object};
use crate::state::log;
use crate::view;

/// What clients can subscribe to, beside lines of the log.
const SUBJECTS: [&str; 4] = ["monmap", "config", "mgrmap", "osdmap"];

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The kind of program.
    pub kind: EntityType,
    /// Its features.
    pub features: u64,
    /// The address that it says it has.
    pub addr: EntityAddr,
    /// The host from which its socket comes: what `network` in capabilities is about.
    pub from: Option<IpAddr>,
    /// Who it has proved to be.
    pub identity: Identity,
}

/// Where a client has come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Monitor,
    /// Only commands are heard there.
    Manager,
}

/// A client's session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) peer: Peer,
    pub(crate) door: Door,
    caps: MonCaps,
    subscriptions: BTreeMap<String, Subscription>,
    /// The machine that the client says it runs on.
    pub(crate) host: String,
}

impl Session {
    pub(crate) fn new(peer: Peer) -> Self {
        // A capability that cannot be read allows nothing; only an edited state file can hold one.
        let caps = MonCaps::parse(&peer.identity.caps).unwrap_or_default();
        Self { peer, door: Door::Monitor, caps, subscriptions: BTreeMap::new(), host: String::new() }
    }

    /// The same at the manager, with the client's capabilities for the monitor.
    pub(crate) fn at_manager(peer: Peer, caps: &str) -> Self {
        let caps = MonCaps::parse(caps).unwrap_or_default();
        Self { door: Door::Manager, caps, ..Self::new(peer) }
    }

    /// Whether the client has any capability for where it has come in.
    pub(crate) fn has_caps(&self) -> bool {
        !self.peer.identity.caps.is_empty()
    }

    pub(crate) fn caller(&self) -> Caller {
        let reads_keys = self.may("auth", Perms::R | Perms::X);
        let (name, addr) = (self.peer.identity.name.clone(), self.peer.addr);
        Caller { name, addr, reads_keys, is_unbounded: self.caps.allow_all() }
    }

    /// As a stock monitor lists sessions.
    pub(crate) fn describe(&self, osdmap_epoch: u32) -> Node {
        let Peer { kind, features, addr, identity, .. } = &self.peer;
        let number = if *kind == EntityType::CLIENT { "?".to_owned() } else { identity.name.id.clone() };
        let follows_map = self.subscriptions.contains_key("osdmap");
        object! {
            "name": format!("{kind}.{number}"),
            "entity_name": identity.name.to_string(),
            "addrs": object! { "addrvec": Node::array([view::one_addr(addr)]) },
            "socket_addr": view::one_addr(addr),
            "con_type": kind.to_string(),
            "con_features": *features,
            "con_features_hex": format!("{features:x}"),
            "con_features_release": release_of(*features),
            "open": true,
            "caps": object! { "text": identity.caps.as_str() },
            "authenticated": true,
            "global_id": identity.global_id.0,
            "global_id_status": "new_ok",
            "osd_epoch": if follows_map { osdmap_epoch } else { 0 },
            "remote_host": self.host.as_str(),
        }
    }

    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.peer.from
    }

    /// Whether the client may do something with a service.
    pub(crate) fn may(&self, service: &str, needed: Perms) -> bool {
        self.caps.allows(&self.peer.identity.name, service, None, needed, self.ip())
    }

    /// Whether the client may send a command.
    pub(crate) fn may_run(&self, command: &Command, args: &Args) -> bool {
        let args = args.as_text(command).collect();
        self.may_command(command.module, command.prefix, &args, command.needs())
    }

    /// Whether the client may do what a command of this name does.
    pub(crate) fn may_command(
        &self,
        service: &str,
        prefix: &str,
        args: &BTreeMap<String, String>,
        needed: Perms,
    ) -> bool {
        let command = Some(CapsCommand { prefix, args });
        self.caps.allows(&self.peer.identity.name, service, command, needed, self.ip())
    }

    /// Forgets the subscriptions to what `is_gone` names.
    pub(crate) fn unsubscribe(&mut self, is_gone: impl Fn(&str) -> bool) {
        self.subscriptions.retain(|what, _| !is_gone(what));
    }

    /// Remembers a subscription to something that there is; names of other things, of any length, are not
    /// kept.
    pub(crate) fn subscribe(&mut self, what: &str, subscription: Subscription) {
        if SUBJECTS.contains(&what) || log::is_level(what) {
            self.subscriptions.insert(what.to_owned(), subscription);
        }
    }

    /// The version that the client wants next of something that now has the version `newest`; `None` if it
    /// wants none yet. What is told then is what the client gets: the subscription goes on behind `newest`,
    /// or ends.
    pub(crate) fn take_due(&mut self, what: &str, newest: u64) -> Option<u64> {
        let subscription = self.subscriptions.get_mut(what)?;
        let start = subscription.start;
        if start > newest {
            return None;
        }
        subscription.start = newest + 1;
        if subscription.onetime {
            self.subscriptions.remove(what);
        }
        Some(start)
    }
}
