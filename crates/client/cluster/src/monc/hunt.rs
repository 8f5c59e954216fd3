//! Finding a monitor: several are tried at once. The first that authenticates the client is kept, the
//! others are dropped.

use std::sync::Arc;
use std::time::Duration;

use loligo_msgr::{Connection, Messenger, Policy};
use loligo_wire::{EntityAddr, EntityType};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::{Event, FirstSession, MonClient, Verdict};
use crate::dial::Dialer;
use crate::error::Error;

/// Monitors tried at once (`mon_client_hunt_parallel`).
const PARALLEL: usize = 3;
/// Growth factor of the length of successive rounds (`mon_client_hunt_interval_backoff`), up to
/// `BACKOFF_MAX` times the first (`mon_client_hunt_interval_max_multiple`).
const BACKOFF: f64 = 1.5;
const BACKOFF_MAX: f64 = 10.0;
/// Interval between checks for due tickets. A ticket is renewed when a quarter of its life is left,
/// which is minutes.
const TICK: Duration = Duration::from_secs(10);

/// Minimum time between the starts of two sessions.
const SESSION_MIN: Duration = Duration::from_millis(200);

/// Timing of the hunt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HuntSettings {
    /// Length of the first round (`mon_client_hunt_interval`).
    pub(crate) interval: Duration,
}

/// The task that finds a monitor, keeps the session until it is lost, and finds another one.
pub(crate) struct Hunt {
    events: mpsc::UnboundedReceiver<Event>,
    /// Start of the next round.
    next: Place,
}

impl Hunt {
    pub(super) fn new(events: mpsc::UnboundedReceiver<Event>) -> Self {
        let next = Place { group: 0, begin: 0, tried: 0 };
        Self { events, next }
    }

    /// Runs until it is aborted. `first` receives the outcome: the first session, a refusal that every
    /// monitor would repeat, or, after `patience`, an error.
    pub(crate) async fn run(
        mut self,
        monc: Arc<MonClient>,
        messenger: Arc<Messenger>,
        dialer: Arc<Dialer>,
        settings: HuntSettings,
        patience: Duration,
        first: FirstSession,
    ) {
        // A random start spreads clients over the monitors, including clients that are each the first
        // process of a container.
        self.next.begin = messenger.config().network.random_u32() as usize;
        let begun = Instant::now();
        let mut first = Some(first);
        let mut factor = 1.0;
        loop {
            let round = settings.interval.mul_f64(factor);
            let deadline = Instant::now() + round;
            let deadline = if first.is_some() { deadline.min(begun + patience) } else { deadline };
            match self.round(&monc, &dialer, deadline).await {
                Ok(Some(conn)) => {
                    factor = 1.0;
                    self.next = Place { group: 0, tried: 0, ..self.next };
                    messenger.set_num(monc.auth.global_id().0 as i64);
                    monc.open(&conn);
                    if let Some(first) = first.take() {
                        let _ = first.send(Ok(()));
                    }
                    let opened = Instant::now();
                    self.keep(&monc, &conn).await;
                    monc.forget_session();
                    // Limits the rate of requests to a monitor that accepts the client and then drops it.
                    tokio::time::sleep_until(opened + SESSION_MIN).await;
                }
                Ok(None) if first.is_some() && begun.elapsed() >= patience => {
                    let last = monc.last_error();
                    let error = Error::NoMonitor { after: patience, last };
                    let _ = first.take().map(|first| first.send(Err(error)));
                    return;
                }
                Ok(None) => factor = (factor * BACKOFF).min(BACKOFF_MAX),
                Err(refusal) if first.is_some() => {
                    let _ = first.take().map(|first| first.send(Err(refusal.into())));
                    return;
                }
                // An earlier session has succeeded, so the monitors may be about to learn the key again.
                Err(_) => tokio::time::sleep_until(deadline).await,
            }
        }
    }

    /// Tries some monitors until the deadline. Returns `Ok(None)` if none replied, and `Err` if one
    /// refused the client permanently.
    async fn round(
        &mut self,
        monc: &MonClient,
        dialer: &Dialer,
        deadline: Instant,
    ) -> Result<Option<Arc<Connection>>, Verdict> {
        let chosen = self.next.choose(&monc.groups());
        let tried: Vec<_> = chosen
            .into_iter()
            .filter_map(|addr| dialer.connect(EntityType::MON, addr, Policy::lossy_client(), |_| {}))
            .collect();
        let outcome = self.first_connected(monc, &tried, deadline).await;
        let winner = outcome.as_ref().ok().and_then(Option::as_ref);
        for conn in tried.iter().filter(|conn| winner.is_none_or(|winner| winner.id() != conn.id())) {
            conn.mark_down();
        }
        outcome
    }

