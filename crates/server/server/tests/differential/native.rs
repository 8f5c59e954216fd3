//! Executes the script through our client, and shows results as `execute.py` shows librados'.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::{join, join_all};
use loligo_rados::{
    Answer, Builder, CmpOp, Errno, Error, IoCtx, ListCursor, OpFlags, Outcome, Rados, ReadOp, SnapId,
    WatchNews, WriteOp, WriteOptions,
};
use loligo_wire::Encode as _;
use loligo_wire::message::osd::{ChecksumArgs, Extent, OpCode, OsdOp, XattrArgs};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The result of an operation that librados has not set, as in `execute.py`.
const UNSET: i32 = -10_000;

/// The most snapshots of one script, as in `execute.py`.
const SNAPS_MAX: usize = 6;

/// The first snapshot id of a pool with self-managed snapshots.
const FIRST_SNAP: u64 = 2;

/// Returns the result of each step of a script; `None` if the monitor was slow and the client sent a
/// request for a snapshot twice, so that an id was lost.
pub(crate) fn execute(conf: &Path, pool: &str, pg_num: u32, steps: &[Value]) -> Option<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let builder = Builder::new().conf_file(conf.to_str().expect("a path of UTF-8"));
        let mut conf = builder.load().expect("a configuration");
        // A dead daemon then shows as a result, not as a test that hangs.
        conf.set("rados_osd_op_timeout", "120");
        let rados = builder.conf(conf).connect().await.expect("the cluster answers");
        let create = json!({"prefix": "osd pool create", "pool": pool, "pg_num": pg_num});
        rados.mon_command(&create.to_string(), Bytes::new()).await.expect("the pool is made");
        let mut script = Script::new(&rados, pool).await;
        let mut results = Vec::with_capacity(steps.len());
        for step in steps {
            results.push(script.step(step).await.to_string());
            if script.is_disturbed() {
                break;
            }
        }
        let delete = json!({"prefix": "osd pool delete", "pool": pool, "pool2": pool, "yes_i_really_really_mean_it": true});
        rados.mon_command(&delete.to_string(), Bytes::new()).await.expect("the pool is removed");
        rados.shutdown().await;
        (!script.is_disturbed()).then_some(results)
    })
}

struct Script {
    pool: IoCtx,
    /// Snapshots in the order of their creation.
    snaps: Vec<SnapId>,
    /// The last version reported.
    version: u64,
}

impl Script {
    async fn new(rados: &Rados, pool: &str) -> Self {
        let pool = rados.ioctx(pool).await.expect("the pool is there");
        Self { pool, snaps: Vec::new(), version: 0 }
    }

    /// Whether the id of a snapshot was lost.
    fn is_disturbed(&self) -> bool {
        self.snaps.last().is_some_and(|last| last.0 >= FIRST_SNAP + self.snaps.len() as u64)
    }

    async fn step(&mut self, step: &Value) -> Value {
        let nspace = if step["ns"] == "*" { "\u{1}" } else { text(&step["ns"]) };
        let io = self.pool.with_namespace(nspace).with_locator(text(&step["key"]));
        let oid = text(&step["oid"]);
        let (ret, results) = match text(&step["kind"]) {
            "single" => self.single(&io, oid, &step["ops"][0]).await,
            kind => self.operate(&io, oid, step, kind == "write").await,
        };
        json!([ret, self.version, results])
    }

    /// Executes a request of several operations.
    async fn operate(&mut self, io: &IoCtx, oid: &str, step: &Value, writes: bool) -> (i32, Value) {
        let ops = step["ops"].as_array().expect("operations");
        let outcome = if writes {
            let op = ops.iter().fold(WriteOp::new(), |all, op| changing(all, io, op));
            let mtime = SystemTime::UNIX_EPOCH + Duration::from_secs(number(&step["mtime"]));
            let returning = number(&step["flags"]) != 0;
            let options = WriteOptions { mtime: Some(mtime), returning, ..WriteOptions::default() };
            io.execute(oid, op, options).await
        } else {
            io.execute_read(oid, ops.iter().fold(ReadOp::new(), reading)).await
        };
        // librados sends requests for an object without a name; the OSD refuses them before it looks at
        // the operations.
        let outcome = match outcome {
            Err(Error::Os(Errno::EINVAL)) if oid.is_empty() => {
                let answers = vec![Answer::default(); ops.len()];
                Ok(Outcome { result: Errno::EINVAL.to_result(), version: 0, answers })
            }
            other => other,
        };
        let outcome = self.outcome(outcome);
        let shown = ops.iter().enumerate().filter_map(|(at, op)| {
            let answered = outcome.as_ref().ok().and_then(|outcome| outcome.answers.get(at));
            shown_answer(op, answered)
        });
        (ret(&outcome), shown.collect())
    }

