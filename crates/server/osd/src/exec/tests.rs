//! Requests against a memory store: the results of each operation are those of a stock OSD, and random
//! sequences are compared with a plain byte vector.

use std::sync::Arc;

use bytes::Bytes;
use loligo_store::memory::MemoryStore;
use loligo_store::{CommitListener, ObjectStore, StoreError};
use loligo_wire::crc::crc32c_of;
use loligo_wire::message::osd::{
    ChecksumArgs, CmpOp, Extent, HObject, ListObject, ObjectLocator, ObjectSnaps, OpCode, OpFlags, Ops,
    OsdOp, OsdReply, PgNlsResponse, WatchArgs, XattrArgs,
};
use loligo_wire::{Decode, Encode, Incarnation, PgId, PoolId, Reader, SnapSet, UTime, Writer};
use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::dups::Dups;

mod classes;
mod work;

struct Deaf;

impl CommitListener for Deaf {
    fn committed(&self, _: Eversion) {}
    fn stopped(&self, _: &StoreError) {}
}

/// One placement group, used without a network.
struct Group {
    collection: Arc<dyn Collection>,
    state: PgState,
    counters: Counters,
    tid: u64,
    room: Room,
    limits: Limits,
    /// The checksum of the last reply.
    data_crc: Option<u32>,
    /// The work counted for the last request.
    work: u64,
}

impl Group {
    fn new(capacity_bytes: u64) -> Self {
        let store = MemoryStore::new(capacity_bytes);
        let pg = PgId { pool: PoolId(1), seed: 0 };
        let collection = store.open(pg, Arc::new(Deaf)).expect("a memory store opens");
        let state = PgState::new(Eversion::default(), Dups::default(), Arc::default());
        let (counters, limits) = Default::default();
        Self { collection, state, counters, tid: 0, room: Room::There, limits, data_crc: None, work: 0 }
    }

    fn ask(&mut self, name: &str, ops: Ops) -> OsdReply {
        self.tid += 1;
        self.ask_op(self.op(name, ops))
    }

    fn op(&self, name: &str, ops: Ops) -> MOSDOp {
        let locator = ObjectLocator::in_pool(PoolId(1));
        let mut op = MOSDOp::new(locator, name.into(), ops, OsdFlags::ONDISK);
        op.hash = name.bytes().fold(17, |h: u32, b| h.wrapping_mul(31) ^ u32::from(b));
        op.mtime = UTime { sec: 77, nsec: 5 };
        op
    }

    fn ask_op(&mut self, mut op: MOSDOp) -> OsdReply {
        let needs = Needs::of(&op).expect("classes that there are");
        let context = Context {
            writes: needs.writes(),
            snapc: SnapContext { seq: op.snap_seq, snaps: op.snaps.clone() },
            room: self.room,
            limits: self.limits,
            data_crc: Some(crc32c_of(op.ops.iter().map(|op| &op.data[..]))),
            data_len: op.ops.iter().map(|op| op.data.len()).sum(),
            ..Context::plain(4100, Tid(self.tid), Epoch(3), PoolId(1), 1)
        };
        let msg = execute(&context, &mut op, &*self.collection, &mut self.state, &self.counters);
        let Executed::Answer(msg, ..) = msg else { panic!("no answer") };
        self.work = context.budget.work();
        assert_eq!(msg.header.tid, Tid(self.tid));
        // Joined into one buffer, as the network delivers it.
        let data: Vec<u8> = msg.data.concat();
        self.data_crc = msg.data_crc;
        assert!(msg.data_crc.is_none_or(|crc| crc == crc32c_of([&data[..]])), "a wrong checksum");
        let msg = Msg { data: smallvec![Bytes::from(data)], ..msg };
        OsdReply::open(&msg).expect("a reply that decodes")
    }

    fn result(&mut self, name: &str, op: OsdOp) -> i32 {
        self.ask(name, smallvec![op]).result
    }

    fn contents(&mut self, name: &str) -> Vec<u8> {
        let reply = self.ask(name, smallvec![OsdOp::read(0, 0)]);
        assert_eq!(reply.result, 0);
        reply.outs[0].data.to_vec()
    }

    fn list(&mut self, cursor: &HObject, count: u64) -> (i32, PgNlsResponse) {
        let reply = self.ask("", smallvec![OsdOp::pgnls(count, 3, cursor)]);
        let page = PgNlsResponse::from_bytes(&reply.outs[0].data).expect("a page");
        (reply.result, page)
    }
}

fn roomy() -> Group {
    Group::new(1 << 30)
}

fn xattr(code: OpCode, name: &str, value: &[u8]) -> OsdOp {
    OsdOp::xattr(code, name.as_bytes(), value, 0, 0)
}

#[test]
fn what_is_not_there() {
    let mut g = roomy();
    assert_eq!(g.result("x", OsdOp::read(0, 10)), -2);
    assert_eq!(g.result("x", OsdOp::new(OpCode::STAT)), -2);
    assert_eq!(g.result("x", OsdOp::new(OpCode::DELETE)), -2);
    assert_eq!(g.result("x", OsdOp::truncate(5)), 0);
    assert_eq!(g.result("x", xattr(OpCode::RMXATTR, "a", b"")), -2);
    assert_eq!(g.result("x", OsdOp::read(0, 10)), -2, "none of these made it");
    let watch = WatchArgs { op: WatchArgs::WATCH, ..WatchArgs::default() };
    assert_eq!(g.result("x", OsdOp::watch(watch)), -2);
}

