//! Accepted sessions, counted by user.

use std::collections::HashMap;
use std::sync::Arc;

use loligo_lockstat::{Class, Mutex};
use loligo_wire::EntityName;

use crate::Error;

static SESSIONS: Class = Class::new("msgr.sessions");

/// A user with fewer sessions than this may open one even when nearly all are taken.
const MODEST: usize = 16;

pub(crate) struct Sessions {
    max: usize,
    per_user_max: usize,
    /// At or above this total, only users with few sessions may open more.
    scarce: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    len: usize,
    by_user: HashMap<Option<EntityName>, usize>,
}

/// A slot for one session, released when it is dropped.
pub(crate) struct Place {
    sessions: Arc<Sessions>,
    user: Option<EntityName>,
}

impl Sessions {
    pub(crate) fn new(max: usize, per_user_max: usize) -> Arc<Self> {
        let scarce = max - max / 8;
        Arc::new(Self { max, per_user_max, scarce, taken: Mutex::new(&SESSIONS, Taken::default()) })
    }

    /// Takes a slot for a session of a user; `None` is a peer without a name.
    pub(crate) fn enter(self: &Arc<Self>, user: Option<EntityName>) -> Result<Place, Error> {
        let mut taken = self.taken.lock();
        let (all, own) = (taken.len, taken.by_user.get(&user).copied().unwrap_or(0));
        let room = all < self.max && own < self.per_user_max && (all < self.scarce || own < MODEST);
        if room {
            taken.len += 1;
            *taken.by_user.entry(user.clone()).or_default() += 1;
        }
        drop(taken);
        match room {
            true => Ok(Place { sessions: Arc::clone(self), user }),
            false => Err(Error::TooManySessions { user, own, all }),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.taken.lock().len
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.sessions.taken.lock();
        taken.len -= 1;
        if let Some(count) = taken.by_user.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                taken.by_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(sessions: &Arc<Sessions>, user: &str) -> Vec<Place> {
        std::iter::from_fn(|| sessions.enter(Some(EntityName::client(user))).ok()).collect()
    }

    #[test]
    fn greedy_users_leave_room_for_modest_ones() {
        let sessions = Sessions::new(400, 200);
        let first = many(&sessions, "a");
        let second = many(&sessions, "b");
        assert_eq!((first.len(), second.len()), (200, 150), "of the last eighth each has few");
        let admin = many(&sessions, "admin");
        assert_eq!(admin.len(), MODEST);
        drop(first);
        assert_eq!(many(&sessions, "c").len(), 350 - 150 - MODEST);
        drop((second, admin));
        assert_eq!(sessions.len(), 0);
        assert!(sessions.taken.lock().by_user.is_empty());
    }
}
