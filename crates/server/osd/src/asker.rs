//! Recipients of replies, and the accounts of their unread replies.

mod unread;

use std::sync::{Arc, Weak};

use loligo_msgr::Cork;
use loligo_wire::EntityAddr;
use loligo_wire::message::Msg;

use crate::group::Group;
pub(crate) use unread::{Account, Held, Unread};

/// The recipient of a reply: a client's connection, or an internal one.
pub(crate) trait Asker: Send + Sync {
    fn answer(&self, reply: Msg);

    /// Sends a reply that is counted by `held` until it is read.
    fn answer_held(&self, reply: Msg, held: Held) {
        self.answer(reply);
        drop(held);
    }

    /// The account of its unread replies, if they are counted.
    fn account(&self) -> Option<Arc<Account>> {
        None
    }

    /// Bytes the peer has accepted so far.
    fn written(&self) -> u64 {
        0
    }

    /// Closes the connection: the client reads nothing while others wait.
    fn give_up(&self) {}

    /// Gathers the replies sent while the guard lives, if the recipient supports it.
    fn cork(&self) -> Option<Cork<'_>>;

    /// A number that identifies the connection.
    fn id(&self) -> u64 {
        0
    }

    /// The client's address.
    fn addr(&self) -> EntityAddr {
        EntityAddr::default()
    }

    /// Registers a placement group to be notified when the connection is lost. Returns false if it is
    /// lost already.
    fn watches_in(&self, group: Weak<dyn Group>) -> bool {
        let _ = group;
        true
    }
}
