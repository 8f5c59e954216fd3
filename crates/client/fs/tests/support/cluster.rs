//! The stock cluster that the tests run against.

use std::path::PathBuf;

use loligo_rados::{Builder, Rados};

/// The cluster's ceph.conf.
pub(crate) fn stock() -> PathBuf {
    std::env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf").into()
}

pub(crate) async fn rados() -> Rados {
    let conf = stock();
    Builder::new().conf_file(conf.to_str().expect("a path")).connect().await.expect("the cluster is there")
}