    async fn first_connected(
        &mut self,
        monc: &MonClient,
        tried: &[Arc<Connection>],
        deadline: Instant,
    ) -> Result<Option<Arc<Connection>>, Verdict> {
        let began = Instant::now();
        let mut heard = Vec::with_capacity(tried.len());
        let is_ours = |conn: &Arc<Connection>| tried.iter().any(|ours| ours.id() == conn.id());
        while let Ok(Some(event)) = timeout_at(deadline, self.events.recv()).await {
            match event {
                Event::Connected(conn) if is_ours(&conn) => return Ok(Some(conn)),
                Event::Refused(conn, why) if is_ours(&conn) => {
                    monc.failed(format!("{}: {}", conn.peer().addr, why.text));
                    if let Some(verdict) = why.verdict {
                        return Err(verdict);
                    }
                    if !heard.contains(&conn.id()) {
                        heard.push(conn.id());
                    }
                    // None of these is there, but perhaps one that listens for the other messenger.
                    if heard.len() == tried.len() && self.next.has_another_group(&monc.groups()) {
                        return Ok(None);
                    }
                }
                Event::Lost(conn) if is_ours(&conn) => {
                    monc.failed(format!("{}: the connection was lost", conn.peer().addr));
                    return Ok(None);
                }
                _ => {} // of an earlier round
            }
        }
        if let Some(conn) = tried.first().filter(|_| heard.is_empty()) {
            monc.failed(format!("{}: no answer for {} s", conn.peer().addr, began.elapsed().as_secs_f64()));
        }
        Ok(None)
    }

    /// Keeps a session until it is lost. Renews tickets meanwhile.
    async fn keep(&mut self, monc: &MonClient, conn: &Arc<Connection>) {
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Some(Event::Lost(lost)) if lost.id() == conn.id() => return,
                    Some(_) => {}
                    None => return,
                },
                _ = tick.tick() => monc.renew_tickets(),
            }
        }
    }
}

/// A position in the list of monitors.
#[derive(Clone, Copy, Debug)]
struct Place {
    group: usize,
    /// The first monitor of the group to try, modulo the group's length.
    begin: usize,
    /// Number of the group's monitors tried so far.
    tried: usize,
}

impl Place {
    /// Returns the monitors of this round: the next few of the current group, or of the next group if
    /// all of the current group were tried.
    fn choose(&mut self, groups: &[Vec<EntityAddr>]) -> Vec<EntityAddr> {
        if groups.get(self.group).is_none_or(|group| self.tried >= group.len()) {
            self.group = if self.group + 1 < groups.len() { self.group + 1 } else { 0 };
            self.tried = 0;
        }
        let Some(group) = groups.get(self.group) else { return Vec::new() };
        let count = group.len().min(PARALLEL);
        let begin = self.begin;
        self.begin = begin.wrapping_add(count);
        self.tried += count;
        (0..count).map(|i| group[begin.wrapping_add(i) % group.len()]).collect()
    }

    /// Whether all monitors of this round's group were tried, and another group follows before the first
    /// one's turn comes again.
    fn has_another_group(&self, groups: &[Vec<EntityAddr>]) -> bool {
        self.group + 1 < groups.len() && groups.get(self.group).is_some_and(|group| self.tried >= group.len())
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn group(ports: std::ops::Range<u16>) -> Vec<EntityAddr> {
        ports.map(|port| EntityAddr::msgr2(SocketAddr::from(([127, 0, 0, 1], port)))).collect()
    }

    fn ports(chosen: &[EntityAddr]) -> Vec<u16> {
        let mut ports: Vec<_> = chosen.iter().filter_map(|addr| addr.sock).map(|sock| sock.port()).collect();
        ports.sort_unstable();
        ports
    }

    #[test]
    fn the_next_group_is_tried_when_none_of_the_first_answers() {
        let groups = [group(1..6), group(6..7)];
        let mut place = Place { group: 0, begin: 4, tried: 0 };
        assert_eq!(ports(&place.choose(&groups)), [1, 2, 5]);
        assert_eq!(ports(&place.choose(&groups)), [3, 4, 5], "the rest, and others again");
        assert_eq!(ports(&place.choose(&groups)), [6]);
        assert_eq!(place.choose(&groups).len(), 3, "from the beginning");
        assert_eq!(place.group, 0);
    }

    #[test]
    fn another_group_follows_until_the_last_one() {
        let groups = [group(1..6), group(6..7)];
        let mut place = Place { group: 0, begin: 0, tried: 0 };
        let mut follows = || {
            place.choose(&groups);
            place.has_another_group(&groups)
        };
        assert_eq!([follows(), follows(), follows(), follows()], [false, true, false, false]);
    }

    #[test]
    fn groups_may_become_fewer() {
        let mut place = Place { group: 3, begin: 0, tried: 1 };
        assert_eq!(ports(&place.choose(&[group(1..3)])), [1, 2]);
        assert_eq!(ports(&place.choose(&[group(1..3)])), [1, 2]);
        assert!(place.choose(&[]).is_empty());
    }
}