    /// Remembers the version of the reply; 0 if no request was sent.
    fn outcome(&mut self, outcome: Result<Outcome, Error>) -> Result<Outcome, Errno> {
        self.version = outcome.as_ref().map_or(0, |outcome| outcome.version);
        outcome.map_err(errno)
    }

    /// Executes a single call.
    async fn single(&mut self, io: &IoCtx, oid: &str, op: &Value) -> (i32, Value) {
        match text(&op[0]) {
            "read" => self.read(io, oid, number(&op[2]), number(&op[3])).await,
            "getxattr" => {
                let op = OsdOp::xattr(OpCode::GETXATTR, text(&op[2]).as_bytes(), b"", 0, 0);
                self.output(io, oid, ReadOp::new().op(op), 1 << 20).await
            }
            "stat" => self.stat(io, oid).await,
            "list" => (0, listed(io).await),
            "cursors" => (0, slices(io, &op[2]).await),
            "watchers" => self.watch(io, oid, number(&op[2])).await,
            "snap_create" => self.snap_create().await,
            "snap_context" => {
                let picked = op[2].as_array().expect("numbers").iter();
                let snaps = picked.filter_map(|at| self.snaps.get(number(at) as usize).copied()).collect();
                (0, json!([self.set_context(snaps)]))
            }
            "snap_rollback" => {
                let op = WriteOp::new().rollback(self.snap(&op[2]));
                // librados does not record the version of a rollback.
                let version = self.version;
                let result = self.change(io, oid, op).await;
                self.version = version;
                result
            }
            "snap_read" => {
                let at = io.at_snapshot(self.snap(&op[2]));
                self.read(&at, oid, number(&op[3]), number(&op[4])).await
            }
            "snap_stat" => self.stat(&io.at_snapshot(self.snap(&op[2])), oid).await,
            "snap_directory" => self.stat(&io.at_snapshot(SnapId(u64::MAX)), oid).await,
            "writesame" if !is_multiple(number(&op[3]), &bytes(&op[4])) => {
                (Errno::EINVAL.to_result(), json!([]))
            }
            "cmpext" => {
                let outcome = io.execute_read(oid, reading(ReadOp::new(), op)).await;
                (ret(&self.outcome(outcome)), json!([]))
            }
            _ => self.change(io, oid, changing(WriteOp::new(), io, op)).await,
        }
    }

    async fn change(&mut self, io: &IoCtx, oid: &str, op: WriteOp) -> (i32, Value) {
        let outcome = io.execute(oid, op, WriteOptions::default()).await;
        (ret(&self.outcome(outcome)), json!([]))
    }

    async fn read(&mut self, io: &IoCtx, oid: &str, offset: u64, len: u64) -> (i32, Value) {
        self.output(io, oid, ReadOp::new().read(offset, len), len as usize).await
    }

    /// Returns the output of a read operation, into a buffer of `room` bytes.
    async fn output(&mut self, io: &IoCtx, oid: &str, op: ReadOp, room: usize) -> (i32, Value) {
        let outcome = io.execute_read(oid, op).await;
        let outcome = self.outcome(outcome);
        let data = match &outcome {
            Ok(outcome) if outcome.result >= 0 => outcome.answers[0].data.clone(),
            _ => return (ret(&outcome), json!([])),
        };
        match data.len() {
            0 => (0, json!([])),
            len if len > room => (Errno::ERANGE.to_result(), json!([])),
            len => (len as i32, json!([shown(&data)])),
        }
    }

    async fn stat(&mut self, io: &IoCtx, oid: &str) -> (i32, Value) {
        let outcome = io.execute_read(oid, ReadOp::new().stat()).await;
        let outcome = self.outcome(outcome);
        let stat = outcome.as_ref().ok().filter(|outcome| outcome.result >= 0);
        let size = stat.map_or(0, |outcome| outcome.answers[0].stat().expect("a size").size);
        (ret(&outcome), json!([size]))
    }

    async fn snap_create(&mut self) -> (i32, Value) {
        if self.snaps.len() == SNAPS_MAX {
            return (0, json!([]));
        }
        let snap = self.pool.create_managed_snapshot().await.expect("a snapshot");
        self.snaps.push(snap);
        (0, json!([snap.0, self.set_context(self.snaps.clone())]))
    }

