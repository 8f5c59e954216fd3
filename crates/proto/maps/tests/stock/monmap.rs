//! Compares monitor maps with `monmaptool`.

use loligo_maps::{MonMap, Name};
use loligo_wire::{Decode, Encode, EntityAddr, EntityAddrVec, UTime, Uuid};

use crate::tools::{Stock, stdout};

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn our_monitor_map_is_read_and_changed_by_monmaptool() {
    for stock in Stock::all() {
        let addr = |port| EntityAddr::msgr2(([127, 0, 0, 1], port).into());
        let mons = [("a", 3300), ("b", 3301)]
            .map(|(name, port)| (Name::from(name), EntityAddrVec::from(addr(port))));
        let map = MonMap::new(Uuid([9; 16]), UTime { sec: 1000, nsec: 0 }, mons);
        let file = stock.file(&map.to_bytes());
        let printed = stdout(stock.command("monmaptool").arg("--print").arg(&file.inside));
        for line in ["epoch 1", "min_mon_release 16 (pacific)", "0: v2:127.0.0.1:3300/0 mon.a"] {
            assert!(
                printed.lines().any(|l| l == line),
                "release {}: no '{line}' in\n{printed}",
                stock.release
            );
        }
        stdout(stock.command("monmaptool").args(["--addv", "c", "[v2:127.0.0.1:3302]"]).arg(&file.inside));
        let theirs = MonMap::from_bytes(&file.read()).expect("what they write can be read");
        assert_eq!(theirs.rank_by_addr(&addr(3302)), theirs.rank_by_name(b"c"));
        assert_eq!(theirs.persistent_features, map.persistent_features);
        assert_eq!(
            theirs.mon(0).map(|(name, mon)| (name.as_bytes(), mon.public_addrs.msgr2())),
            Some((&b"a"[..], Some(&addr(3300))))
        );
        assert_eq!(theirs.to_bytes(), file.read(), "release {}", stock.release);
    }
}

/// Goal: maps that `monmaptool` creates are encoded again byte for byte.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn monitor_maps_of_monmaptool_are_written_as_they_were() {
    for stock in Stock::all() {
        let file = stock.file(b"");
        let mut command = stock.command("monmaptool");
        command.args(["--create", "--clobber", "--add", "x", "10.0.0.1", "--addv", "y"]);
        command.args(["[v2:[2001:db8::1]:3300,v1:[2001:db8::1]:6789]", "--add", "z", "10.0.0.2:6789"]);
        stdout(command.arg(&file.inside));
        let map = MonMap::from_bytes(&file.read()).expect("what they write can be read");
        assert_eq!(map.len(), 3);
        assert_eq!(map.to_bytes(), file.read(), "release {}", stock.release);
    }
}
