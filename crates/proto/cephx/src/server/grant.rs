//! Making tickets and opening them again.

use std::time::Duration;

use loligo_wire::{EntityName, EntityType, GlobalId, UTime};

use super::AuthServer;
use crate::key::{CryptoKey, KeyType};
use crate::keyring::Entry;
use crate::wire::{AuthTicket, GrantedTicket, ServiceTicketInfo, TicketBlob};

/// A ticket that cannot be opened.
#[derive(Debug)]
pub(super) struct BadTicket;

impl AuthServer {
    /// Creates a ticket for the monitors' own service, with which other tickets are requested.
    pub(super) fn grant_auth(
        &self,
        name: &EntityName,
        kind: KeyType,
        global_id: GlobalId,
    ) -> Option<GrantedTicket> {
        self.grant(EntityType::AUTH, name, kind, global_id, String::new(), self.config.mon_ticket_ttl)
    }

    /// Creates tickets for the services in a set of entity types; unknown services are left out.
    pub(super) fn grant_services(
        &self,
        set: u32,
        name: &EntityName,
        entry: &Entry,
        global_id: GlobalId,
    ) -> Vec<GrantedTicket> {
        let services = (0..u32::BITS).map(|bit| EntityType(set & (1 << bit)));
        services
            .filter(|s| s.0 != 0 && *s != EntityType::AUTH) // the reply itself contains the ticket for AUTH
            .filter_map(|service| {
                let caps = entry.caps.get(service.as_str()).cloned().unwrap_or_default();
                self.grant(service, name, entry.key.kind(), global_id, caps, self.config.service_ticket_ttl)
            })
            .collect()
    }

    /// The session key has the type of the client's own key, which the client certainly supports.
    fn grant(
        &self,
        service: EntityType,
        name: &EntityName,
        kind: KeyType,
        global_id: GlobalId,
        caps: String,
        ttl: Duration,
    ) -> Option<GrantedTicket> {
        let (secret_id, secret) = self.keys.current(service)?;
        let now = self.now();
        let session_key = CryptoKey::generate_of(kind, now);
        let ticket = AuthTicket { name: name.clone(), global_id, created: now, expires: now + ttl, caps };
        let blob = ServiceTicketInfo { ticket, session_key: session_key.clone() }.seal(&secret);
        let validity = UTime::default() + ttl;
        Some(GrantedTicket { service, session_key, validity, blob: TicketBlob { secret_id, blob } })
    }

    /// Opens a ticket for `service`.
    pub(super) fn open_ticket(
        &self,
        service: EntityType,
        ticket: &TicketBlob,
    ) -> Result<ServiceTicketInfo, BadTicket> {
        let secret = self.keys.find(service, ticket.secret_id).ok_or(BadTicket)?;
        ServiceTicketInfo::open(&secret, &ticket.blob).map_err(|_| BadTicket)
    }
}
