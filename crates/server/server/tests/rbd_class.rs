//! Class `rbd`, called as librbd does, on an embedded server.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_rados::blocking::{IoCtx, Rados};
use loligo_rados::{Answer, Builder, Error, ReadOp, WriteOp};
use loligo_server::{Handle, Server};
use loligo_wire::message::osd::{OpCode, OsdOp};
use loligo_wire::rbd::{OldHeader, OldSnap};
use loligo_wire::{Encode, Errno, SnapId, Writer};

const ENOENT: i32 = Errno::ENOENT.0;
const EBADF: i32 = Errno::EBADF.0;
const EBUSY: i32 = Errno::EBUSY.0;
const EEXIST: i32 = Errno::EEXIST.0;
const EINVAL: i32 = Errno::EINVAL.0;
const ERANGE: i32 = Errno::ERANGE.0;
const ESTALE: i32 = Errno::ESTALE.0;
const EDQUOT: i32 = Errno::EDQUOT.0;

/// A server and a pool on it.
struct Here {
    _server: Handle,
    pool: IoCtx,
}

impl Here {
    fn new() -> Self {
        let server = Server::memory().pool("rbd").start().expect("the server starts");
        let conf = server.conf().to_str().expect("a path in UTF-8").to_owned();
        let rados = Rados::connect(Builder::new().conf_file(&conf)).expect("connects");
        let pool = rados.ioctx("rbd").expect("the pool");
        Self { _server: server, pool }
    }

    /// Calls a method on an object. Returns its output, or an errno.
    fn call(&self, oid: &str, method: &str, input: &[u8]) -> Result<Bytes, i32> {
        self.pool.exec(oid, "rbd", method, input).map_err(|error| match error {
            Error::Os(errno) => errno.0,
            other => panic!("{other}"),
        })
    }

    fn does(&self, oid: &str, method: &str, input: &[u8]) {
        assert_eq!(self.call(oid, method, input).map(drop), Ok(()), "{method}");
    }

    fn fails(&self, oid: &str, method: &str, input: &[u8], errno: i32) {
        assert_eq!(self.call(oid, method, input).map(drop), Err(errno), "{method}");
    }

    /// Creates the header of an image of 8 objects with the usual features.
    fn image(&self, oid: &str) {
        let create = encoded(|w| {
            w.u64(32 << 20);
            w.u8(22);
            w.u64(61);
            w.put("rbd_data.1");
        });
        self.does(oid, "create", &create);
        self.fails(oid, "create", &create, EEXIST);
    }
}

fn encoded(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new();
    fill(&mut w);
    w.into_bytes().to_vec()
}

fn snap(name: &str, id: u64) -> Vec<u8> {
    encoded(|w| {
        w.put(name);
        w.u64(id);
    })
}

fn id(id: u64) -> Bytes {
    id.to_bytes()
}

#[test]
fn snapshots_are_told_newest_first_and_their_ids_only_grow() {
    let here = Here::new();
    let o = "header";
    here.image(o);
    here.does(o, "snapshot_add", &snap("one", 4));
    here.fails(o, "snapshot_add", &snap("one", 5), EEXIST);
    here.fails(o, "snapshot_add", &snap("two", 3), ESTALE);
    here.does(o, "snapshot_add", &snap("two", 9));
    assert_eq!(here.call(o, "get_snapcontext", b""), Ok((9u64, vec![9u64, 4]).to_bytes()));
    let protect = |state: u8| (4u64, state).to_bytes();
    here.does(o, "set_protection_status", &protect(2));
    here.fails(o, "snapshot_remove", &id(4), EBUSY);
    here.does(o, "set_protection_status", &protect(0));
    here.does(o, "snapshot_remove", &id(4));
    here.fails(o, "snapshot_remove", &id(4), ENOENT);
    assert_eq!(here.call(o, "get_snapcontext", b""), Ok((9u64, vec![9u64]).to_bytes()));
    here.does(o, "snapshot_set_limit", &id(1));
    here.fails(o, "snapshot_add", &snap("three", 10), 122);
    here.fails(o, "snapshot_set_limit", &id(0), ERANGE);
}

