//! Goal: values that release 16 wrote are written back byte for byte; values of later releases are read.
//! Method: the encoded values that Ceph's developers publish for every release (the repository
//! `ceph-object-corpus`), without the need for `ceph-dencoder`. LOLIGO_CEPH_CORPUS names a directory
//! `RELEASE/TYPE/FILE`.

use std::path::Path;

use loligo_wire::message::mon::{LogEntry, MgrMap};
use loligo_wire::message::osd::{
    HObject, ListWatchersResponse, ObjectLocator, ObjectStatSum, OsdReqId, PgNlsResponse, PoolStat,
    RequestRedirect, StoreStatfs, WatchItem,
};
use loligo_wire::{Decode, Encode, EntityAddr, EntityAddrVec, EntityName, EntityNum, Eversion, PgId, SpgId};

#[test]
#[ignore = "needs ceph-object-corpus; run by cargo xtask test"]
fn values_of_every_release_are_read_and_those_of_release_16_written_back() {
    let Ok(root) = std::env::var("LOLIGO_CEPH_CORPUS") else {
        return skipped("LOLIGO_CEPH_CORPUS names no directory");
    };
    let mut checked = 0;
    for release in std::fs::read_dir(root).expect("a directory").map(|e| e.expect("an entry").path()) {
        let ours = release.file_name().is_some_and(|name| name.to_string_lossy().starts_with("16."));
        // Ceph writes a blank address with or without 28 zero bytes.
        checked += check::<EntityAddr>(&release, "entity_addr_t", false);
        checked += check::<EntityAddrVec>(&release, "entity_addrvec_t", false);
        checked += check::<EntityName>(&release, "EntityName", ours);
        checked += check::<EntityNum>(&release, "entity_name_t", ours);
        checked += check::<Eversion>(&release, "eversion_t", ours);
        checked += check::<HObject>(&release, "hobject_t", ours);
        checked += check::<ListWatchersResponse>(&release, "obj_list_watch_response_t", ours);
        checked += check::<LogEntry>(&release, "LogEntry", ours);
        checked += check::<MgrMap>(&release, "MgrMap", false);
        checked += check::<ObjectLocator>(&release, "object_locator_t", ours);
        checked += check::<ObjectStatSum>(&release, "object_stat_sum_t", ours);
        checked += check::<OsdReqId>(&release, "osd_reqid_t", ours);
        checked += check::<PgId>(&release, "pg_t", ours);
        checked += check::<PgNlsResponse>(&release, "pg_nls_response_t", ours);
        checked += check::<PoolStat>(&release, "pool_stat_t", ours);
        checked += check::<RequestRedirect>(&release, "request_redirect_t", ours);
        checked += check::<SpgId>(&release, "spg_t", ours);
        checked += check::<StoreStatfs>(&release, "store_statfs_t", ours);
        checked += check::<WatchItem>(&release, "watch_item_t", ours);
    }
    assert!(checked > 100, "only {checked} values found");
}

fn check<T: Decode + Encode>(release: &Path, ceph_name: &str, write_back: bool) -> usize {
    let Ok(files) = std::fs::read_dir(release.join(ceph_name)) else { return 0 };
    let paths: Vec<_> = files.map(|e| e.expect("an entry").path()).collect();
    for path in &paths {
        let bytes = std::fs::read(path).expect("a readable file");
        let value = T::from_bytes(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(!write_back || value.to_bytes() == bytes, "{}: written back differently", path.display());
    }
    paths.len()
}

/// Reports why a test did nothing. It writes to stderr directly, because the output of `eprintln!` is
/// not shown for tests that pass. `cargo xtask test` counts these lines.
fn skipped(why: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {why}\n").as_bytes());
}
