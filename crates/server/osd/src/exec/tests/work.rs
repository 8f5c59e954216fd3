//! Goal: the work of a request is counted, whatever its operations are: small changes, operations whose
//! cost depends on the stored content, methods and listings. Method: requests of many kinds, with the
//! minimum work each must count.

use loligo_wire::Errno;

use super::classes::filtered;
use super::*;

const EMSGSIZE: i32 = Errno::EMSGSIZE.to_result();

fn many(count: u64, op: impl Fn(u64) -> OsdOp) -> Ops {
    (0..count).map(op).collect()
}

fn pairs(count: u32, value: &[u8]) -> Bytes {
    let mut w = Writer::new();
    w.u32(count);
    for number in 0..count {
        w.blob(&number.to_be_bytes());
        w.blob(value);
    }
    w.into_bytes()
}

/// An OMAP_CMP of this many missing keys, with values of 1 KiB that are larger.
fn compared(count: u32) -> OsdOp {
    let mut w = Writer::new();
    w.u32(count);
    for number in 0..count {
        w.blob(&number.to_be_bytes());
        w.blob(&[b'v'; 1024]);
        w.u32(CmpOp::Lt.code().into());
    }
    OsdOp::new(OpCode::OMAP_CMP).with_data(w.into_bytes())
}

/// The work counted for a request that succeeds.
fn work(g: &mut Group, name: &str, ops: Ops) -> u64 {
    let reply = g.ask(name, ops);
    assert_eq!(reply.result, 0, "{name}");
    g.work
}

#[test]
fn small_changes_count_by_their_number() {
    const CHANGES: u64 = 5000;
    let mut g = roomy();
    assert_eq!(g.result("o", OsdOp::write_full(vec![1; 1 << 20].into())), 0);
    let byte = || Bytes::from_static(b"x");
    // From the end to the beginning, none adjacent to another.
    let at = |number: u64| 3 * (CHANGES - number);
    for ops in [
        many(CHANGES, |number| OsdOp::zero(at(number), 1)),
        many(CHANGES, |number| OsdOp::write(at(number), byte())),
        many(CHANGES, |number| OsdOp::truncate(1 + at(number))),
        many(CHANGES, |_| OsdOp::append(byte())),
        many(CHANGES, |_| OsdOp::create(false)),
        many(CHANGES, |_| OsdOp::new(OpCode::OMAPSETHEADER)),
    ] {
        let code = ops[0].code;
        assert!(work(&mut g, "o", ops) >= CHANGES << 10, "{code:?}");
    }
}

#[test]
fn what_comes_along_counts_before_it_is_unpacked() {
    let mut g = roomy();
    let data = || Bytes::from(vec![7; 1 << 20]);
    for op in [OsdOp::write(0, data()), OsdOp::append(data()), OsdOp::write_full(data())] {
        let code = op.code;
        assert!(work(&mut g, "o", smallvec![op]) >= 1 << 20, "{code:?}");
    }
    assert!(work(&mut g, "o", smallvec![OsdOp::new(OpCode::OMAPSETHEADER).with_data(data())]) >= 1 << 20);
    assert!(work(&mut g, "o", smallvec![xattr(OpCode::SETXATTR, "a", &data())]) >= 1 << 20);
    assert!(work(&mut g, "o", smallvec![compared(1 << 10)]) >= 4 << 20);
    let input = vec![b'i'; 1 << 20];
    g.ask("o", smallvec![OsdOp::call("hello", "say_hello", &input)]);
    assert!(g.work >= 1 << 20, "the input of a method");
    let calls = many(1000, |_| OsdOp::call("hello", "say_hello", b""));
    assert!(work(&mut g, "o", calls) >= 1000 << 10);
}

