//! Entry points for fuzzing: a single request, as a message in the format of `loligo_wire::fuzz`, and a
//! sequence of client actions, as a script.

mod model;
mod script;
mod sequence;

use std::sync::Arc;

use bytes::Bytes;
use loligo_store::memory::MemoryStore;
use loligo_store::{
    Change, Collection, Info, ObjectChanges, ObjectRef, ObjectStore, StoreError, Transaction,
};
use loligo_wire::crc::crc32c_of;
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MOSDOp, MOSDOpReply};
use loligo_wire::{Epoch, Eversion, PgId, PoolId, SnapContext, SnapId, Tid};
use smallvec::smallvec;

pub use sequence::sequences;

use crate::dups::Dups;
use crate::exec::{self, Context, Executed, Limits, Needs, PgState};
use crate::helpers::Helpers;
use crate::replies::Replies;
use crate::stats::Counters;

/// Small, so that a request that exceeds it is noticed.
const WORK_BYTES: u64 = 4 << 20;

/// Executes the request encoded in the bytes on an object that has data, an attribute and an omap, and
/// executes it again as a resend.
pub fn requests(data: &[u8]) {
    let Ok(msg) = loligo_wire::fuzz::parse(data) else { return };
    let Ok(op) = msg.open::<MOSDOp>() else { return };
    run(op).expect("a store in memory with room");
}

fn run(op: MOSDOp) -> Result<(), StoreError> {
    let limits = Limits { object_bytes: 1 << 20, work_bytes: WORK_BYTES, ops: 512, ..Limits::default() };
    let Ok(writes) = Needs::of(&op).map(|needs| needs.writes()) else { return Ok(()) };
    let pg_request = exec::is_pg_request(&op);
    let refused = limits.check_count(&op).is_err()
        || (!pg_request
            && limits.check_names(&op).and_then(|()| exec::check_shape(&op, writes, &limits)).is_err());
    if refused {
        return Ok(());
    }
    let store = MemoryStore::new(1 << 30);
    let pg = PgId { pool: PoolId(1), seed: 0 };
    let collection = store.open(pg, replies())?;
    let version = Eversion { epoch: Epoch(1), version: 1 };
    fill(&*collection, &op, version)?;
    let mut state = PgState::new(version, Dups::default(), Arc::default());
    let context = Context {
        writes,
        snapc: SnapContext { seq: op.snap_seq, snaps: op.snaps.clone() },
        limits,
        data_crc: Some(crc32c_of(op.ops.iter().map(|op| &op.data[..]))),
        data_len: op.ops.iter().map(|op| op.data.len()).sum(),
        ..Context::plain(1, Tid(7), Epoch(2), PoolId(1), 1)
    };
    let mut execute = |mut op: MOSDOp| {
        let msg = exec::execute(&context, &mut op, &*collection, &mut state, &Counters::default());
        let Executed::Answer(msg, ..) = msg else { panic!("a store in memory with room answers") };
        let data: u64 = msg.data.iter().map(|part| part.len() as u64).sum();
        assert!(data <= 2 * WORK_BYTES, "{data} bytes of output");
        let joined = Bytes::from(msg.data.concat());
        assert!(msg.data_crc.is_none_or(|crc| crc == crc32c_of([&joined[..]])), "a wrong checksum");
        let reply = Msg { data: smallvec![joined], ..msg }.open::<MOSDOpReply>();
        reply.expect("what we wrote opens")
    };
    let first = execute(op.clone());
    let again = execute(MOSDOp { retry_attempt: 1, ..op });
    if writes && !pg_request {
        assert_eq!((first.result, first.replay_version), (again.result, again.replay_version));
    }
    let largest = collection.stats().bytes;
    assert!(largest <= limits.object_bytes, "{largest} bytes in one object");
    Ok(())
}

/// A listener that gets no replies.
fn replies() -> Arc<Replies> {
    let helpers = Helpers::default();
    Replies::new(&helpers.finisher, &helpers.history)
}

fn fill(collection: &dyn Collection, op: &MOSDOp, version: Eversion) -> Result<(), StoreError> {
    let oid = ObjectRef {
        hash: op.hash,
        nspace: &op.locator.nspace,
        key: if op.locator.key == op.oid { &[] } else { &op.locator.key },
        name: &op.oid,
        snap: SnapId::HEAD,
    };
    let bytes = Bytes::from_static;
    let changes = smallvec![
        Change::Write { offset: 5000, data: Bytes::from(vec![7; 30_000]) },
        Change::SetXattr { name: bytes(b"a"), value: bytes(b"12") },
        Change::SetOmapHeader { header: bytes(b"header") },
        Change::SetOmap {
            pairs: (b'a'..=b'z').map(|key| (Bytes::from(vec![key]), bytes(b"value"))).collect()
        },
    ];
    let info = Info { version, user_version: 1, has_omap: true, truncate_seq: 3, ..Info::default() };
    let objects = smallvec![ObjectChanges { oid, info, changes }];
    collection.submit(Transaction { version, objects, record: None }).map(drop)
}