#[test]
fn a_snapshot_with_clones_stays_and_the_image_remembers() {
    let here = Here::new();
    let o = "header";
    here.image(o);
    here.does(o, "snapshot_add", &snap("s", 2));
    let child = encoded(|w| {
        w.u64(2);
        w.versioned(2, 1, |w| {
            w.i64(1);
            w.put("child");
            w.put("");
        });
    });
    here.does(o, "child_attach", &child);
    here.fails(o, "child_attach", &child, EEXIST);
    here.fails(o, "snapshot_remove", &id(2), EBUSY);
    assert_eq!(here.call(o, "op_features_get", b""), Ok(id(1)));
    here.does(o, "child_detach", &child);
    assert_eq!(here.call(o, "op_features_get", b""), Ok(id(0)));
    here.does(o, "snapshot_remove", &id(2));
}

#[test]
fn features_that_must_not_change_do_not() {
    let here = Here::new();
    let o = "header";
    here.image(o);
    let features = |features: u64, mask: u64| (features, mask).to_bytes();
    here.does(o, "set_features", &features(0, 16)); // fast-diff off
    here.fails(o, "set_features", &features(2, 2), EINVAL); // striping on
    here.does(o, "set_features", &features(0, 32)); // deep-flatten off
    here.fails(o, "set_features", &features(32, 32), EINVAL); // and on again
    here.fails(o, "set_features", &features(256, 256), EINVAL); // an internal one
    assert_eq!(here.call(o, "get_features", &id(u64::MAX)), Ok((13u64, 13u64).to_bytes()));
}

/// Names may contain any bytes, as on an OSD of 16.2.15: `rbd create $'a\\xff'`, and a snapshot and a
/// removal to the trash.
#[test]
fn names_are_any_bytes() {
    let here = Here::new();
    let (directory, header, trash) = ("rbd_directory", "rbd_header.1", "rbd_trash");
    let bytes = |name: &'static [u8]| Bytes::from_static(name);
    let two = (bytes(b"a\xff"), bytes(b"1")).to_bytes();
    here.does(directory, "dir_add_image", &two);
    here.fails(directory, "dir_add_image", &two, EEXIST);
    assert_eq!(here.call(directory, "dir_get_id", &bytes(b"a\xff").to_bytes()), Ok("1".to_bytes()));
    assert_eq!(here.call(directory, "dir_get_name", &"1".to_bytes()), Ok(bytes(b"a\xff").to_bytes()));
    here.fails(directory, "dir_get_id", &bytes(b"\xfe").to_bytes(), ENOENT);
    here.fails(directory, "dir_get_name", &bytes(b"\xfe").to_bytes(), ENOENT);
    let rename = encoded(|w| [b"a\xff".as_slice(), b"\xfe", b"1"].iter().for_each(|name| w.blob(name)));
    here.does(directory, "dir_rename_image", &rename);
    let list = encoded(|w| {
        w.blob(b"");
        w.u64(9);
    });
    let listed = here.call(directory, "dir_list", &list).expect("listed");
    let listed: BTreeMap<Bytes, Bytes> = loligo_wire::Reader::new(&listed).get().expect("names");
    assert_eq!(listed.into_keys().collect::<Vec<_>>(), [bytes(b"\xfe")]);
    here.does(directory, "dir_remove_image", &(bytes(b"\xfe"), bytes(b"1")).to_bytes());
    here.does("rbd_namespace", "namespace_add", &bytes(b"n\xff").to_bytes());
    here.does("rbd_namespace", "namespace_remove", &bytes(b"n\xff").to_bytes());
    here.image(header);
    let snap = |name: &[u8], id: u64| {
        encoded(|w| {
            w.blob(name);
            w.u64(id);
        })
    };
    here.does(header, "snapshot_add", &snap(b"s\xff", 4));
    here.fails(header, "snapshot_add", &snap(b"s\xff", 5), EEXIST);
    here.does(header, "snapshot_add", &snap(b"s\xfe", 5));
    assert_eq!(here.call(header, "get_snapshot_name", &id(4)), Ok(bytes(b"s\xff").to_bytes()));
    let entry = encoded(|w| {
        w.put("1");
        w.versioned(2, 1, |w| {
            w.u8(0);
            w.blob(b"a\xff");
            w.u64(0);
            w.u64(0);
            w.u8(0);
        });
    });
    here.does(trash, "trash_add", &entry);
    assert_eq!(
        here.call(trash, "trash_get", &"1".to_bytes()).map(|entry| entry.ends_with(&[0; 17])),
        Ok(true)
    );
}

