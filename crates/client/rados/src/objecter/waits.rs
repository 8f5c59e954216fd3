//! The reasons for which operations and commands wait, with details from the map.

use std::time::Duration;

use loligo_cluster::{Gathered, Reason, Waiter};
use loligo_maps::{MapFlags, PoolFlags};
use loligo_msgr::State;
use loligo_wire::message::osd::OsdFlags;
use loligo_wire::{OsdId, PgId};

use super::Objecter;
use super::commands::Addressee;
use super::op::{Op, coarse_now};
use super::requests::{WaitsFor, in_words};
use super::target::{MapView, Placement};

impl Objecter {
    /// Adds the operations and commands that have waited for `age_min` or longer. For younger ones only
    /// their age is read.
    pub(super) fn gather_waits(&self, age_min: Duration, into: &mut Gathered) {
        let view = self.view();
        let now = coarse_now();
        let age = |op: &Op| now.saturating_sub(op.began);
        let is_old = |op: &Op| age(op) >= age_min;
        for session in self.sessions.all() {
            for (op, flight, waits_for) in session.flying(is_old) {
                let reason = view.reason(waits_for, &flight.place);
                into.add(Waiter::Request, age(&op), || Some(in_words(&op)), reason);
            }
        }
        for op in self.waiting.all().iter().filter(|op| is_old(op)) {
            into.add(Waiter::Request, age(op), || Some(in_words(op)), Reason::Place);
        }
        for (age, to) in self.commands.older(age_min) {
            // A command without a recipient is about to fail.
            if let Ok(osd) = view.addressee(to) {
                into.add(Waiter::Command, age, || None, self.reason_of_command(osd, to, &view));
            }
        }
    }

    fn reason_of_command(&self, osd: OsdId, to: Addressee, view: &MapView) -> Reason {
        let pgs = match to {
            Addressee::Osd(_) => None,
            Addressee::Pg(pg) => Some(pg),
        };
        let sessions = self.sessions.all();
        let conn = sessions.iter().find(|session| session.osd == osd).and_then(|session| session.conn());
        match conn.map(|conn| conn.state()) {
            Some(State::Open) => Reason::OsdAnswer { osd, pgs: pgs.into_iter().collect() },
            _ => Reason::OsdConnection { osd, addr: view.addr_of(osd) },
        }
    }
}

impl MapView {
    /// Returns the full reason for an operation with this placement and this kind of wait.
    fn reason(&self, waits_for: WaitsFor, place: &Placement) -> Reason {
        let pg = place.spgid.pgid;
        match (waits_for, place.osd) {
            (WaitsFor::Place, _) => Reason::Place,
            (WaitsFor::Turn, _) => Reason::Turn,
            (WaitsFor::Unpause, _) => self.reason_of_pause(place).unwrap_or(Reason::Turn),
            (WaitsFor::Osd, _) | (_, None) => {
                Reason::NoPrimary { pgs: [pg].into(), down: self.down_of(pg), pool: pg.pool }
            }
            (WaitsFor::Backoff, Some(osd)) => Reason::Backoff { osd, pgs: [pg].into() },
            (WaitsFor::Connection, Some(osd)) => Reason::OsdConnection { osd, addr: self.addr_of(osd) },
            (WaitsFor::Answer, Some(osd)) => Reason::OsdAnswer { osd, pgs: [pg].into() },
        }
    }

    /// Returns the OSDs that should serve a placement group and are down.
    fn down_of(&self, pg: PgId) -> Vec<OsdId> {
        let raw = self.map().pg_to_raw(pg);
        raw.iter().copied().filter(|osd| self.map().exists(*osd) && !self.map().is_up(*osd)).collect()
    }

    /// Returns why operations with this placement have to wait, or `None` if they no longer do. The
    /// checks follow the order of [`pauses`](Self::pauses).
    fn reason_of_pause(&self, place: &Placement) -> Option<Reason> {
        let map = self.map();
        if !self.pauses(place.pool, place.flags) {
            return None;
        }
        if place.flags.contains(OsdFlags::READ) && map.flags.contains(MapFlags::PAUSERD) {
            return Some(Reason::Paused("pauserd"));
        }
        if map.flags.contains(MapFlags::PAUSEWR) {
            return Some(Reason::Paused("pausewr"));
        }
        if map.flags.contains(MapFlags::FULL) {
            return Some(Reason::ClusterFull);
        }
        let by_quota = map.pool(place.pool).is_some_and(|pool| pool.flags.contains(PoolFlags::FULL_QUOTA));
        let name = map.pool_name(place.pool).map(ToString::to_string);
        Some(Reason::PoolFull { pool: name.unwrap_or_else(|| place.pool.to_string()), by_quota })
    }
}
