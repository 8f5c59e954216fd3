//! Which metadata server a request goes to.

use loligo_types::Rank;

/// A rank, as the map of the file system shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankState {
    /// It serves requests: active or stopping.
    Serves,
    /// It will serve: the request waits for the next map.
    Waits,
    /// The file system no longer has this rank.
    Gone,
}

/// What a client knows about the place of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Route<'a> {
    /// The destination that a server named when it forwarded the request.
    pub forwarded_to: Option<Rank>,
    /// The rank that has authority over the directory fragment of the name.
    pub fragment_auth: Option<Rank>,
    /// Ranks that have a replica of the directory and can serve reads.
    pub replicas: &'a [Rank],
    /// The rank whose capability on the inode comes with authority.
    pub auth_cap: Option<Rank>,
    /// Any rank whose capability on the inode is held.
    pub any_cap: Option<Rank>,
    /// Whether the request changes something.
    pub changes: bool,
}

/// Chooses the rank for a request. Returns none if the request must wait for a newer map.
///
/// `active` are the ranks that serve, `random` spreads requests of which nothing is known.
pub fn choose(
    route: &Route<'_>,
    state: &dyn Fn(Rank) -> RankState,
    active: &[Rank],
    random: usize,
) -> Option<Rank> {
    let replica = match route.replicas {
        _ if route.changes => None,
        [] => None,
        replicas => {
            let serving = |rank: &&Rank| state(**rank) == RankState::Serves;
            let count = replicas.iter().filter(serving).count();
            replicas.iter().filter(serving).nth(random.checked_rem(count).unwrap_or(0)).copied()
        }
    };
    let by_cap = if route.changes { route.auth_cap } else { route.auth_cap.or(route.any_cap) };
    let known = [route.forwarded_to, replica, route.fragment_auth, by_cap, route.any_cap];
    for rank in known.into_iter().flatten() {
        match state(rank) {
            RankState::Serves => return Some(rank),
            RankState::Waits => return None,
            RankState::Gone => {}
        }
    }
    active.get(random.checked_rem(active.len())?).copied()
}