    fn snap(&self, at: &Value) -> SnapId {
        self.snaps.get(number(at) as usize).copied().unwrap_or(SnapId(1))
    }

    /// Sets the snapshot context of writes.
    fn set_context(&mut self, snaps: Vec<SnapId>) -> i32 {
        let sorted: Vec<SnapId> = BTreeSet::from_iter(snaps).into_iter().rev().collect();
        let seq = self.snaps.last().copied().unwrap_or(SnapId(0));
        match self.pool.with_snap_context(seq, &sorted) {
            Ok(pool) => {
                self.pool = pool;
                0
            }
            Err(e) => -errno(e).0,
        }
    }

    /// Watches an object `count` times, notifies all watches, and lists the watchers.
    async fn watch(&mut self, io: &IoCtx, oid: &str, count: u64) -> (i32, Value) {
        // A stock OSD allows watches, but no notifications, of a removed object that has clones.
        if let Err(e) = io.stat(oid).await {
            return (-errno(e).0, json!([]));
        }
        let mut watches = Vec::new();
        for _ in 0..count {
            match io.watch(oid, Duration::from_secs(30)).await {
                Ok(watch) => watches.push(watch),
                Err(e) => return (-errno(e).0, json!([])),
            }
        }
        let answering = watches.iter_mut().enumerate().map(async |(at, watch)| match watch.next().await {
            Ok(WatchNews::Notified(notification)) => {
                let heard = shown(&notification.payload);
                notification.answer(Bytes::from(vec![at as u8]));
                heard
            }
            other => format!("{other:?}"),
        });
        let notify = io.notify(oid, Bytes::from_static(b"news"), Duration::from_secs(30));
        let (heard, notified) = join(join_all(answering), notify).await;
        let result = match notified {
            Ok(notified) => {
                let mut answers: Vec<String> =
                    notified.answers.values().map(|answer| shown(answer)).collect();
                answers.sort();
                let watchers = io.watchers(oid).await.expect("the object is there");
                (0, json!([heard, answers, notified.missing.len(), watchers.len()]))
            }
            Err(e) => (-errno(e).0, json!([heard])),
        };
        for watch in watches {
            watch.unwatch().await.expect("the watch ends");
        }
        result
    }
}

/// Adds an operation to a write request.
fn changing(all: WriteOp, io: &IoCtx, op: &Value) -> WriteOp {
    let args = &op.as_array().expect("an operation")[2..];
    let more = match text(&op[0]) {
        "write" => all.write(number(&args[0]), bytes(&args[1])),
        "write_full" => all.write_full(bytes(&args[0])),
        "append" => all.append(bytes(&args[0])),
        "writesame" => all.write_same(number(&args[0]), number(&args[1]), bytes(&args[2])),
        "truncate" => all.truncate(number(&args[0])),
        "zero" => all.zero(number(&args[0]), number(&args[1])),
        // librados passes the flags in place of the "exclusive" argument.
        "create" => all.create(number(&args[0]) == 1 && number(&op[1]) == 0),
        "remove" => all.remove(),
        "setxattr" => all.set_xattr(text(&args[0]), bytes(&args[1])),
        "rmxattr" => all.remove_xattr(text(&args[0])),
        "omap_set" => all.set_omap(all_bytes(&args[0]).into_iter().zip(all_bytes(&args[1]))),
        "omap_rm_keys" => all.remove_omap_keys(all_bytes(&args[0])),
        "omap_rm_range" => all.remove_omap_range(bytes(&args[0]), bytes(&args[1])),
        "omap_clear" => all.clear_omap(),
        "omap_set_header" => all.set_omap_header(bytes(&args[0])),
        "set_alloc_hint" => all.set_alloc_hint(number(&args[0]), number(&args[1])),
        "copy_from" => all.copy_from(io, text(&args[0]), number(&args[1])),
        name => all.op(question(name, args)),
    };
    match number(&op[1]) {
        0 => more,
        flags => more.flags(OpFlags::from_bits_retain(flags as u32)),
    }
}

/// Adds an operation to a read request.
fn reading(all: ReadOp, op: &Value) -> ReadOp {
    let more = all.op(question(text(&op[0]), &op.as_array().expect("an operation")[2..]));
    match number(&op[1]) {
        0 => more,
        flags => more.flags(OpFlags::from_bits_retain(flags as u32)),
    }
}