#[test]
fn what_was_there_counts_when_it_goes_or_is_kept_for_a_snapshot() {
    let mut g = roomy();
    let set = || OsdOp::new(OpCode::OMAPSETVALS).with_data(pairs(1 << 10, &[b'v'; 4096]));
    let mut range = Writer::new();
    range.blob(b"");
    range.blob(b"\xff");
    let range = OsdOp::new(OpCode::OMAPRMKEYRANGE).with_data(range.into_bytes());
    for op in [OsdOp::new(OpCode::OMAPCLEAR), range, OsdOp::new(OpCode::DELETE)] {
        let code = op.code;
        assert_eq!(g.result("o", set()), 0);
        assert!(work(&mut g, "o", smallvec![op]) >= 1 << 20, "{code:?}");
    }
    assert_eq!(g.result("o", set()), 0);
    let mut op = g.op("o", smallvec![OsdOp::write(0, Bytes::from_static(b"x"))]);
    (op.snap_seq, op.snaps) = (SnapId(5), vec![SnapId(5)]);
    assert_eq!(g.ask_op(op).result, 0);
    assert!(g.work >= 4 << 20, "the clone has the map, too");
}

/// A rollback that deletes its object may turn out to be heavy.
#[test]
fn a_request_that_is_executed_again_has_changed_nothing_before() {
    let mut g = roomy();
    let snapc = || SnapContext { seq: SnapId(5), snaps: vec![SnapId(5)] };
    let set = OsdOp::new(OpCode::OMAPSETVALS).with_data(pairs(1 << 12, &[b'v'; 1024]));
    let mut op = g.op("o", smallvec![OsdOp::write_full(Bytes::from_static(b"old")), set]);
    (op.snap_seq, op.snaps) = (SnapId(5), vec![SnapId(5)]);
    assert_eq!(g.ask_op(op).result, 0);
    // Less than a heavy request's work without the removal, and more with it. The object is younger than the
    // snapshot.
    let data = Bytes::from(vec![1; 23 << 19]);
    let ops =
        smallvec![OsdOp::append(data), OsdOp::rollback(SnapId(5)), OsdOp::append(Bytes::from_static(b"y"))];
    let mut op = g.op("o", ops);
    let mut context = Context {
        writes: true,
        snapc: snapc(),
        budget: Budget::light(),
        ..Context::plain(4100, Tid(99), Epoch(3), PoolId(1), 1)
    };
    let done = execute(&context, &mut op, &*g.collection, &mut g.state, &g.counters);
    assert!(matches!(done, Executed::Waits));
    assert_eq!(g.contents("o"), b"old");
    context.budget = Budget::default();
    context.fetches = Fetches::default();
    let done = execute(&context, &mut op, &*g.collection, &mut g.state, &g.counters);
    assert!(matches!(done, Executed::Answer(..)));
    assert_eq!(g.contents("o"), b"y");
}

#[test]
fn attributes_cost_more_the_more_there_are() {
    let mut g = roomy();
    let set = |number: u64| xattr(OpCode::SETXATTR, &format!("{:05}", 99_999 - number), b"v");
    assert!(work(&mut g, "o", many(100, set)) < 1 << 20);
    assert!(work(&mut g, "o", many(2000, set)) >= 32 << 20);
    assert_eq!(g.ask("o", many(20_000, set)).result, EMSGSIZE);
}

/// A filtered listing that has examined many bytes ends early and continues in the next request.
#[test]
fn a_filter_that_looks_at_much_gives_a_part_of_a_page() {
    const OBJECTS: usize = 24;
    let mut g = roomy();
    let value = vec![b'v'; 1 << 20];
    for number in 0..OBJECTS {
        assert_eq!(g.result(&format!("o{number}"), xattr(OpCode::SETXATTR, "mark", &value)), 0);
    }
    // Less than all values together.
    g.limits.work_bytes = 16 << 20;
    let (mut cursor, mut pages, mut found) = (HObject::min(), 0, Vec::new());
    loop {
        let reply = g.ask("", smallvec![filtered(b"plain", &value, &cursor)]);
        assert!(reply.result >= 0, "{}", reply.result);
        assert!(g.work <= 10 << 20, "{} for one page", g.work);
        let page = PgNlsResponse::from_bytes(&reply.outs[0].data).expect("a page");
        found.extend(page.entries.into_iter().map(|entry| entry.oid));
        (cursor, pages) = (page.handle, pages + 1);
        if reply.result == 1 {
            break;
        }
    }
    found.sort();
    found.dedup();
    assert_eq!((found.len(), pages), (OBJECTS, OBJECTS / 4));
}
