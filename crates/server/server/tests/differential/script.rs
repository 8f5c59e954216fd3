//! Random requests, in the format of `execute.py`.

use serde_json::{Value, json};

use crate::rng::Rng;

/// The maximum size of an object in a stock OSD (`osd_max_object_size`).
const OBJECT_BYTES_MAX: u64 = 128 << 20;

/// `LIBRADOS_OP_FLAG_*` and `LIBRADOS_OPERATION_*`.
const FAILOK: u64 = 2;
const FADVISE_DONTNEED: u64 = 0x20;
const RETURNVEC: u64 = 1024;

/// A request that librados' C interface lacks. Most requests are common ones, so that the others have
/// data to work on.
pub(crate) fn native_step(rng: &mut Rng, number: u64) -> Value {
    if rng.once_in(2) {
        return step(rng, number);
    }
    let (ns, key) = place(rng);
    if rng.once_in(12) {
        let op = match rng.below(2) {
            0 => json!(["watchers", 0, 1 + rng.below(3)]),
            _ => json!(["cursors", 0, rng.below(4)]),
        };
        return single(rng, json!([op]), ns, key);
    }
    if rng.once_in(6) {
        // Alone: a stock OSD crashes if a copy request has further operations.
        let version = if rng.once_in(4) { rng.below(400) } else { 0 };
        let ops = json!([["copy_from", 0, oid(rng), version]]);
        return json!({"kind": "write", "oid": oid(rng), "ns": ns, "key": key, "flags": 0, "mtime": 1_000_000 + number, "ops": ops});
    }
    let (kind, ops) = if rng.once_in(3) {
        let count = 1 + rng.below(2);
        ("write", (0..count).map(|_| native_write_op(rng)).collect::<Vec<_>>())
    } else {
        let count = 1 + rng.below(3);
        ("read", (0..count).map(|_| native_read_op(rng)).collect())
    };
    json!({"kind": kind, "oid": oid(rng), "ns": ns, "key": key, "flags": 0, "mtime": 1_000_000 + number, "ops": ops})
}

fn native_write_op(rng: &mut Rng) -> Value {
    if rng.once_in(2) { json!(["omap_set_header", 0, hex(rng, 9)]) } else { write_op(rng) }
}

fn native_read_op(rng: &mut Rng) -> Value {
    match rng.below(8) {
        0..=2 => {
            let (offset, len) = (number(rng), number(rng));
            // A stock store in memory takes a length of 0 at offset 0 as "all"; one on disk as "none".
            let len = if offset == 0 { len.max(1) } else { len.min(u64::MAX - offset) };
            json!(["sparse_read", 0, offset, len])
        }
        3 => json!(["omap_header", 0]),
        4 => json!(["list_watchers", 0]),
        5 | 6 => {
            let chunk = rng.pick(&[0, 4, 4, 7]);
            json!(["checksum", 0, rng.below(3), rng.below(1 << 32), small(rng), chunk * rng.below(9), chunk])
        }
        _ => read_op(rng),
    }
}

/// One request.
pub(crate) fn step(rng: &mut Rng, number: u64) -> Value {
    if number % 97 == 96 {
        let ns = rng.pick(&["", "*", "ns"]);
        return single(rng, json!([["list", 0]]), ns, "");
    }
    if rng.once_in(60) {
        return at_the_limit(rng, number);
    }
    if rng.once_in(16) {
        let op = snapshot_op(rng);
        let (ns, key) = place(rng);
        return single(rng, json!([op]), ns, key);
    }
    if rng.once_in(6) {
        let op = single_op(rng);
        let (ns, key) = place(rng);
        return single(rng, json!([op]), ns, key);
    }
    let writes = rng.below(5) < 3;
    let count = if rng.once_in(2) { 1 } else { 1 + rng.below(5) };
    let mut ops: Vec<Value> = (0..count).map(|_| if writes { write_op(rng) } else { read_op(rng) }).collect();
    forget_second_removals(&mut ops);
    for op in &mut ops {
        if rng.once_in(20) {
            op[1] = json!(FAILOK);
        } else if rng.once_in(30) {
            op[1] = json!(FADVISE_DONTNEED);
        }
    }
    let flags = if writes && rng.once_in(3) { RETURNVEC } else { 0 };
    let (ns, key) = place(rng);
    let kind = if writes { "write" } else { "read" };
    json!({"kind": kind, "oid": oid(rng), "ns": ns, "key": key, "flags": flags, "mtime": 1_000_000 + number, "ops": ops})
}

/// A request to a pool with pool snapshots. The client still sends its snapshot context, which the OSD
/// ignores once the pool has a snapshot.
pub(crate) fn pool_step(rng: &mut Rng, number: u64) -> Value {
    let mut step = step(rng, number);
    if step["ops"][0][0] == "snap_create" {
        step["ops"][0][0] = json!("snap_create_pool");
    }
    step
}

