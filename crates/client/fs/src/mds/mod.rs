//! What happens between a mount and its metadata servers.

mod call;
mod capabilities;
mod choose;
mod dispatch;
mod event;
mod life;
mod names;
mod reconnect;
mod replies;
mod returns;
mod uses;

pub(crate) use self::call::missing;
pub(crate) use self::uses::Use;