#[test]
fn directories_map_names_to_ids_and_back() {
    let here = Here::new();
    let o = "rbd_directory";
    let two = |a: &str, b: &str| (a.to_owned(), b.to_owned()).to_bytes();
    here.does(o, "dir_add_image", &two("a", "1"));
    here.fails(o, "dir_add_image", &two("a", "2"), EEXIST);
    here.fails(o, "dir_add_image", &two("b", "1"), EBADF);
    here.fails(o, "dir_add_image", &two("b", "no/id"), EINVAL);
    let rename = encoded(|w| ["a", "b", "1"].iter().for_each(|text| w.put(*text)));
    here.does(o, "dir_rename_image", &rename);
    here.fails(o, "dir_rename_image", &rename, ENOENT);
    assert_eq!(here.call(o, "dir_get_id", &"b".to_bytes()), Ok("1".to_bytes()));
    assert_eq!(here.call(o, "dir_get_name", &"1".to_bytes()), Ok("b".to_bytes()));
    here.fails(o, "dir_remove_image", &two("b", "2"), ENOENT);
    here.does(o, "dir_remove_image", &two("b", "1"));
    assert!(here.pool.omap_keys(o, "", 10).expect("read").keys.is_empty());
    for n in 0..200 {
        here.does(o, "dir_add_image", &two(&format!("image{n:03}"), &format!("{n:x}")));
    }
    let list = |after: &str, max: u64| {
        let input = encoded(|w| {
            w.put(after);
            w.u64(max);
        });
        let found = here.call(o, "dir_list", &input).expect("listed");
        let found: BTreeMap<String, String> = loligo_wire::Reader::new(&found).get().expect("names");
        (found.len(), found.into_keys().next())
    };
    assert_eq!(list("", 1000), (200, Some("image000".into())));
    assert_eq!(list("image150", 10), (10, Some("image151".into())));
}

#[test]
fn object_maps_change_in_place_and_keep_their_checksums() {
    let here = Here::new();
    let o = "rbd_object_map.1";
    // More than one block of entries: 40,000 take 10,000 bytes.
    here.does(o, "object_map_resize", &(40_000u64, 0u8).to_bytes());
    let update = |from: u64, to: u64, state: u8, only: Option<u8>| {
        encoded(|w| {
            w.u64(from);
            w.u64(to);
            w.u8(state);
            w.put(&only);
        })
    };
    here.does(o, "object_map_update", &update(16_380, 16_390, 1, None));
    here.does(o, "object_map_update", &update(39_999, 40_000, 1, Some(0)));
    here.fails(o, "object_map_update", &update(39_999, 40_001, 1, None), ERANGE);
    here.does(o, "object_map_snap_add", b"");
    // An update that expects the state "exists" also matches "exists and is clean".
    here.does(o, "object_map_update", &update(16_380, 16_381, 2, Some(1)));
    let loaded = here.call(o, "object_map_load", b"").expect("its checksums hold");
    let entry = |n: usize| loaded[18 + n / 4] >> (6 - n % 4 * 2) & 3;
    assert_eq!([16_379, 16_380, 16_381, 16_389, 16_390, 39_999].map(entry), [0, 2, 3, 3, 0, 3]);
    here.fails(o, "object_map_resize", &(39_999u64, 0u8).to_bytes(), ESTALE);
    // Grown from the middle of a byte, with a state of its own, and truncated again.
    let resize = |count: u64, state: u8| (count, state).to_bytes();
    here.does("small", "object_map_resize", &resize(5, 1));
    here.does("small", "object_map_resize", &resize(10, 2));
    let loaded = here.call("small", "object_map_load", b"").expect("its checksums hold");
    assert_eq!(loaded[18..21], [0b0101_0101, 0b0110_1010, 0b1010_0000]);
    here.does("small", "object_map_resize", &resize(6, 2));
    let loaded = here.call("small", "object_map_load", b"").expect("its checksums hold");
    assert_eq!((loaded[18], loaded[19] >> 4), (0b0101_0101, 0b0110));
    let stored = here.pool.read(o, 20, 1).expect("read");
    here.pool.write(o, 20, Bytes::from(vec![stored[0] ^ 1])).expect("written");
    here.fails(o, "object_map_load", b"", EINVAL);
}

