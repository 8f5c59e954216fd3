//! A client's session: its identity, capabilities and subscriptions.

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

/// The maps and settings that clients can subscribe to. Lines of the log are separate.
const SUBJECTS: [&str; 4] = ["monmap", "config", "mgrmap", "osdmap"];

/// The client at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The kind of program.
    pub kind: EntityType,
    /// Its features.
    pub features: u64,
    /// The address that the client claims.
    pub addr: EntityAddr,
    /// The IP address of its socket. `network` in capabilities refers to it.
    pub from: Option<IpAddr>,
    /// The authenticated identity.
    pub identity: Identity,
}

/// The service that a client has connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Monitor,
    /// Handles only commands.
    Manager,
}

/// A client's session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) peer: Peer,
    pub(crate) door: Door,
    caps: MonCaps,
    subscriptions: BTreeMap<String, Subscription>,
    /// The host name that the client claims.
    pub(crate) host: String,
}

impl Session {
    pub(crate) fn new(peer: Peer) -> Self {
        // An invalid capability allows nothing. Only an edited state file can hold one.
        let caps = MonCaps::parse(&peer.identity.caps).unwrap_or_default();
        Self { peer, door: Door::Monitor, caps, subscriptions: BTreeMap::new(), host: String::new() }
    }

    /// Creates a session at the manager, with the client's monitor capabilities.
    pub(crate) fn at_manager(peer: Peer, caps: &str) -> Self {
        let caps = MonCaps::parse(caps).unwrap_or_default();
        Self { door: Door::Manager, caps, ..Self::new(peer) }
    }

    /// Whether the client has any capability for the service it has connected to.
    pub(crate) fn has_caps(&self) -> bool {
        !self.peer.identity.caps.is_empty()
    }

    pub(crate) fn caller(&self) -> Caller {
        let reads_keys = self.may("auth", Perms::R | Perms::X);
        let (name, addr) = (self.peer.identity.name.clone(), self.peer.addr);
        Caller { name, addr, reads_keys, is_unbounded: self.caps.allow_all() }
    }

    /// Describes the session as a stock monitor does.
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

    /// Whether the client has these permissions for a service.
    pub(crate) fn may(&self, service: &str, needed: Perms) -> bool {
        self.caps.allows(&self.peer.identity.name, service, None, needed, self.ip())
    }

    /// Whether the client may run a command.
    pub(crate) fn may_run(&self, command: &Command, args: &Args) -> bool {
        let args = args.as_text(command).collect();
        self.may_command(command.module, command.prefix, &args, command.needs())
    }

    /// Whether the client may run a command of this name.
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

    /// Removes the subscriptions for which `is_gone` returns `true`.
    pub(crate) fn unsubscribe(&mut self, is_gone: impl Fn(&str) -> bool) {
        self.subscriptions.retain(|what, _| !is_gone(what));
    }

    /// Adds a subscription. Unknown names are ignored, so that a client cannot make the session grow.
    pub(crate) fn subscribe(&mut self, what: &str, subscription: Subscription) {
        if SUBJECTS.contains(&what) || log::is_level(what) {
            self.subscriptions.insert(what.to_owned(), subscription);
        }
    }

    /// Returns the version at which a due subscription starts; `None` if there is no subscription, or it
    /// starts after version `newest`. The caller must send everything up to `newest`: the subscription
    /// continues after it, or ends if it was for one time.
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
