//! The trait to which a messenger delivers messages and events.

use std::pin::Pin;
use std::sync::Arc;

use loligo_wire::message::Msg;

use crate::{Connection, Error};

/// Receives the messages and events of a messenger's connections.
///
/// All calls about one connection come from one task, one after the other; calls about different
/// connections run concurrently. No call may block: it runs on a runtime thread that serves other
/// connections too.
pub trait Dispatcher: Send + Sync + 'static {
    /// Delivers the messages of one socket read, in order. The implementation takes messages out of
    /// `msgs`; the rest are dropped. Messages sent on `conn` before the call returns are gathered
    /// and leave in few vectored writes, usually one afterwards.
    ///
    /// Work that outlives the call and must count against the policy's [`Throttle`](crate::Throttle)
    /// keeps a [`Hold`](crate::Hold) ([`Connection::hold`]).
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>);

    /// Returns a future to await before the next read from a peer that has opened a lossy connection,
    /// for example until there is room for replies. Called before each read, the first one included.
    /// `None`: read at once.
    fn room(&self, conn: &Arc<Connection>) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        let _ = conn;
        None
    }

    /// A connection that this side opened is open: for the first time or, if lossless, again.
    fn connected(&self, conn: &Arc<Connection>) {
        let _ = conn;
    }

    /// A peer has connected and is authenticated; none of its messages has been dispatched yet.
    fn accepted(&self, conn: &Arc<Connection>) {
        let _ = conn;
    }

    /// The connection is closed for good: its socket was lost and it is lossy, or a newer session
    /// replaced it. Called at most once, and not after a local [`Connection::mark_down`].
    fn reset(&self, conn: &Arc<Connection>, why: &Error) {
        let _ = (conn, why);
    }

    /// The peer has forgotten the session. Unacknowledged messages are lost; the connection continues
    /// with a new session.
    fn remote_reset(&self, conn: &Arc<Connection>) {
        let _ = conn;
    }

    /// An attempt to connect has failed. Whatever the policy, the next attempt follows after a pause,
    /// until [`Connection::mark_down`].
    fn refused(&self, conn: &Arc<Connection>, why: &Error) {
        let _ = (conn, why);
    }
}