#[test]
fn copyup_writes_only_what_is_not_there() {
    let here = Here::new();
    here.does("clone", "copyup", b"parent");
    here.does("clone", "copyup", b"other");
    assert_eq!(here.pool.read("clone", 0, 0).expect("read"), "parent");
    let input = encoded(|w| {
        w.put(&BTreeMap::from([(1u64, 2u64), (5, 1)]));
        w.blob(b"abc");
    });
    here.does("sparse", "sparse_copyup", &input);
    let many: BTreeMap<u64, u64> = (0..40_000).map(|n| (n, 0)).collect();
    let input = encoded(|w| {
        w.put(&many);
        w.blob(b"");
    });
    here.fails("many", "sparse_copyup", &input, EINVAL);
    assert_eq!(here.pool.read("sparse", 0, 0).expect("read"), &b"\0ab\0\0c"[..]);
    here.pool.write_full("zeros", Bytes::from(vec![0; 100])).expect("written");
    here.fails("zeros", "sparsify", &(0u64, true).to_bytes(), EINVAL);
    here.does("zeros", "sparsify", &(4096u64, true).to_bytes());
    assert!(here.pool.stat("zeros").is_err(), "an object of zeros goes");
}

#[test]
fn no_input_and_nothing_stored_makes_a_method_panic() {
    let here = Here::new();
    let methods = [
        "create",
        "set_size",
        "get_size",
        "set_features",
        "snapshot_add",
        "snapshot_remove",
        "snapshot_rename",
        "get_snapcontext",
        "snapshot_get",
        "child_attach",
        "children_list",
        "parent_get",
        "parent_attach",
        "parent_detach",
        "object_map_load",
        "object_map_save",
        "object_map_resize",
        "object_map_update",
        "object_map_snap_remove",
        "metadata_set",
        "metadata_list",
        "dir_list",
        "dir_add_image",
        "group_image_set",
        "group_image_list",
        "group_snap_set",
        "group_snap_list",
        "trash_add",
        "trash_list",
        "trash_state_set",
        "migration_set",
        "migration_get",
        "mirror_image_set",
        "sparse_copyup",
        "sparsify",
        "assert_snapc_seq",
        "namespace_list",
    ];
    let mut state = 1u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    for round in 0..3_000 {
        let oid = ["a", "b"][round % 2];
        if round % 40 < 2 {
            // Bytes that no method has stored.
            let bytes = |len: u64, below: u64, next: &mut dyn FnMut() -> u64| -> Bytes {
                (0..len).map(|_| (next() % below) as u8).collect::<Vec<u8>>().into()
            };
            let data = bytes(next() % 60, 20, &mut next);
            here.pool.write_full(oid, data).expect("written");
            let keys = [
                "size",
                "order",
                "snap_seq",
                "snapshot_0000000000000001",
                "parent",
                "features",
                "id_",
                "migration",
            ];
            let pairs: Vec<(&str, Bytes)> =
                keys.iter().map(|key| (*key, bytes(next() % 20, 3, &mut next))).collect();
            here.pool.set_omap(oid, pairs).expect("set");
        }
        let method = methods[next() as usize % methods.len()];
        let input: Vec<u8> = (0..next() % 40).map(|_| (next() % 5) as u8).collect();
        // The result does not matter: the server must survive.
        let _ = here.call(oid, method, &input);
    }
    here.image("header");
}

/// The header of an image of format 1, of 4 MiB.
fn old_header() -> OldHeader {
    OldHeader::new("rb.0.1.2", 22, 4 << 20).expect("a short prefix")
}