/// An operation that changes nothing.
fn question(name: &str, args: &[Value]) -> OsdOp {
    let extent = |code: OpCode, offset: u64, length: u64, data: Bytes| {
        OsdOp::with_extent(code, Extent { offset, length, ..Extent::default() }, data)
    };
    match name {
        "read" => OsdOp::read(number(&args[0]), number(&args[1])),
        "sparse_read" => extent(OpCode::SPARSE_READ, number(&args[0]), number(&args[1]), Bytes::new()),
        "cmpext" => {
            let data = bytes(&args[1]);
            extent(OpCode::CMPEXT, number(&args[0]), data.len() as u64, data)
        }
        "stat" | "assert_exists" => OsdOp::new(OpCode::STAT),
        "assert_version" => OsdOp::assert_ver(number(&args[0])),
        "cmpxattr" => {
            let (name, value) = (text(&args[0]).as_bytes(), bytes(&args[2]));
            OsdOp::xattr(OpCode::CMPXATTR, name, &value, number(&args[1]) as u8, XattrArgs::MODE_STRING)
        }
        "omap_cmp" => omap_compare(bytes(&args[0]), number(&args[1]) as i32, bytes(&args[2])),
        "getxattrs" => OsdOp::new(OpCode::GETXATTRS),
        "omap_vals" => OsdOp::omap_values(&c_text(&args[0]), number(&args[2]), &c_text(&args[1])),
        "omap_keys" => OsdOp::omap_keys(&c_text(&args[0]), number(&args[1])),
        "omap_by_keys" => OsdOp::omap_values_by_keys(all_bytes(&args[0])),
        "omap_header" => OsdOp::new(OpCode::OMAPGETHEADER),
        "list_watchers" => OsdOp::new(OpCode::LIST_WATCHERS),
        "list_snaps" => OsdOp::new(OpCode::LIST_SNAPS),
        "checksum" => {
            let args: Vec<u64> = args.iter().map(number).collect();
            let [kind, seed, offset, length, chunk_size] = args[..] else { panic!("five numbers") };
            let (kind, seed_bytes) =
                [(ChecksumArgs::XXHASH32, 4), (ChecksumArgs::XXHASH64, 8), (ChecksumArgs::CRC32C, 4)]
                    [kind as usize];
            let seed = Bytes::copy_from_slice(&seed.to_le_bytes()[..seed_bytes]);
            OsdOp::checksum(ChecksumArgs { offset, length, chunk_size: chunk_size as u32, kind }, seed)
        }
        _ => panic!("no operation is named {name}"),
    }
}

/// Whether librados would send a WRITESAME of this length.
fn is_multiple(len: u64, data: &[u8]) -> bool {
    !data.is_empty() && len.is_multiple_of(data.len() as u64)
}

/// OMAP_CMP with any comparison code, including invalid ones.
fn omap_compare(key: Bytes, cmp: i32, value: Bytes) -> OsdOp {
    match CmpOp::from_code(cmp as u8) {
        Some(cmp) => OsdOp::omap_compare([(key, cmp, value)]),
        None => {
            let assertions = std::collections::BTreeMap::from([(key, (value, cmp))]);
            OsdOp::new(OpCode::OMAP_CMP).with_data(assertions.to_bytes())
        }
    }
}