/// If a request removes an object, creates it again and removes it again, a stock OSD loses the first
/// removal and leaves the object's data under a contradicting head. Such requests are not comparable.
fn forget_second_removals(ops: &mut Vec<Value>) {
    let mut removals = 0;
    ops.retain(|op| {
        removals += u32::from(op[0] == "remove");
        op[0] != "remove" || removals == 1
    });
}

fn single(rng: &mut Rng, ops: Value, ns: &str, key: &str) -> Value {
    json!({"kind": "single", "oid": oid(rng), "ns": ns, "key": key, "flags": 0, "mtime": 0, "ops": ops})
}

/// Few objects, so that most requests find one; occasionally an invalid name.
fn oid(rng: &mut Rng) -> String {
    match rng.below(60) {
        0 => String::new(),
        1 => "n".repeat(3000),
        2 => "ümläut \"quoted\" %2f".into(),
        n => format!("object {}", n % 5),
    }
}

fn place(rng: &mut Rng) -> (&'static str, &'static str) {
    match rng.below(20) {
        0 => ("ns", ""),
        1 => ("", "a key"),
        2 => ("ns", "object 1"),
        _ => ("", ""),
    }
}

/// Requests around the maximum sizes of objects and requests, on a separate object that stays small on
/// average: a stock store in memory does not have holes.
fn at_the_limit(rng: &mut Rng, number: u64) -> Value {
    let near = |rng: &mut Rng| {
        let offset = OBJECT_BYTES_MAX - 2 + rng.below(4);
        rng.pick(&[offset, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX])
    };
    let op = match rng.below(9) {
        0 => json!(["write", 0, near(rng), ""]),
        1 => json!(["write", 0, near(rng), [7, 3]]),
        2 => json!(["zero", 0, near(rng), 1 + near(rng) % (1 << 60)]),
        3 => json!(["zero", 0, rng.below(9), near(rng).max(1)]),
        4 => json!(["writesame", 0, near(rng), 6, [1, 3]]),
        5 => json!(["writesame", 0, rng.below(3), (1 << 28) + rng.below(2), [1, 1 << 20]]),
        6 => json!(["truncate", 0, near(rng).max(OBJECT_BYTES_MAX)]),
        7 if rng.once_in(6) => json!(["write_full", 0, [1, (90 << 20) + rng.below(3)]]),
        7 => json!(["truncate", 0, OBJECT_BYTES_MAX - 1]),
        _ => json!(["remove", 0]),
    };
    json!({"kind": "write", "oid": "large", "ns": "", "key": "", "flags": 0, "mtime": number, "ops": [op, ["truncate", 0, 5]]})
}

/// Bytes in hex, of few values, so that comparisons succeed sometimes.
fn hex(rng: &mut Rng, len_max: u64) -> String {
    let len = rng.below(len_max + 1);
    (0..len).map(|_| rng.pick(&["00", "61", "62", "7f", "80", "ff"])).collect()
}

fn data(rng: &mut Rng) -> Value {
    match rng.below(12) {
        0 => json!(""),
        1 => json!([rng.below(256), rng.below(70_000)]),
        2 => json!([0, 4096]),
        _ => json!(hex(rng, 40)),
    }
}

/// An offset or a length: mostly small, sometimes at a border, rarely absurd.
fn number(rng: &mut Rng) -> u64 {
    match rng.below(40) {
        0 => rng.pick(&[OBJECT_BYTES_MAX, 1 << 32, 1 << 62, 1 << 63, u64::MAX]),
        1 => rng.below(200_000),
        2..=8 => 4096 * rng.below(3),
        _ => rng.below(60),
    }
}

/// An offset or a length that is small enough for a store in memory.
fn small(rng: &mut Rng) -> u64 {
    if rng.once_in(12) { rng.below(200_000) } else { rng.below(60) }
}

fn name(rng: &mut Rng) -> String {
    match rng.below(40) {
        0 => "n".repeat(rng.pick(&[100, 101, 255, 256, 300])),
        n => ["a", "b", "c", "number", "_", "ü"][n as usize % 6].into(),
    }
}

/// An attribute's value; some are numbers.
fn value(rng: &mut Rng) -> String {
    match rng.below(4) {
        0 => {
            rng.pick(&["3130", "31", "2d31", "3178", "3939393939393939393939393939393939393939393939"]).into()
        }
        _ => hex(rng, 6),
    }
}

fn key(rng: &mut Rng) -> String {
    rng.pick(&["", "61", "62", "6262", "6361", "00", "ff", "7aff"]).into()
}

fn keys(rng: &mut Rng) -> Vec<String> {
    (0..rng.below(5)).map(|_| key(rng)).collect()
}