#[test]
fn bytes_go_in_and_come_out() {
    let mut g = roomy();
    let reply = g.ask("x", smallvec![OsdOp::write_full(Bytes::from_static(b"hello"))]);
    assert_eq!((reply.result, reply.user_version), (0, 1));
    assert_eq!(reply.replay_version, Eversion { epoch: Epoch(3), version: 1 });
    assert_eq!(g.result("x", OsdOp::append(Bytes::from_static(b" world"))), 0);
    assert_eq!(g.contents("x"), b"hello world");
    assert_eq!(g.result("x", OsdOp::zero(1, 3)), 0);
    assert_eq!(g.contents("x"), b"h\0\0\0o world");
    assert_eq!(g.result("x", OsdOp::truncate(2)), 0);
    assert_eq!(g.result("x", OsdOp::truncate(4)), 0);
    assert_eq!(g.contents("x"), b"h\0\0\0");
    let stat = g.ask("x", smallvec![OsdOp::new(OpCode::STAT)]);
    let mut r = Reader::new(&stat.outs[0].data);
    assert_eq!((r.u64(), r.get()), (Ok(4), Ok(UTime { sec: 77, nsec: 5 })));
    assert_eq!(stat.user_version, 5);
}

#[test]
fn a_checksum_goes_along_with_whole_objects() {
    let mut group = roomy();
    let mut known = |ops: Ops| {
        assert_eq!(group.ask("a", ops).result, 0);
        group.ask("a", smallvec![OsdOp::read(0, 0)]);
        group.data_crc.is_some()
    };
    let bytes = |n: usize| Bytes::from(vec![3; n]);
    assert!(known(smallvec![OsdOp::write_full(bytes(5000))]));
    assert!(known(smallvec![xattr(OpCode::SETXATTR, "x", b"y"), OsdOp::new(OpCode::STAT)]));
    assert!(!known(smallvec![OsdOp::write(100, bytes(10))]));
    assert!(known(smallvec![OsdOp::write(0, bytes(6000))]));
    assert!(!known(smallvec![OsdOp::truncate(50)]));
    // Half of the request's data: its checksum does not apply to the object.
    assert!(!known(smallvec![OsdOp::write_full(bytes(60)), OsdOp::write_full(bytes(50))]));
    assert!(known(smallvec![OsdOp::write_full(bytes(60))]));
    group.ask("a", smallvec![OsdOp::read(0, 59)]);
    assert_eq!(group.data_crc, None);
}

#[test]
fn creation_is_exclusive_when_asked() {
    let mut g = roomy();
    assert_eq!(g.result("x", OsdOp::create(true)), 0);
    assert_eq!(g.result("x", OsdOp::create(true)), -17);
    assert_eq!(g.result("x", OsdOp::create(false)), 0);
}

#[test]
fn absurd_ranges_are_refused() {
    let mut g = roomy();
    for offset in [128 << 20, (128 << 20) - 1, u64::MAX] {
        assert_eq!(g.result("x", OsdOp::write(offset, Bytes::from_static(b"ab"))), -27, "{offset}");
    }
    assert_eq!(g.result("x", OsdOp::create(false)), 0);
    assert_eq!(g.result("x", OsdOp::truncate(u64::MAX)), -27);
    assert_eq!(g.result("x", OsdOp::zero(u64::MAX, u64::MAX)), -27);
    assert_eq!(g.result("x", OsdOp::read(u64::MAX, u64::MAX)), 0);
    let lies = Extent { offset: 0, length: 99, ..Extent::default() };
    assert_eq!(g.result("x", OsdOp::with_extent(OpCode::WRITE, lies, Bytes::from_static(b"ab"))), -22);
    assert_eq!(g.result("x", OsdOp::write_same(0, u64::MAX - 1, Bytes::from_static(b"ab"))), -27);
}

#[test]
fn a_failed_operation_undoes_the_request() {
    let mut g = roomy();
    let reply = g.ask(
        "x",
        smallvec![OsdOp::write_full(Bytes::from_static(b"a")), OsdOp::create(true), OsdOp::truncate(0)],
    );
    assert_eq!(reply.result, -17);
    assert_eq!(g.result("x", OsdOp::new(OpCode::STAT)), -2);
    let tolerant = OsdOp::create(true).with_flags(OpFlags::EXCL | OpFlags::FAILOK);
    let reply = g.ask("x", smallvec![OsdOp::write_full(Bytes::from_static(b"a")), tolerant]);
    assert_eq!(reply.result, 0);
    assert_eq!(g.contents("x"), b"a");
}

#[test]
fn a_repetition_gets_the_first_answer() {
    let mut g = roomy();
    g.tid = 1;
    let append = g.op("x", smallvec![OsdOp::append(Bytes::from_static(b"once"))]);
    let first = g.ask_op(append.clone());
    g.tid = 2;
    g.ask_op(g.op("x", smallvec![OsdOp::append(Bytes::from_static(b"!"))]));
    g.tid = 1;
    let again = g.ask_op(MOSDOp { retry_attempt: 1, ..append.clone() });
    assert_eq!((again.result, again.user_version), (first.result, first.user_version));
    assert_eq!(again.replay_version, first.replay_version);
    g.tid = 3;
    assert_eq!(g.contents("x"), b"once!");
    g.tid = 1;
    g.ask_op(MOSDOp { retry_attempt: 1, client_inc: Incarnation(9), ..append });
    g.tid = 4;
    assert_eq!(g.contents("x"), b"once!once", "another life of the client is another operation");
}

#[test]
fn attributes() {
    let mut g = roomy();
    assert_eq!(g.result("x", xattr(OpCode::SETXATTR, "color", b"red")), 0);
    assert_eq!(g.result("x", xattr(OpCode::GETXATTR, "taste", b"")), -61);
    let reply = g.ask("x", smallvec![xattr(OpCode::GETXATTR, "color", b"")]);
    assert_eq!(&reply.outs[0].data[..], b"red");
    let reply = g.ask("x", smallvec![OsdOp::new(OpCode::GETXATTRS)]);
    assert_eq!(Reader::new(&reply.outs[0].data).get(), Ok(vec![("color".to_owned(), "red".to_owned())]));
    let cmp = |value: &[u8], op| OsdOp::xattr(OpCode::CMPXATTR, b"color", value, op, XattrArgs::MODE_STRING);
    assert_eq!(g.result("x", cmp(b"red", 1)), 1);
    assert_eq!(g.result("x", cmp(b"blue", 1)), -125);
    let guarded = smallvec![cmp(b"blue", 1), OsdOp::truncate(9)];
    assert_eq!(g.ask("x", guarded).result, -125);
    assert_eq!(g.contents("x"), b"");
    assert_eq!(g.result("x", xattr(OpCode::SETXATTR, &"n".repeat(101), b"")), -36);
    assert_eq!(g.result("x", xattr(OpCode::RMXATTR, "color", b"")), 0);
    assert_eq!(g.result("x", xattr(OpCode::GETXATTR, "color", b"")), -61);
}

