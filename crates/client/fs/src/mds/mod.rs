//! What happens between a mount and its metadata servers.

mod call;
mod capabilities;
mod choose;
mod dispatch;
mod life;
mod reconnect;
mod replies;

pub(crate) use self::call::missing;