/// The part of an operation's reply that is shown; `None` for operations without one.
fn shown_answer(op: &Value, answer: Option<&Answer>) -> Option<Value> {
    let mut rval = answer.map_or(UNSET, |answer| answer.result);
    let data = answer.map_or(Bytes::new(), |answer| answer.data.clone());
    // librados parses the output of operations that did not fail, even if none was executed, and reports
    // EIO if there is no output.
    let full = answer.filter(|answer| answer.result >= 0 && !answer.data.is_empty());
    let read = ["stat", "omap_vals", "omap_keys", "getxattrs", "omap_by_keys"].contains(&text(&op[0]));
    if read && rval >= 0 && data.is_empty() {
        rval = Errno::EIO.to_result();
    }
    Some(match text(&op[0]) {
        "cmpext" | "omap_cmp" => json!(rval),
        "read" if data.len() as u64 > number(&op[3]) => json!([Errno::ERANGE.to_result(), ""]),
        "read" | "omap_header" | "list_watchers" | "list_snaps" | "checksum" => json!([rval, shown(&data)]),
        "stat" => {
            let stat = full.map(|answer| answer.stat().expect("size and time"));
            let mtime_s = stat.map_or(0, |stat| {
                stat.mtime.duration_since(SystemTime::UNIX_EPOCH).expect("a time since 1970").as_secs()
            });
            let mtime = if mtime_s < 1 << 30 { json!(mtime_s) } else { json!("now") };
            json!([rval, stat.map_or(0, |stat| stat.size), mtime])
        }
        "omap_vals" => {
            let part = full.map(|answer| answer.omap().expect("pairs")).unwrap_or_default();
            json!([rval, u8::from(part.more), shown_pairs(rval, part.pairs)])
        }
        "omap_keys" => {
            let part = full.map(|answer| answer.omap_keys().expect("keys")).unwrap_or_default();
            json!([
                rval,
                u8::from(part.more),
                shown_pairs(rval, part.keys.into_iter().map(|key| (key, Bytes::new())))
            ])
        }
        "getxattrs" | "omap_by_keys" => {
            let pairs = full.map(|answer| answer.map().expect("pairs")).unwrap_or_default();
            json!([rval, 0, shown_pairs(rval, pairs)])
        }
        "sparse_read" => {
            let ranges = full.map(|answer| answer.sparse().expect("ranges")).unwrap_or_default();
            // The store decides which zeros are holes.
            let places = ranges.iter().flat_map(|(from, data)| (*from..).zip(data.iter()));
            let filled = places.filter(|(_, byte)| **byte != 0);
            let filled: Vec<u8> =
                filled.flat_map(|(at, byte)| [&at.to_le_bytes()[..], &[*byte]].concat()).collect();
            json!([rval, shown(&filled)])
        }
        _ => return None,
    })
}

/// `execute.py` shows pairs only if the operation's result is 0; the result may be left by an earlier
/// operation.
fn shown_pairs(rval: i32, pairs: impl IntoIterator<Item = (Bytes, Bytes)>) -> Vec<[String; 2]> {
    let pairs = pairs.into_iter().take(if rval == 0 { usize::MAX } else { 0 });
    pairs.map(|(key, value)| [shown(&key), shown(&value)]).collect()
}

/// All objects with their namespaces and locator keys, sorted, because librados' order differs.
async fn listed(io: &IoCtx) -> Value {
    let mut list = io.objects();
    let mut found = BTreeSet::new();
    while let Some(object) = list.next().await.expect("the listing goes on") {
        found.insert(
            [object.oid, object.locator, object.nspace]
                .map(|part| String::from_utf8_lossy(&part).into_owned()),
        );
    }
    json!(found)
}

/// The listing in pieces, each continued from the cursor where the previous one ended, with the pieces'
/// end cursors.
async fn slices(io: &IoCtx, pieces: &Value) -> Value {
    let mut shown = Vec::new();
    let mut cursor = ListCursor::start();
    for _ in 0..number(pieces) {
        let mut list = io.objects_from(cursor.clone());
        let found = list.next().await.expect("the listing goes on");
        let Some(found) = found else { break };
        let seen = ListCursor::from_bytes(&list.cursor().to_bytes()).expect("a cursor's own bytes");
        shown.push(json!([String::from_utf8_lossy(&found.oid), seen.is_end()]));
        cursor = seen;
    }
    json!(shown)
}

fn ret(outcome: &Result<Outcome, Errno>) -> i32 {
    match outcome {
        Ok(outcome) => outcome.result,
        Err(errno) => errno.to_result(),
    }
}

fn errno(e: Error) -> Errno {
    match e {
        Error::Os(errno) => errno,
        other => panic!("no answer: {other}"),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// `"hex"`, or `[byte, count]` for many equal bytes.
fn bytes(value: &Value) -> Bytes {
    match value {
        Value::String(hex) => {
            let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
            (0..hex.len()).step_by(2).map(byte).collect()
        }
        _ => vec![number(&value[0]) as u8; number(&value[1]) as usize].into(),
    }
}

/// Bytes up to the first zero, as librados takes them if it gets no length.
fn c_text(value: &Value) -> Bytes {
    let bytes = bytes(value);
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.slice(..len)
}

fn all_bytes(value: &Value) -> Vec<Bytes> {
    value.as_array().expect("many").iter().map(bytes).collect()
}

fn shown(data: &[u8]) -> String {
    let hex = |data: &[u8]| data.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if data.len() <= 64 { hex(data) } else { format!("{} bytes {}", data.len(), hex(&Sha256::digest(data))) }
}
