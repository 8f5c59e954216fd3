//! The trait through which a messenger delivers.

use std::pin::Pin;
use std::sync::Arc;

use loligo_wire::message::Msg;

use crate::{Connection, Error};

/// Receives what happens on a messenger's connections.
///
/// All calls about one connection come from one task, one after the other; calls about different connections
/// run at the same time. None may block: a call runs on a runtime thread that serves other connections too.
pub trait Dispatcher: Send + Sync + 'static {
    /// Messages have arrived: all that one read of the socket brought, in order. Take what is wanted out of
    /// `msgs`; what is left is dropped. What is sent on `conn` before this returns leaves in one vectored
    /// write afterwards.
    ///
    /// Work that outlives the call and must count against the policy's [`Throttle`](crate::Throttle) takes a
    /// [`Hold`](crate::Hold) ([`Connection::hold`]).
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>);

    /// What to wait for before more is read from a peer that has opened a lossy connection, such as room for
    /// answers; asked for behind each [`dispatch`](Self::dispatch) and when the connection begins. `None`:
    /// nothing.
    fn room(&self, conn: &Arc<Connection>) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        let _ = conn;
        None
    }

    /// A connection that we opened is up: for the first time or, lossless, again.
    fn connected(&self, conn: &Arc<Connection>) {
        let _ = conn;
    }

    /// A peer has connected and is who it says; no message of it has been dispatched yet.
    fn accepted(&self, conn: &Arc<Connection>) {
        let _ = conn;
    }

    /// The connection is dead and will not come back: its socket was lost and it is lossy, or a newer session
    /// took its place. Comes at most once, and not after [`Connection::mark_down`] by us.
    fn reset(&self, conn: &Arc<Connection>, why: &Error) {
        let _ = (conn, why);
    }

    /// The peer has forgotten the session. Messages that were not acknowledged are lost; the connection goes
    /// on afresh.
    fn remote_reset(&self, conn: &Arc<Connection>) {
        let _ = conn;
    }

    /// An attempt to connect has failed. The next one follows after a pause, whatever the policy, until
    /// [`Connection::mark_down`].
    fn refused(&self, conn: &Arc<Connection>, why: &Error) {
        let _ = (conn, why);
    }
}