fn common_op(rng: &mut Rng) -> Value {
    match rng.below(5) {
        0 => json!(["assert_exists", 0]),
        1 => json!(["assert_version", 0, if rng.once_in(4) { 0 } else { rng.below(400) }]),
        2 => json!(["cmpext", 0, number(rng), hex(rng, 3)]),
        3 => json!(["cmpxattr", 0, name(rng), rng.below(8), value(rng)]),
        _ => json!(["omap_cmp", 0, key(rng), rng.below(8), hex(rng, 2)]),
    }
}

fn write_op(rng: &mut Rng) -> Value {
    match rng.below(28) {
        0..=3 => {
            // An empty write behind the end makes a stock OSD store a wrong checksum, and lose the
            // object at the next read.
            let (offset, data) = (small(rng), data(rng));
            json!(["write", 0, if data == "" { 0 } else { offset }, data])
        }
        4 => json!(["write", 0, rng.pick(&[OBJECT_BYTES_MAX, 1 << 40, u64::MAX - 3]), data(rng)]),
        5 | 6 => json!(["write_full", 0, data(rng)]),
        7 | 8 => json!(["append", 0, data(rng)]),
        9 => json!(["truncate", 0, small(rng)]),
        10 | 11 => json!(["zero", 0, number(rng), number(rng).max(1)]), // A length of 0 makes a stock OSD abort.
        12 => json!(["writesame", 0, small(rng), 4 * rng.below(9), hex(rng, 4)]),
        13 | 14 => json!(["create", 0, rng.below(2)]),
        15 | 16 => json!(["remove", 0]),
        17 | 18 => json!(["setxattr", 0, name(rng), value(rng)]),
        19 => json!(["rmxattr", 0, name(rng)]),
        20 | 21 => {
            let keys = keys(rng);
            let values: Vec<String> = keys.iter().map(|_| hex(rng, 2)).collect();
            json!(["omap_set", 0, keys, values])
        }
        22 => json!(["omap_rm_keys", 0, keys(rng)]),
        23 => {
            // A range that ends before it begins corrupts the memory of a stock OSD with memstore.
            let (one, other) = (key(rng), key(rng));
            json!(["omap_rm_range", 0, one.clone().min(other.clone()), one.max(other)])
        }
        24 => json!(["omap_clear", 0]),
        25 => json!(["set_alloc_hint", 0, rng.below(1 << 22), rng.below(1 << 22)]),
        _ => common_op(rng),
    }
}

fn read_op(rng: &mut Rng) -> Value {
    match rng.below(14) {
        0..=3 => {
            // An overflow of the sum makes a stock OSD read foreign memory. librados uses only the lower
            // 32 bits of a length, which must not be negative.
            let (offset, len) = (number(rng), number(rng));
            json!(["read", 0, offset, len.min((u64::MAX - offset) & !u64::from(u32::MAX))])
        }
        4 | 5 => json!(["stat", 0]),
        6 => json!(["getxattrs", 0]),
        7 | 8 => json!(["omap_vals", 0, key(rng), key(rng), rng.pick(&[0, 1, 2, 10, u64::MAX])]),
        9 => json!(["omap_keys", 0, key(rng), rng.pick(&[0, 1, 2, 10, u64::MAX])]),
        10 => json!(["omap_by_keys", 0, keys(rng)]),
        _ => common_op(rng),
    }
}

/// Self-managed snapshots, numbered in the order of their creation; some numbers may not exist. No
/// snapshot is removed: trimming consumes versions, and a stock cluster trims at any time.
fn snapshot_op(rng: &mut Rng) -> Value {
    let snap = rng.below(6);
    match rng.below(24) {
        0 => json!(["snap_create", 0]),
        1..=5 => json!(["snap_rollback", 0, snap]),
        6..=9 => json!(["snap_context", 0, (0..rng.below(4)).map(|_| rng.below(6)).collect::<Vec<_>>()]),
        10..=16 => json!(["snap_read", 0, snap, number(rng) % 5000, rng.below(9000)]),
        17..=19 => json!(["snap_stat", 0, snap]),
        _ => json!(["snap_directory", 0]),
    }
}

fn single_op(rng: &mut Rng) -> Value {
    match rng.below(10) {
        0 => json!(["read", 0, number(rng), rng.below(100_000)]),
        1 | 2 => json!(["getxattr", 0, name(rng)]),
        3 | 4 => json!(["stat", 0]),
        5 => json!(["remove", 0]),
        6 => json!(["truncate", 0, small(rng)]),
        7 => json!(["cmpext", 0, small(rng), hex(rng, 5)]),
        8 => json!(["writesame", 0, small(rng), 3 * rng.below(5), hex(rng, 3)]),
        _ => json!([rng.pick(&["append", "write_full"]), 0, data(rng)]),
    }
}
