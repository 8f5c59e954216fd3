//! Messages between clients and OSDs: requests on objects and their replies, backoffs, notifications and
//! maps, and the types inside the payloads of operations.

mod backoff;
mod list;
mod map;
mod object;
mod omap;
mod op;
mod opcode;
mod pg_map;
mod reply;
mod request;
mod scrub;
mod snaps;
mod stats;
mod watch;

pub use backoff::{BackoffOp, MOSDBackoff};
pub use list::{ListObject, ListWatchersResponse, PgNlsResponse, WatchItem};
pub use map::MOSDMap;
pub use object::{HObject, ObjectLocator, OsdReqId, RequestRedirect};
pub use omap::{OmapKeys, OmapPairs};
pub use op::{
    AllocHint, CallInput, ChecksumArgs, CmpOp, CopyFrom, Extent, OsdOp, PgLsArgs, WatchArgs, WriteSame,
    XattrArgs,
};
pub use opcode::{OpCode, OpFlags, OsdFlags};
pub use pg_map::{OsdStat, PgMap, PgStat, pg_state};
pub use reply::{MOSDOpReply, OpOutput, OpResult, OsdReply};
pub use request::{Attempt, MOSDOp, Ops};
pub use scrub::{
    DamagedObject, DamagedSnaps, ScrubLs, ScrubLsResult, ScrubbedId, Shard, ShardErrors, object_error,
    shard_error, snaps_error,
};
pub use snaps::{ObjectSnaps, SnapClone};
pub use stats::{ObjectStatSum, PoolStat, StoreStatfs};
pub use watch::{MWatchNotify, WatchEvent};