#[test]
fn snapshots_of_the_first_format() {
    let here = Here::new();
    here.pool.write_full("a.rbd", old_header().to_bytes()).expect("written");
    here.does("a.rbd", "snap_add", &snap("s", 4));
    here.fails("a.rbd", "snap_add", &snap("s", 5), EEXIST);
    here.fails("a.rbd", "snap_add", &snap("t", 3), ESTALE);
    here.fails("a.rbd", "snap_add", &snap("zero\0", 5), EINVAL);
    here.does("a.rbd", "snap_add", &snap("t", 4));
    here.fails("a.rbd", "snapshot_set_limit", &id(1), ERANGE);
    here.does("a.rbd", "snapshot_set_limit", &id(2));
    here.fails("a.rbd", "snap_add", &snap("u", 9), EDQUOT);
    let listed = here.call("a.rbd", "snap_list", b"").expect("a list");
    let wanted = encoded(|w| {
        w.u64(4);
        w.u32(2);
        for name in ["t", "s"] {
            w.u64(4);
            w.u64(4 << 20);
            w.put(name);
        }
    });
    assert_eq!(listed, wanted);
    let renamed = |id: u64, name: &str| {
        encoded(|w| {
            w.u64(id);
            w.put(name);
        })
    };
    here.fails("a.rbd", "snap_rename", &renamed(4, "s"), EEXIST);
    here.fails("a.rbd", "snap_rename", &renamed(5, "v"), ENOENT);
    here.does("a.rbd", "snap_rename", &renamed(4, "longer"));
    here.fails("a.rbd", "snap_remove", &"t".to_bytes(), ENOENT);
    here.does("a.rbd", "snap_remove", &"longer".to_bytes());
    let mut header = old_header();
    header.snap_seq = SnapId(4);
    header.snaps = vec![OldSnap { id: SnapId(4), size: 4 << 20, name: b"s".into() }];
    assert_eq!(here.pool.read("a.rbd", 0, 1000).expect("read"), header.to_bytes());
    here.fails("none", "snap_list", b"", ENOENT);
    here.fails("none", "snap_add", &snap("s", 1), EINVAL);
    here.pool.write_full("a.rbd", old_header().to_bytes().slice(..111)).expect("written");
    here.fails("a.rbd", "snap_list", b"", EINVAL);
}

/// Sends a request. Returns an errno, or the outputs of its operations.
fn ask(pool: &IoCtx, oid: &str, ops: &[OsdOp], writes: bool) -> String {
    let outputs = |answers: Vec<Answer>| answers.into_iter().map(|a| (a.result, a.data)).collect::<Vec<_>>();
    let run = async {
        let io = pool.asynchronous();
        if writes {
            let op = ops.iter().cloned().fold(WriteOp::new(), WriteOp::op);
            return io.operate(oid, op).await.map(|()| Vec::new());
        }
        let op = ops.iter().cloned().fold(ReadOp::new(), ReadOp::op);
        io.operate_read(oid, op).await.map(outputs)
    };
    match pool.runtime().block_on(run) {
        Ok(outputs) => format!("{outputs:?}"),
        Err(Error::Os(errno)) => format!("errno {}", errno.0),
        Err(other) => panic!("{other}"),
    }
}

