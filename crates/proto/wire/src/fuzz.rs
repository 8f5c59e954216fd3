//! Entry points for fuzzing, and the file format of the fuzz corpus.
//!
//! A corpus file is one received message, after the frame was opened: kind, version, compat version and
//! priority in 16 bits each, tid in 64, the lengths of front, middle and data in 32 bits each (all
//! little-endian), then the three parts. Files named after a Ceph release were captured from that
//! release.

use bytes::Bytes;

use crate::message::{Data, Header, Message, Msg, mds, mgr, mon, osd};
use crate::{Decode, DecodeError, Encode, Reader, Tid};

/// Decodes any message. If that succeeds, checks that encoding and decoding it again changes nothing.
pub fn messages(data: &[u8]) {
    let Ok(msg) = parse(data) else { return };
    if let Some(Ok(again)) = recode(&msg) {
        let third = recode(&again).expect("the same kind").expect("what we wrote opens");
        assert_eq!((&again.front, again.data_len()), (&third.front, third.data_len()));
    }
    let _ = osd::OsdReply::open(&msg);
    mds_contents(&msg);
}

/// Decodes what messages of CephFS contain in a form that depends on other messages. If that succeeds,
/// checks that encoding and decoding it again changes nothing.
fn mds_contents(msg: &Msg) {
    if let Ok(reply) = msg.open::<mds::ClientReply>() {
        unchanged::<mds::ReaddirExtra>(&reply.extra);
        unchanged::<mds::VxattrExtra>(&reply.extra);
        unchanged::<mds::FileLockRecord>(&reply.extra);
        if let Ok(Some(created)) = mds::CreateExtra::from_extra(&reply.extra) {
            assert_eq!(mds::CreateExtra::from_extra(&created.to_bytes()), Ok(Some(created)));
        }
        realms(&reply.snap);
        reply.trace.target.iter().for_each(|target| unchanged::<mds::Xattrs>(&target.xattrs));
    }
    if let Ok(caps) = msg.open::<mds::ClientCaps>() {
        realms(&caps.snap_trace);
        unchanged::<mds::HeldLocks>(&caps.locks);
        unchanged::<mds::Xattrs>(&caps.xattrs);
    }
    if let Ok(snap) = msg.open::<mds::ClientSnap>() {
        realms(&snap.trace);
    }
    if let Ok(request) = msg.open::<mds::ClientRequest>() {
        unchanged::<mds::Xattrs>(&request.data);
        unchanged::<mds::SnapPayload>(&request.data);
    }
    if let Ok(reconnect) = msg.open::<mds::ClientReconnect>() {
        reconnect.caps.values().for_each(|cap| unchanged::<mds::HeldLocks>(&cap.locks));
    }
}

fn unchanged<T: Decode + Encode + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok(value) = T::from_bytes(bytes) {
        assert_eq!(T::from_bytes(&value.to_bytes()), Ok(value));
    }
}

fn realms(blob: &[u8]) {
    for with_changes in [false, true] {
        if let Ok(trace) = mds::SnapTrace::from_blob(blob, with_changes) {
            let again = mds::SnapTrace::from_blob(&trace.to_blob(with_changes), with_changes);
            assert_eq!(again, Ok(trace));
        }
    }
}

/// Parses a corpus file.
pub fn parse(data: &[u8]) -> Result<Msg, DecodeError> {
    let mut r = Reader::new(data);
    let header = Header {
        kind: r.u16()?,
        version: r.u16()?,
        compat_version: r.u16()?,
        priority: r.u16()?,
        tid: Tid(r.u64()?),
        ..Header::default()
    };
    let (front, middle, bulk) = (r.u32()? as usize, r.u32()? as usize, r.u32()? as usize);
    let front = Bytes::copy_from_slice(r.raw(front)?);
    let middle = Bytes::copy_from_slice(r.raw(middle)?);
    let bulk = Bytes::copy_from_slice(r.raw(bulk)?);
    let data = if bulk.is_empty() { Data::new() } else { Data::from_buf([bulk]) };
    Ok(Msg { header, front, middle, data, data_crc: None })
}

/// Decodes a message and encodes it again. Returns `None` if the message's kind is unknown.
pub fn recode(msg: &Msg) -> Option<Result<Msg, DecodeError>> {
    fn one<M: Message>(msg: &Msg) -> Result<Msg, DecodeError> {
        msg.open::<M>().map(|body| Msg::new(&body))
    }
    macro_rules! by_kind {
        ($($body:ty),* $(,)?) => {
            match msg.header.kind {
                $(<$body>::KIND => Some(one::<$body>(msg)),)*
                _ => None,
            }
        };
    }
    by_kind!(
        mds::ClientCapRelease,
        mds::ClientCaps,
        mds::ClientLease,
        mds::ClientMetrics,
        mds::ClientQuota,
        mds::ClientReclaim,
        mds::ClientReclaimReply,
        mds::ClientReconnect,
        mds::ClientReply,
        mds::ClientRequest,
        mds::ClientSession,
        mds::ClientSnap,
        mds::RequestForward,
        osd::MOSDOp,
        osd::MOSDOpReply,
        osd::MOSDBackoff,
        osd::MOSDMap,
        osd::MWatchNotify,
        mgr::MMgrClose,
        mgr::MMgrCommand,
        mgr::MMgrCommandReply,
        mgr::MMgrConfigure,
        mgr::MMgrOpen,
        mgr::MMgrReport,
        mon::MAuth,
        mon::MAuthReply,
        mon::MCommand,
        mon::MCommandReply,
        mon::MConfig,
        mon::MFSMap,
        mon::MFSMapUser,
        mon::MGetPoolStats,
        mon::MGetPoolStatsReply,
        mon::MLog,
        mon::MLogAck,
        mon::MMDSMap,
        mon::MMgrMap,
        mon::MMonCommand,
        mon::MMonCommandAck,
        mon::MMonGetMap,
        mon::MMonGetVersion,
        mon::MMonGetVersionReply,
        mon::MMonMap,
        mon::MMonSubscribe,
        mon::MMonSubscribeAck,
        mon::MPing,
        mon::MPoolOp,
        mon::MPoolOpReply,
        mon::MStatfs,
        mon::MStatfsReply,
    )
}
