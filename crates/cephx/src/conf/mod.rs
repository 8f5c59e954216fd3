//! ceph.conf, as Ceph's programs read it.

pub(crate) mod ini;
