//! fio and qemu: data is written through stock libraries and read back.

use std::fs;
use std::path::Path;

use loligo_wire::message::osd::{PgMap, pg_state};
use loligo_wire::{Decode as _, Encode as _};

use crate::{Scratch, eventually, ok, run, server, stock};

/// Writes the whole range in random order and size, then reads all of it back and verifies each block's
/// checksum.
fn verify(conf: &Path, engine: &[&str]) {
    let job = [
        "--name=verified",
        "--clientname=admin",
        "--rw=randwrite",
        "--bsrange=4k-64k",
        "--iodepth=32",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--do_verify=1",
        // Otherwise fio leaves a file in the working directory.
        "--verify_state_save=0",
        "--randseed=7",
        "--size=24M",
    ];
    let shown = ok(conf, "fio", &[engine, &job].concat());
    // Both phases ran: written data was read again.
    assert!(shown.contains("WRITE: bw=") && shown.contains("READ: bw="), "{shown}");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn fio_verifies_what_its_rados_engine_wrote() {
    let server = server();
    // This engine ignores the environment.
    let conf = format!("--conf={}", server.conf().display());
    verify(server.conf(), &["--ioengine=rados", &conf, "--pool=data", "--nrfiles=8", "--filesize=3M"]);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn fio_verifies_what_its_rbd_engine_wrote() {
    let server = server();
    ok(server.conf(), "rbd", &["create", "rbd/fio", "--size", "24M"]);
    verify(server.conf(), &["--ioengine=rbd", "--pool=rbd", "--rbdname=fio"]);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn qemu_converts_to_and_from_images() {
    let (server, scratch) = (server(), Scratch::new("qemu"));
    let conf = server.conf();
    let (raw, back, qcow2) = (scratch.file("raw"), scratch.file("back"), scratch.file("qcow2"));
    // Holes, zeroes and data.
    let mut content: Vec<u8> =
        (0..9u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    content[2 << 20..5 << 20].fill(0);
    fs::write(&raw, &content).expect("the input is written");
    let image = |name: &str| format!("rbd:rbd/{name}:id=admin:conf={}", conf.display());
    let (first, second) = (image("first"), image("second"));
    ok(conf, "qemu-img", &["convert", "-f", "raw", "-O", "raw", &raw, &first]);
    ok(conf, "qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &first, &qcow2]);
    ok(conf, "qemu-img", &["check", "-f", "qcow2", &qcow2]);
    ok(conf, "qemu-img", &["convert", "-f", "qcow2", "-O", "raw", &qcow2, &second]);
    ok(conf, "qemu-img", &["convert", "-f", "raw", "-O", "raw", &second, &back]);
    assert!(fs::read(&back).expect("the output is read") == content, "another image came back");
    ok(conf, "qemu-img", &["compare", "-f", "raw", "-F", "raw", &first, &second]);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn qemu_makes_changes_and_checks_images() {
    let server = server();
    let conf = server.conf();
    let image = format!("rbd:rbd/made:id=admin:conf={}", conf.display());
    let img = |args: &[&str]| ok(conf, "qemu-img", args);
    img(&["create", "-f", "raw", &image, "16M"]);
    img(&["resize", "-f", "raw", &image, "24M"]);
    let info = img(&["info", "-f", "raw", &image]);
    assert!(info.contains("virtual size: 24 MiB"), "{info}");
    let io = |commands: &[&str]| {
        let args: Vec<&str> = commands.iter().flat_map(|command| ["-c", command]).collect();
        let shown = ok(conf, "qemu-io", &[&["-f", "raw"][..], &args, &[&image]].concat());
        assert!(!shown.contains("failed"), "{shown}");
    };
    io(&["write -P 0x5a 0 4M", "write -P 0xa5 6M 64k", "write -z 1M 1M", "discard 2M 64k", "flush"]);
    img(&["snapshot", "-c", "before", &image]);
    io(&["write -P 0x11 0 24M", "read -P 0x11 0 24M"]);
    let listed = img(&["snapshot", "-l", &image]);
    assert!(listed.contains("before"), "{listed}");
    img(&["snapshot", "-a", "before", &image]);
    io(&["read -P 0x5a 0 1M", "read -P 0 1M 1M", "read -P 0xa5 6M 64k", "read -P 0 7M 1M"]);
    img(&["snapshot", "-d", "before", &image]);
    let (code, _, why) = run(conf, "qemu-img", &["info", &image.replace("made", "none")]);
    assert!(code == Some(1) && why.contains("No such file or directory"), "{why}");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn ceph_tells_the_osd_what_the_admin_socket_is_told() {
    let server = server();
    let conf = server.conf();
    for command in ["version", "dump_historic_ops", "config show"] {
        let shown =
            ok(conf, "ceph", &[&["tell", "osd.0"][..], &command.split(' ').collect::<Vec<_>>()].concat());
        assert!(shown.starts_with('{'), "{command}: {shown}");
    }
    let (code, _, why) = run(conf, "ceph", &["tell", "osd.0", "nonsense"]);
    assert!(code == Some(22), "{why}");
    let mon = ok(conf, "ceph", &["tell", "mon.a", "mon_status"]);
    assert!(mon.contains("leader"), "{mon}");
    for absent in ["dump_mempools", "abort", "assert", "leak_some_memory"] {
        let (code, _, why) = run(conf, "ceph", &["tell", "mon.a", absent]);
        assert!(code == Some(22), "{absent}: {why}");
    }
    let pg = ok(conf, "ceph", &["tell", "1.0", "query"]);
    assert!(pg.contains("active+clean"), "{pg}");
}

/// Requests of stock programs for manager modules, which this server does not have.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn commands_of_managers_modules_end_at_once() {
    let server = server();
    let conf = server.conf();
    for (program, command) in [
        ("rbd", "trash purge schedule ls"),
        ("rbd", "trash purge schedule add 1d"),
        ("rbd", "mirror snapshot schedule ls"),
        ("rbd", "perf image iostat"),
        ("ceph", "rbd task add flatten rbd/x"),
        ("ceph", "orch status"),
        ("ceph", "fs subvolume ls x"),
    ] {
        let (code, shown, why) = run(conf, program, &command.split(' ').collect::<Vec<_>>());
        assert_eq!(code, Some(95), "{program} {command}: {shown}{why}");
    }
    let shown = ok(conf, "ceph", &["tell", "mgr", "version"]);
    assert!(shown.contains("16.2.15"), "{shown}");
    let shown = ok(conf, "ceph", &["tell", "mgr.a", "config", "get", "debug_ms"]);
    assert!(shown.contains("debug_ms"), "{shown}");
    assert!(ok(conf, "ceph", &["-s"]).contains("mgr: a(active, since"));
}

/// A stock manager's map is decoded and encoded again byte for byte, and ours has the same form.
///
/// Other tests make pools in the same stock cluster, whose groups are not clean at once.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn the_map_of_placement_groups_has_the_form_of_a_stock_manager() {
    let (server, scratch) = (server(), Scratch::new("pgmap"));
    let path = scratch.file("map");
    let clean = pg_state::ACTIVE | pg_state::CLEAN;
    for conf in [stock(), server.conf().to_owned()] {
        eventually(&format!("a clean placement group in {}", conf.display()), || {
            ok(&conf, "ceph", &["pg", "getmap", "-o", &path]);
            let bytes = fs::read(&path).expect("the map is read");
            let map = PgMap::from_bytes(&bytes).expect("a map");
            assert!(map.osds.len() == 1, "{}", conf.display());
            assert!(map.to_bytes() == bytes, "{}: another map is written than was read", conf.display());
            map.pgs.iter().any(|(_, stats)| stats.state == clean)
        });
    }
}
