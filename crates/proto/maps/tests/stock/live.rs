//! Tests with the maps of the running cluster that `$CEPH_CONF` names. Without one, the tests do
//! nothing.

use std::process::Command;

use loligo_maps::crush::CrushMap;
use loligo_maps::{Features, MonMap, OsdMap, OsdSet};
use loligo_wire::{Decode, Encode, OsdId, Reader, Writer, features};

use crate::tools::{Stock, StockFile, stdout};

/// All feature sets with which a monitor of a supported release may have encoded.
fn writers() -> impl Iterator<Item = Features> {
    let bits = [Features::PACIFIC, Features::REEF, Features::TENTACLE].map(|features| features.0);
    let more = [0, features::SERVER_QUINCY, features::SERVER_QUINCY | features::CRUSH_MSR];
    bits.into_iter().flat_map(move |bits| more.map(|more| Features(bits | more)))
}

/// Runs `ceph` with arguments and returns the file that it writes.
fn ceph_file(stock: &Stock, args: &[&str]) -> StockFile {
    let file = stock.file(b"");
    stdout(Command::new("ceph").args(args).arg("-o").arg(&file.inside));
    file
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_running_clusters_maps_are_written_as_they_were() {
    if std::env::var_os("CEPH_CONF").is_none() {
        return println!("no cluster: CEPH_CONF is not set");
    }
    let stock = &Stock::all()[0];
    let newest = OsdMap::decode(&ceph_file(stock, &["osd", "getmap"]).read()).expect("a map");
    for epoch in newest.epoch.0.saturating_sub(20).max(1)..=newest.epoch.0 {
        let bytes = ceph_file(stock, &["osd", "getmap", &epoch.to_string()]).read();
        let map = OsdMap::decode(&bytes).expect("a map");
        assert_eq!(map.epoch.0, epoch);
        assert!(writers().any(|writer| map.encode(writer).bytes == bytes), "epoch {epoch}");
    }

    let bytes = ceph_file(stock, &["osd", "getcrushmap"]).read();
    let crush = CrushMap::decode(&mut Reader::new(&bytes)).expect("a map");
    let encode = |writer| {
        let mut w = Writer::new();
        crush.encode(writer, &mut w);
        w.into_bytes()
    };
    assert!(writers().any(|writer| encode(writer) == bytes));

    let bytes = ceph_file(stock, &["mon", "getmap"]).read();
    assert_eq!(MonMap::from_bytes(&bytes).expect("a map").to_bytes(), bytes);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_running_clusters_objects_are_where_it_says() {
    if std::env::var_os("CEPH_CONF").is_none() {
        return println!("no cluster: CEPH_CONF is not set");
    }
    let stock = &Stock::all()[0];
    let map = OsdMap::decode(&ceph_file(stock, &["osd", "getmap"]).read()).expect("a map");
    let list = |set: &OsdSet| set.iter().map(OsdId::to_string).collect::<Vec<_>>().join(",");
    for (pool, name) in map.pool_names.iter().take(3) {
        for (object, namespace) in
            [("foo", ""), ("foo", "ns"), ("a longer name, with ümläuts", "another namespace")]
        {
            let name = name.as_text().expect("a name in UTF-8");
            let mut command = Command::new("ceph");
            command.args(["osd", "map", name, object]).args(Some(namespace).filter(|ns| !ns.is_empty()));
            let theirs = stdout(&mut command);
            let raw = map
                .object_to_pg(*pool, namespace.as_bytes(), b"", object.as_bytes())
                .expect("the pool is there");
            let pg = map.raw_pg_to_pg(raw).expect("the pool is there");
            let placed = map.pg_to_up_acting(raw);
            let primary = |osd: Option<OsdId>| osd.unwrap_or(OsdId(-1));
            let ours = format!(
                "-> pg {raw} ({pg}) -> up ([{}], p{}) acting ([{}], p{})",
                list(&placed.up),
                primary(placed.up_primary),
                list(&placed.acting),
                primary(placed.acting_primary)
            );
            assert!(theirs.trim().ends_with(&ours), "theirs {theirs}\nours   {ours}");
        }
    }
}