#[test]
fn the_map_is_ordered_and_paged() {
    let mut g = roomy();
    let set = |pairs: &[(&str, &str)]| {
        let mut w = Writer::new();
        w.put(&pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<Vec<_>>());
        OsdOp::new(OpCode::OMAPSETVALS).with_data(w.into_bytes())
    };
    assert_eq!(g.result("x", set(&[("b", "2"), ("a", "1"), ("c", "3")])), 0);
    let mut w = Writer::new();
    w.blob(b"");
    w.u64(2);
    let reply = g.ask("x", smallvec![OsdOp::new(OpCode::OMAPGETKEYS).with_data(w.into_bytes())]);
    let mut r = Reader::new(&reply.outs[0].data);
    assert_eq!(r.get(), Ok(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(r.bool(), Ok(true));
    let keys = vec!["c".to_owned(), "z".to_owned()].to_bytes();
    let reply = g.ask("x", smallvec![OsdOp::new(OpCode::OMAPGETVALSBYKEYS).with_data(keys.clone())]);
    let pairs: Result<Vec<(String, String)>, _> = Reader::new(&reply.outs[0].data).get();
    assert_eq!(pairs, Ok(vec![("c".to_owned(), "3".to_owned())]));
    assert_eq!(g.result("x", OsdOp::new(OpCode::OMAPRMKEYS).with_data(keys)), 0);
    assert_eq!(g.result("x", OsdOp::new(OpCode::OMAPRMKEYS).with_data(Bytes::from_static(b"\xff\xff"))), -22);
}

#[test]
fn failed_and_empty_writes_take_a_version() {
    let mut g = roomy();
    let epoch = Epoch(3);
    let reply = g.ask("x", smallvec![OsdOp::truncate(5)]);
    assert_eq!(
        (reply.result, reply.replay_version, reply.user_version),
        (0, Eversion { epoch, version: 1 }, 0)
    );
    let reply = g.ask("x", smallvec![OsdOp::create(true)]);
    assert_eq!((reply.replay_version, reply.user_version), (Eversion { epoch, version: 2 }, 2));
    let reply = g.ask("x", smallvec![OsdOp::create(true)]);
    assert_eq!((reply.result, reply.replay_version.version, reply.user_version), (-17, 3, 2));
    let reply = g.ask("y", smallvec![OsdOp::new(OpCode::DELETE)]);
    assert_eq!((reply.result, reply.user_version), (-2, 2), "the group's newest, not the object's");
    let reply = g.ask("y", smallvec![OsdOp::new(OpCode::STAT)]);
    assert_eq!((reply.result, reply.user_version), (-2, 0));
    let reply = g.ask("x", smallvec![OsdOp::create(false)]);
    assert_eq!((reply.result, reply.user_version), (0, 5), "a creation changes what is there already");
}

#[test]
fn results_stay_with_their_operations() {
    let mut g = roomy();
    assert_eq!(g.result("x", xattr(OpCode::SETXATTR, "a", b"1")), 0);
    let same = || OsdOp::xattr(OpCode::CMPXATTR, b"a", b"1", 1, XattrArgs::MODE_STRING);
    let rvals = |reply: &OsdReply| reply.outs.iter().map(|out| out.rval).collect::<Vec<_>>();
    let reply = g.ask("x", smallvec![same(), OsdOp::new(OpCode::STAT)]);
    assert_eq!((reply.result, rvals(&reply)), (1, vec![1, 1]));
    let reply = g.ask("x", smallvec![same(), OsdOp::create(false)]);
    assert_eq!((reply.result, rvals(&reply)), (0, vec![1, 0]));
    let mut op = g.op("x", smallvec![OsdOp::create(false), same()]);
    op.flags = OsdFlags::RETURNVEC;
    g.tid += 1;
    let first = g.ask_op(op.clone());
    let again = g.ask_op(MOSDOp { retry_attempt: 1, ..op });
    assert_eq!((first.result, rvals(&first)), (1, vec![0, 1]));
    assert_eq!((again.result, rvals(&again)), (1, vec![0, 1]));
}

#[test]
fn outputs_of_writes_are_short() {
    let mut g = roomy();
    assert_eq!(g.result("x", OsdOp::write_full(Bytes::from(vec![1; 65]))), 0);
    let mut ask = |len| {
        let mut op = g.op("x", smallvec![OsdOp::read(0, len), OsdOp::write(0, Bytes::from_static(b"2"))]);
        op.flags = OsdFlags::RETURNVEC;
        g.tid += 1;
        let reply = g.ask_op(op);
        (reply.result, reply.outs[0].data.len(), g.contents("x")[0])
    };
    assert_eq!(ask(65), (-75, 0, 1), "nothing is done if the answer may not be given");
    assert_eq!(ask(64), (0, 64, b'2'));
}

#[test]
fn late_truncations_and_late_writes_are_told_apart() {
    let mut g = roomy();
    let extent =
        |offset, length, seq, size| Extent { offset, length, truncate_seq: seq, truncate_size: size };
    let write = |offset, seq, size| {
        OsdOp::with_extent(OpCode::WRITE, extent(offset, 4, seq, size), Bytes::from_static(b"abcd"))
    };
    assert_eq!(g.result("x", write(0, 1, u64::MAX)), 0);
    let reply = g.ask("x", smallvec![OsdOp::with_extent(OpCode::READ, extent(0, 9, 2, 1), Bytes::new())]);
    assert_eq!(&reply.outs[0].data[..], b"a", "the reader knows of a truncation to come");
    assert_eq!(g.result("x", write(4, 5, 2)), 0, "it came before the write");
    assert_eq!(g.contents("x"), b"ab\0\0abcd");
    let truncate = |seq| OsdOp::with_extent(OpCode::TRUNCATE, extent(3, 0, seq, 3), Bytes::new());
    assert_eq!(g.result("x", truncate(5)), 0);
    assert_eq!(g.contents("x").len(), 8, "an old truncation is done already");
    assert_eq!(g.result("x", truncate(6)), 0);
    assert_eq!(g.result("x", write(2, 5, 2)), 0);
    assert_eq!(g.contents("x"), b"aba", "nothing old appears behind the new end");
    assert_eq!(g.result("x", OsdOp::with_extent(OpCode::TRUNCATE, extent(3, 0, 9, 4), Bytes::new())), -22);
}

#[test]
fn a_request_does_not_do_more_than_it_may() {
    let mut g = roomy();
    assert_eq!(g.result("x", OsdOp::truncate(0)), 0);
    assert_eq!(g.result("x", OsdOp::write(100 << 20, Bytes::from_static(b"x"))), 0);
    let reads: Ops = (0..3).map(|_| OsdOp::read(0, 0)).collect();
    assert_eq!(g.ask("x", reads).result, -90);
    let fills: Ops = (0..3).map(|_| OsdOp::write_same(0, 100 << 20, Bytes::from_static(b"x"))).collect();
    assert_eq!(g.ask("x", fills).result, -90);
    let limits = Limits::default();
    let many = g.op("x", (0..=limits.ops).map(|_| OsdOp::new(OpCode::STAT)).collect());
    assert_eq!(limits.check_count(&many), Err(Errno::EMSGSIZE));
    let large = g.op("x", smallvec![OsdOp::write_full(Bytes::from(vec![0; (90 << 20) + 1]))]);
    assert_eq!(check_shape(&large, true, &limits), Err(Errno::EMSGSIZE));
    let snapshot = MOSDOp { snapid: SnapId(4), ..g.op("x", smallvec![OsdOp::create(false)]) };
    assert_eq!(check_shape(&snapshot, true, &limits), Err(Errno::EINVAL));
    assert_eq!(limits.check_names(&g.op("", smallvec![])), Err(Errno::EINVAL));
    let list = MOSDOp { snapid: SnapId::DIR, ..g.op("x", smallvec![OsdOp::new(OpCode::LIST_SNAPS)]) };
    assert_eq!(check_shape(&list, false, &limits), Ok(()));
    let elsewhere = MOSDOp { snapid: SnapId::HEAD, ..list };
    assert_eq!(check_shape(&elsewhere, false, &limits), Err(Errno::EINVAL));
    let stat = MOSDOp { snapid: SnapId::DIR, ..g.op("x", smallvec![OsdOp::new(OpCode::STAT)]) };
    assert_eq!(check_shape(&stat, false, &limits), Err(Errno::EINVAL));
}

#[test]
fn a_flag_that_no_release_implements_is_refused() {
    let g = roomy();
    let op = g.op("x", smallvec![OsdOp::new(OpCode::DELETE)]);
    let parallel = MOSDOp { flags: op.flags | OsdFlags::PARALLELEXEC, ..op };
    assert_eq!(check_shape(&parallel, true, &Limits::default()), Err(Errno::EINVAL));
}

#[test]
fn a_sparse_read_knows_of_a_truncation_that_has_not_arrived() {
    let mut g = roomy();
    assert_eq!(g.result("x", OsdOp::write_full(Bytes::from_static(b"0123456789"))), 0);
    let sparse = |g: &mut Group, offset, truncate_size, truncate_seq| {
        let extent = Extent { offset, length: 20, truncate_size, truncate_seq };
        let reply = g.ask("x", smallvec![OsdOp::with_extent(OpCode::SPARSE_READ, extent, Bytes::new())]);
        let mut r = Reader::new(&reply.outs[0].data);
        let extents: Vec<(u64, u64)> = r.get().expect("extents");
        (reply.result, extents, r.get::<Bytes>().expect("data"))
    };
    assert_eq!(sparse(&mut g, 2, 0, 0), (0, vec![(2, 8)], Bytes::from_static(b"23456789")));
    assert_eq!(sparse(&mut g, 2, 5, 1), (0, vec![(2, 3)], Bytes::from_static(b"234")));
    assert_eq!(sparse(&mut g, 7, 5, 1), (0, vec![], Bytes::new()));
    // The value old clients send for "never truncated".
    assert_eq!(sparse(&mut g, 8, u64::MAX, 1), (0, vec![(8, 2)], Bytes::from_static(b"89")));
}

/// The result of a sparse read of the whole object.
fn sparse(g: &mut Group, name: &str) -> (Vec<(u64, u64)>, Bytes) {
    let extent = Extent { length: 1 << 30, ..Extent::default() };
    let reply = g.ask(name, smallvec![OsdOp::with_extent(OpCode::SPARSE_READ, extent, Bytes::new())]);
    let mut r = Reader::new(&reply.outs[0].data);
    (r.get().expect("extents"), r.get().expect("data"))
}

/// Exact to the byte, as in a stock OSD with BlueStore, wherever the bytes lie in blocks and chunks.
#[test]
fn a_sparse_read_finds_what_was_written_and_not_what_lies_between() {
    for base in [0, 4096, 100_000, 1 << 22] {
        let mut g = roomy();
        let write = |g: &mut Group, at: u64, len: usize| {
            assert_eq!(g.result("x", OsdOp::write(base + at, Bytes::from(vec![b'X'; len]))), 0);
        };
        let change = |g: &mut Group, code, offset, length| {
            let extent = Extent { offset: base + offset, length, ..Extent::default() };
            assert_eq!(g.result("x", OsdOp::with_extent(code, extent, Bytes::new())), 0);
        };
        let found = |g: &mut Group| {
            let (extents, data) = sparse(g, "x");
            assert!(data.iter().all(|byte| *byte == b'X'), "{base}");
            assert_eq!(data.len() as u64, extents.iter().map(|(_, len)| len).sum::<u64>());
            extents.into_iter().map(|(offset, len)| (offset - base, len)).collect::<Vec<_>>()
        };
        write(&mut g, 1, 1);
        write(&mut g, 3, 1);
        assert_eq!(found(&mut g), [(1, 1), (3, 1)], "{base}");
        write(&mut g, 9000, 5000);
        assert_eq!(found(&mut g), [(1, 1), (3, 1), (9000, 5000)], "{base}");
        write(&mut g, 0, 3);
        assert_eq!(found(&mut g), [(0, 4), (9000, 5000)], "{base}");
        change(&mut g, OpCode::ZERO, 9100, 10);
        assert_eq!(found(&mut g), [(0, 4), (9000, 100), (9110, 4890)], "{base}");
        change(&mut g, OpCode::TRUNCATE, 9120, 0);
        change(&mut g, OpCode::TRUNCATE, 20_000, 0);
        write(&mut g, 19_990, 20);
        assert_eq!(found(&mut g), [(0, 4), (9000, 100), (9110, 10), (19_990, 20)], "{base}");
        assert_eq!(g.result("x", OsdOp::write_full(Bytes::from(vec![b'X'; 100]))), 0);
        assert_eq!(sparse(&mut g, "x").0, [(0, 100)], "{base}");
    }
}

/// Trims as the walk does: page by page, for each head with clones on a page.
fn trimmed(g: &mut Group, removed: &Arc<SnapSet>) {
    let mut from = None::<loligo_store::ObjectName>;
    loop {
        let first = from.as_ref().map_or(ObjectRef::first_of_hash(0), |name| name.as_ref());
        let names = g.collection.list(first, TRIM_PAGE).now().expect("in memory");
        for head in heads_with_clones(&names) {
            let mut op = g.op("x", smallvec![]);
            assert_eq!(head.as_ref().name, b"x");
            let task = Some(Task::Trim(Arc::clone(removed)));
            let context = Context { task, writes: true, ..Context::plain(0, Tid(0), Epoch(4), PoolId(1), 1) };
            let done = execute(&context, &mut op, &*g.collection, &mut g.state, &g.counters);
            assert!(matches!(done, Executed::Answer(..)));
        }
        match names.last().filter(|_| names.len() == TRIM_PAGE) {
            Some(last) => from = Some(last.clone()),
            None => return,
        }
    }
}

#[test]
fn an_object_loses_any_number_of_clones_in_one_walk_and_few_in_one_step() {
    let mut g = roomy();
    let last = 3 * TRIM_PAGE as u64;
    for newest in 0..=last {
        let mut op = g.op("x", smallvec![OsdOp::write_full(newest.to_string().into())]);
        op.snap_seq = SnapId(newest);
        op.snaps = (1..=newest).rev().map(SnapId).collect();
        g.tid += 1;
        assert_eq!(g.ask_op(op).result, 0);
    }
    let kept = [5, 400, last].map(SnapId);
    let removed: SnapSet = (1..=last).map(SnapId).filter(|snap| !kept.contains(snap)).collect();
    assert_eq!(g.collection.stats().objects, last + 1);
    trimmed(&mut g, &Arc::new(removed));
    assert_eq!(g.collection.stats().objects, kept.len() as u64 + 1);
    let mut op = g.op("x", smallvec![OsdOp::new(OpCode::LIST_SNAPS)]);
    op.snapid = SnapId::DIR;
    g.tid += 1;
    let reply = g.ask_op(op);
    let left = ObjectSnaps::from_bytes(&reply.outs[0].data).expect("a list");
    let ids: Vec<SnapId> =
        left.clones.iter().map(|clone| clone.id).filter(|id| *id != SnapId::HEAD).collect();
    assert_eq!(ids, kept);
}

#[test]
fn a_listing_pages_through_everything() {
    let mut g = roomy();
    let mut names: Vec<String> = (0..100).map(|i| format!("object {i}")).collect();
    for name in &names {
        assert_eq!(g.result(name, OsdOp::create(true)), 0);
    }
    let mut seen = Vec::new();
    let mut cursor = HObject::min();
    loop {
        let (result, page) = g.list(&cursor, 7);
        seen.extend(page.entries);
        if result == 1 {
            assert!(page.handle.max, "the only group ends where all objects end");
            break;
        }
        cursor = page.handle;
    }
    let mut seen: Vec<String> =
        seen.into_iter().map(|ListObject { oid, .. }| String::from_utf8_lossy(&oid).into_owned()).collect();
    seen.sort();
    names.sort();
    assert_eq!(seen, names);
}

#[test]
fn a_full_pool_still_frees() {
    let mut g = roomy();
    assert_eq!(g.result("x", OsdOp::write_full(Bytes::from_static(b"a"))), 0);
    g.room = Room::Refuse(Errno::EDQUOT);
    assert_eq!(g.result("x", OsdOp::append(Bytes::from_static(b"a"))), -122);
    assert_eq!(g.result("y", OsdOp::create(false)), -122);
    assert_eq!(g.result("x", OsdOp::write(0, Bytes::from_static(b"b"))), 0, "what does not grow is done");
    assert_eq!(g.contents("x"), b"b");
    assert_eq!(g.result("x", OsdOp::new(OpCode::DELETE)), 0);
}

#[test]
fn a_full_store_refuses_with_enospc() {
    let mut g = Group::new(1 << 20);
    assert_eq!(g.result("x", OsdOp::write_full(Bytes::from(vec![7; 4 << 20]))), -28);
    assert_eq!(g.result("x", OsdOp::new(OpCode::STAT)), -2);
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    WriteFull(Vec<u8>),
    Append(Vec<u8>),
    Truncate(u64),
    Zero(u64, u64),
    Delete,
    Read(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..300);
    prop_oneof![
        (0..1000u64, bytes()).prop_map(|(o, b)| Step::Write(o, b)),
        bytes().prop_map(Step::WriteFull),
        bytes().prop_map(Step::Append),
        (0..1000u64).prop_map(Step::Truncate),
        (0..1000u64, 0..500u64).prop_map(|(o, l)| Step::Zero(o, l)),
        Just(Step::Delete),
        (0..1000u64, 1..500u64).prop_map(|(o, l)| Step::Read(o, l)),
    ]
}

/// The expected object after a step; `None` if it does not exist.
fn expect(object: Option<Vec<u8>>, step: &Step) -> (Option<Vec<u8>>, i32) {
    let there = object.is_some();
    let mut bytes = object.clone().unwrap_or_default();
    let put = |bytes: &mut Vec<u8>, offset: usize, data: &[u8]| {
        bytes.resize(bytes.len().max(offset + data.len()), 0);
        bytes[offset..offset + data.len()].copy_from_slice(data);
    };
    match step {
        Step::Write(offset, data) => put(&mut bytes, *offset as usize, data),
        Step::WriteFull(data) => bytes = data.clone(),
        Step::Append(data) => put(&mut bytes, object.as_ref().map_or(0, Vec::len), data),
        Step::Truncate(_) | Step::Zero(..) if !there => return (None, 0),
        Step::Truncate(size) => bytes.resize(*size as usize, 0),
        // Zeroing up to the end truncates.
        Step::Zero(offset, len) if *len > 0 && (offset + len) as usize >= bytes.len() => {
            bytes.truncate(*offset as usize);
        }
        Step::Zero(offset, len) => {
            let end = bytes.len().min((offset + len) as usize);
            bytes[(*offset as usize).min(end)..end].fill(0);
        }
        Step::Delete => return (None, if there { 0 } else { -2 }),
        Step::Read(..) => return (object, if there { 0 } else { -2 }),
    }
    (Some(bytes), 0)
}

fn to_op(step: &Step) -> OsdOp {
    match step.clone() {
        Step::Write(offset, data) => OsdOp::write(offset, data.into()),
        Step::WriteFull(data) => OsdOp::write_full(data.into()),
        Step::Append(data) => OsdOp::append(data.into()),
        Step::Truncate(size) => OsdOp::truncate(size),
        Step::Zero(offset, len) => OsdOp::zero(offset, len),
        Step::Delete => OsdOp::new(OpCode::DELETE),
        Step::Read(offset, len) => OsdOp::read(offset, len),
    }
}

proptest! {
    #[test]
    fn objects_are_what_a_byte_vector_is(steps in prop::collection::vec(step(), 1..40)) {
        let mut g = roomy();
        let mut object: Option<Vec<u8>> = None;
        for step in &steps {
            let (after, result) = expect(object, step);
            object = after;
            let reply = g.ask("o", smallvec![to_op(step)]);
            prop_assert_eq!(reply.result, result, "{:?}", step);
            if let (Step::Read(offset, len), Some(bytes)) = (step, &object) {
                let from = bytes.len().min(*offset as usize);
                let to = bytes.len().min((offset + len) as usize);
                prop_assert_eq!(&reply.outs[0].data[..], &bytes[from..to]);
            }
        }
        match object {
            Some(bytes) => prop_assert_eq!(g.contents("o"), bytes),
            None => prop_assert_eq!(g.result("o", OsdOp::new(OpCode::STAT)), -2),
        }
    }

    #[test]
    fn hostile_arguments_never_panic(
        code in prop_oneof![any::<u16>(), prop::sample::select(vec![0x1211u16, 0x1212, 0x1214, 0x1219, 0x2215, 0x2218, 0x222c, 0x1301, 0x1303, 0x2301, 0x1505, 0x2226, 0x1205, 0x1220])],
        offset: u64, length: u64, truncate_size: u64, truncate_seq: u32,
        data in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let extent = Extent { offset, length, truncate_size, truncate_seq };
        let mut g = roomy();
        g.result("o", OsdOp::create(false));
        g.result("o", OsdOp::with_extent(OpCode(code), extent, data.into()));
    }
}

/// A write with a snapshot context.
fn with_snaps(g: &mut Group, name: &str, ops: Ops, seq: u64, snaps: &[u64]) -> OsdReply {
    let mut op = g.op(name, ops);
    (op.snap_seq, op.snaps) = (SnapId(seq), snaps.iter().copied().map(SnapId).collect());
    g.tid += 1;
    g.ask_op(op)
}

/// The object's content at a snapshot, or the error.
fn at_snap(g: &mut Group, name: &str, snap: SnapId) -> Result<Vec<u8>, i32> {
    let op = MOSDOp { snapid: snap, ..g.op(name, smallvec![OsdOp::read(0, 0)]) };
    g.tid += 1;
    let reply = g.ask_op(op);
    if reply.result < 0 { Err(reply.result) } else { Ok(reply.outs[0].data.to_vec()) }
}

/// Clones as LIST_SNAPS shows them: id, snapshots, overlap, size.
type Clones = Vec<(u64, Vec<u64>, Vec<(u64, u64)>, u64)>;

fn list_snaps(g: &mut Group, name: &str) -> (u64, Clones) {
    let op = MOSDOp { snapid: SnapId::DIR, ..g.op(name, smallvec![OsdOp::new(OpCode::LIST_SNAPS)]) };
    g.tid += 1;
    let reply = g.ask_op(op);
    assert_eq!(reply.result, 0);
    let list = ObjectSnaps::from_bytes(&reply.outs[0].data).expect("decodes");
    let numbers = |snaps: Vec<SnapId>| snaps.into_iter().map(|snap| snap.0).collect();
    let clones = list.clones.into_iter().map(|c| (c.id.0, numbers(c.snaps), c.overlap, c.size));
    (list.seq.0, clones.collect())
}

#[test]
fn snapshots_keep_what_was() {
    let mut g = roomy();
    let bytes = Bytes::from_static;
    assert_eq!(with_snaps(&mut g, "x", smallvec![OsdOp::write_full(bytes(b"0123456789"))], 0, &[]).result, 0);
    let reply = with_snaps(&mut g, "x", smallvec![OsdOp::write(2, bytes(b"ab"))], 4, &[4, 3]);
    assert_eq!(
        (reply.result, reply.replay_version.version, reply.user_version),
        (0, 3, 3),
        "the clone took version 2"
    );
    assert_eq!(with_snaps(&mut g, "x", smallvec![OsdOp::truncate(5)], 4, &[4, 3]).result, 0);
    assert_eq!(with_snaps(&mut g, "x", smallvec![OsdOp::append(bytes(b"!"))], 9, &[9, 4]).result, 0);
    assert_eq!(at_snap(&mut g, "x", SnapId(3)).as_deref(), Ok(&b"0123456789"[..]));
    assert_eq!(at_snap(&mut g, "x", SnapId(9)).as_deref(), Ok(&b"01ab4"[..]));
    assert_eq!(at_snap(&mut g, "x", SnapId(10)).as_deref(), Ok(&b"01ab4!"[..]));
    assert_eq!(at_snap(&mut g, "x", SnapId(2)), Err(-2));
    let clones = vec![
        (4, vec![3, 4], vec![(0, 2), (4, 1)], 10),
        (9, vec![9], vec![(0, 5)], 5),
        (u64::MAX - 1, vec![], vec![], 6),
    ];
    assert_eq!(list_snaps(&mut g, "x"), (9, clones));
    assert_eq!(with_snaps(&mut g, "x", smallvec![OsdOp::rollback(SnapId(4))], 9, &[9, 4]).result, 0);
    assert_eq!(g.contents("x"), b"0123456789");
    assert_eq!(with_snaps(&mut g, "x", smallvec![OsdOp::create(false)], 9, &[4, 9]).result, -22);
}

#[test]
fn a_deleted_object_stays_for_its_snapshots() {
    let mut g = roomy();
    assert_eq!(g.result("x", OsdOp::write_full(Bytes::from_static(b"old"))), 0);
    let delete = || smallvec![OsdOp::new(OpCode::DELETE)];
    assert_eq!(with_snaps(&mut g, "x", delete(), 1, &[1]).result, 0);
    assert_eq!(with_snaps(&mut g, "x", delete(), 1, &[1]).result, -2);
    assert_eq!(g.result("x", OsdOp::new(OpCode::STAT)), -2);
    assert_eq!(g.result("x", OsdOp::read(0, 0)), -2);
    assert_eq!(at_snap(&mut g, "x", SnapId(1)).as_deref(), Ok(&b"old"[..]));
    assert_eq!(list_snaps(&mut g, "x"), (1, vec![(1, vec![1], vec![], 3)]));
    assert_eq!(g.result("x", OsdOp::write_full(Bytes::new())), 0);
    assert_eq!(
        g.result("x", OsdOp::new(OpCode::STAT)),
        -2,
        "nothing written is no change, as in a stock OSD"
    );
    let attributes = g.ask("x", smallvec![OsdOp::create(true), OsdOp::new(OpCode::GETXATTRS)]);
    assert_eq!(attributes.result, 0);
    assert_eq!(g.contents("x"), b"");
    assert_eq!(with_snaps(&mut g, "x", smallvec![OsdOp::rollback(SnapId(1))], 1, &[1]).result, 0);
    assert_eq!(g.contents("x"), b"old");
}

/// Found by a random script (seed 140 of the differential test): a range longer than the maximum object
/// size is accepted if it lies entirely beyond the object's end.
#[test]
fn zeros_behind_the_end_are_nothing_however_many() {
    let mut g = roomy();
    let limit = 128 << 20;
    assert_eq!(g.result("x", OsdOp::zero(1, limit)), -27, "no object");
    assert_eq!(g.result("x", OsdOp::write_full(Bytes::from_static(b"123"))), 0);
    assert_eq!(g.result("x", OsdOp::zero(1, limit)), -27);
    assert_eq!(g.result("x", OsdOp::zero(3, limit)), 0);
    let removed = with_snaps(&mut g, "x", smallvec![OsdOp::new(OpCode::DELETE)], 1, &[1]);
    assert_eq!((removed.result, g.result("x", OsdOp::new(OpCode::STAT))), (0, -2));
    assert_eq!(g.result("x", OsdOp::zero(1, limit)), 0);
    assert_eq!(g.result("x", OsdOp::new(OpCode::STAT)), -2);
}

/// Found by a random script (seed 114 of the differential test): a snapshot missing from the writer's
/// context is not represented by the clone.
#[test]
fn only_snapshots_that_the_writer_named_saw_the_object() {
    let mut g = roomy();
    let write = |data: &'static [u8]| smallvec![OsdOp::write_full(Bytes::from_static(data))];
    assert_eq!(with_snaps(&mut g, "x", write(b"old"), 1, &[1]).result, 0);
    assert_eq!(with_snaps(&mut g, "x", write(b"new"), 5, &[4, 2]).result, 0);
    for (snap, saw) in [(1, false), (2, true), (3, false), (4, true), (5, false)] {
        let found = at_snap(&mut g, "x", SnapId(snap));
        assert_eq!(found.is_ok_and(|data| data == b"old"), saw, "snapshot {snap}");
    }
    assert_eq!(at_snap(&mut g, "x", SnapId(6)).as_deref(), Ok(&b"new"[..]));
    // A rollback to a snapshot that saw nothing removes the object.
    let back = |id| smallvec![OsdOp::rollback(SnapId(id))];
    assert_eq!(with_snaps(&mut g, "x", back(3), 5, &[4, 2]).result, 0);
    assert_eq!(g.result("x", OsdOp::new(OpCode::STAT)), -2);
    assert_eq!(with_snaps(&mut g, "x", back(4), 5, &[4, 2]).result, 0);
    assert_eq!(g.contents("x"), b"old");
}

/// Found by a random script (seed 101 of the differential test).
#[test]
fn an_object_that_was_removed_for_its_snapshots_still_counts_as_one_with_a_map() {
    let mut g = roomy();
    let header = || OsdOp::new(OpCode::OMAPSETHEADER).with_data(Bytes::from_static(b"h"));
    let clear = || OsdOp::new(OpCode::OMAPCLEAR);
    assert_eq!(g.result("x", header()), 0);
    let anew = smallvec![OsdOp::new(OpCode::DELETE), OsdOp::append(Bytes::from_static(b"new"))];
    let written = with_snaps(&mut g, "x", anew, 1, &[1]).user_version;
    let get = g.ask("x", smallvec![OsdOp::new(OpCode::OMAPGETHEADER)]);
    assert_eq!((get.result, get.outs[0].data.len()), (0, 0), "nothing is left");
    assert_eq!(with_snaps(&mut g, "x", smallvec![clear()], 1, &[1]).user_version, written + 1);
    assert_eq!(
        with_snaps(&mut g, "x", smallvec![clear()], 1, &[1]).user_version,
        written + 1,
        "now it has none"
    );
    assert_eq!(g.contents("x"), b"new");
}

#[test]
fn what_the_osd_keeps_is_not_shown() {
    let mut g = roomy();
    assert_eq!(with_snaps(&mut g, "x", smallvec![xattr(OpCode::SETXATTR, "a", b"1")], 1, &[1]).result, 0);
    let reply = g.ask("x", smallvec![OsdOp::new(OpCode::GETXATTRS)]);
    assert_eq!(Reader::new(&reply.outs[0].data).get(), Ok(vec![("a".to_owned(), "1".to_owned())]));
    assert_eq!(g.result("x", xattr(OpCode::GETXATTR, "\0snaps", b"")), -61);
    assert_eq!(g.result("x", xattr(OpCode::SETXATTR, "\0snaps", b"")), -22);
    assert_eq!(g.result("x", xattr(OpCode::RMXATTR, "\0snaps", b"")), -22);
}

#[test]
fn sums_of_parts() {
    let mut g = roomy();
    assert_eq!(g.result("x", OsdOp::write_full(Bytes::from_static(b"foo bar bazfoo bar baz"))), 0);
    let args = |offset, length, chunk_size, kind| ChecksumArgs { offset, length, chunk_size, kind };
    let mut sum = |args, seed: &[u8]| {
        let reply = g.ask("x", smallvec![OsdOp::checksum(args, Bytes::copy_from_slice(seed))]);
        (reply.result, reply.outs[0].data.to_vec())
    };
    let crc = 4_119_623_852u32.to_le_bytes();
    let expected = [&2u32.to_le_bytes()[..], &crc, &crc].concat();
    assert_eq!(sum(args(0, 22, 11, ChecksumArgs::CRC32C), &[0; 4]), (0, expected));
    assert_eq!(sum(args(0, 21, 11, ChecksumArgs::CRC32C), &[0; 4]).0, -22);
    assert_eq!(sum(args(0, 22, 11, ChecksumArgs::CRC32C), &[0; 3]).0, -22);
    assert_eq!(sum(args(0, 22, 11, 7), &[0; 8]).0, -22);
    assert_eq!(sum(args(99, 22, 11, ChecksumArgs::XXHASH64), &[0; 8]), (0, vec![]));
    // The xxHash of no bytes, from the reference implementation.
    assert_eq!(g.result("y", OsdOp::create(true)), 0);
    let reply = g
        .ask("y", smallvec![OsdOp::checksum(args(0, 0, 0, ChecksumArgs::XXHASH32), Bytes::from(vec![0; 4]))]);
    assert_eq!((reply.result, &reply.outs[0].data[..]), (0, &[0; 4][..]));
}

#[test]
fn methods_of_classes_are_operations_of_their_request() {
    let mut g = roomy();
    let reply = g.ask("x", smallvec![OsdOp::call("hello", "say_hello", b"you")]);
    assert_eq!((reply.result, &reply.outs[0].data[..]), (-2, &b""[..]), "there is no object to call it on");
    assert_eq!(g.result("x", OsdOp::call("hello", "record_hello", b"you")), 0);
    assert_eq!(g.contents("x"), b"Hello, you!");
    assert_eq!(g.result("x", OsdOp::call("hello", "record_hello", b"you")), -17);
    let reply = g.ask("x", smallvec![OsdOp::call("hello", "say_hello", b"you")]);
    assert_eq!((reply.result, &reply.outs[0].data[..]), (0, &b"Hello, you!"[..]));
    assert_eq!(g.result("x", OsdOp::call("hello", "turn_it_to_11", b"loud")), -22, "it takes no input");
    assert_eq!(g.result("x", OsdOp::call("hello", "turn_it_to_11", b"")), 0);
    assert_eq!(g.contents("x"), b"HELLO, YOU!");
    for method in ["bad_reader", "bad_writer"] {
        assert_eq!(g.result("x", OsdOp::call("hello", method, b"")), -5);
    }
    let request = |class: &str, method: &str| g.op("x", smallvec![OsdOp::call(class, method, b"")]);
    assert!(
        Needs::of(&request("lock", "lock")).is_ok_and(|needs| needs.writes() && needs.calls[0].by_default)
    );
    assert!(Needs::of(&request("lock", "get_info")).is_ok_and(|needs| !needs.writes()));
    for (class, method) in [("lock", "pick"), ("no such class", "lock")] {
        assert_eq!(Needs::of(&request(class, method)).err(), Some(Errno::EOPNOTSUPP));
    }
}
