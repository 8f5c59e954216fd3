//! Who gets the answers to requests, and what of them is not read yet.

mod unread;

use std::sync::{Arc, Weak};

use loligo_msgr::Cork;
use loligo_wire::EntityAddr;
use loligo_wire::message::Msg;

use crate::group::Group;
pub(crate) use unread::{Account, Held, Unread};

/// Whoever gets the answer.
pub(crate) trait Asker: Send + Sync {
    fn answer(&self, reply: Msg);

    /// The same for an answer that may be counted until it is read.
    fn answer_held(&self, reply: Msg, held: Held) {
        self.answer(reply);
        drop(held);
    }

    /// Where its unread answers are counted, if they are.
    fn account(&self) -> Option<Arc<Account>> {
        None
    }

    /// Bytes that it has taken so far.
    fn written(&self) -> u64 {
        0
    }

    /// It takes nothing, and others wait.
    fn give_up(&self) {}

    /// Gathers what is answered while the guard lives, if that makes sense.
    fn cork(&self) -> Option<Cork<'_>>;

    /// A number that tells connections apart.
    fn id(&self) -> u64 {
        0
    }

    /// Where it is.
    fn addr(&self) -> EntityAddr {
        EntityAddr::default()
    }

    /// Has the placement group told when the connection is lost; false if it is lost already.
    fn watches_in(&self, group: Weak<dyn Group>) -> bool {
        let _ = group;
        true
    }
}
