//! The daemons that every cluster has.

mod mgr;
mod mon;
mod osd;

pub(crate) use mgr::Mgr;
pub(crate) use mon::Mon;
pub(crate) use osd::OsdDaemon;