/// Requests on maps in objects' bytes (TMAP). Excludes requests that make a stock OSD abort, which
/// release 16 does at TMAPPUT.
fn of_tmaps() -> Vec<(&'static str, OsdOp, bool)> {
    let op = |code, data: &[u8]| OsdOp::new(code).with_data(Bytes::copy_from_slice(data));
    let update = |steps: &[u8]| (OpCode::TMAPUP, steps.to_vec());
    let step = |step: u8, key: &str, value: Option<&str>| {
        encoded(|w| {
            w.u8(step);
            w.put(key);
            value.iter().for_each(|value| w.put(*value));
        })
    };
    let steps = [
        update(b""),
        update(&step(b's', "b", Some("2"))),
        update(&step(b's', "a", Some("1"))),
        update(&step(b'c', "a", Some("x"))),
        update(&step(b'c', "c", Some("3"))),
        update(&step(b'r', "none", None)),
        update(&step(b'R', "none", None)),
        update(&step(b'r', "b", None)),
        update(&step(b'x', "b", None)),
        update(&step(b's', "b", None)),
        update(b"s"),
        update(b"s\xff\xff\xff\xff"),
        update(&[step(b's', "z", Some("26")), step(b's', "y", Some("25"))].concat()),
        update(&[step(b's', "z", Some("0")), step(b'r', "y", None), step(b'h', "head", None)].concat()),
        update(&[step(b'h', "HEAD", None), step(b'R', "c", None)].concat()),
        update(&[step(b's', "q", Some("1")), step(b'h', "q", None)].concat()),
        update(&[step(b's', "q", Some("1")), step(b'r', "q", None)].concat()),
        update(&[step(b's', "q", Some("1")), step(b's', "q", Some("2"))].concat()),
        update(&[step(b's', "q", Some("1")), step(b'c', "p", Some("2"))].concat()),
        update(&step(b's', "m", Some("3"))),
    ];
    let mut all = Vec::new();
    for (code, data) in steps {
        all.push(("o", op(code, &data), true));
        all.push(("o", OsdOp::new(OpCode::TMAPGET), false));
    }
    all
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn tmaps_are_as_on_a_stock_cluster() {
    let here = Here::new();
    let stock = std::env::var("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    let rados = Rados::connect(Builder::new().conf_file(&stock)).expect("connects");
    let name = format!("tmap{}", std::process::id());
    let command = |prefix: &str, more: &str| {
        let command = format!(r#"{{"prefix": "{prefix}", "pool": "{name}" {more}}}"#);
        rados.mon_command(&command, Bytes::new()).expect("a command");
    };
    command("osd pool create", r#", "pg_num": 1"#);
    let theirs = rados.ioctx(&name).expect("the pool");
    for (number, (oid, op, writes)) in of_tmaps().into_iter().enumerate() {
        let [ours, theirs] =
            [&here.pool, &theirs].map(|pool| ask(pool, oid, std::slice::from_ref(&op), writes));
        assert_eq!(ours, theirs, "number {number}: {op:?} on {oid}");
    }
    command("osd pool delete", &format!(r#", "pool2": "{name}", "yes_i_really_really_mean_it": true"#));
}

#[test]
fn what_a_stock_osd_aborts_at_is_refused() {
    let here = Here::new();
    let bad = Bytes::from_static(b"\0\0\0\0\x01\0\0\0\xff");
    let (put, set) = (OsdOp::new(OpCode::TMAPPUT), OsdOp::new(OpCode::TMAPUP));
    assert_eq!(ask(&here.pool, "o", &[put.with_data(bad.clone())], true), "errno 22");
    here.pool.write_full("o", bad).expect("written");
    let step = set.with_data(Bytes::from_static(b"s\x01\0\0\0a\0\0\0\0"));
    assert_eq!(ask(&here.pool, "o", &[step], true), "errno 22");
}

#[test]
fn a_map_that_is_put_is_put_in_order() {
    let here = Here::new();
    let map = |pairs: &[(&str, &str)]| {
        encoded(|w| {
            w.put("header");
            w.count(pairs.len());
            pairs.iter().for_each(|(key, value)| {
                w.put(*key);
                w.put(*value);
            });
        })
    };
    let put = OsdOp::new(OpCode::TMAPPUT).with_data(map(&[("l", "1"), ("k", "2")]).into());
    assert_eq!(ask(&here.pool, "o", &[put], true), "[]");
    assert_eq!(here.pool.read("o", 0, 1000).expect("read"), map(&[("k", "2"), ("l", "1")]));
    let to_omap = |oid, flags| ask(&here.pool, oid, &[OsdOp::tmap_to_omap(flags)], true);
    assert_eq!(to_omap("o", 0), "[]");
    assert!(here.pool.read("o", 0, 1000).expect("read").is_empty());
    assert_eq!(here.pool.omap_header("o").expect("a header"), "header");
    let values = ask(&here.pool, "o", &[OsdOp::omap_values(b"", 9, b"k")], false);
    assert!(values.contains(r"k\x01\0\0\02"), "{values}");
    // An object that has no map any more, and one that does not exist.
    assert_eq!((to_omap("o", 0), to_omap("none", 0)), ("errno 61".into(), "errno 61".into()));
    assert_eq!((to_omap("o", 1), to_omap("none", 1)), ("[]".into(), "[]".into()));
}
