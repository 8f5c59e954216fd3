//! Messages between CephFS clients and metadata servers.
//!
//! A client opens a session ([`ClientSession`]), sends requests ([`ClientRequest`], [`ClientReply`]) and
//! exchanges capabilities ([`ClientCaps`]). The forms are those that releases 16 to 20 use with each
//! other; the version of a message or struct follows from its contents where the releases differ.

mod caps;
mod features;
mod frag;
mod inode;
mod lease;
mod metrics;
mod op;
mod quota;
mod reconnect;
mod reply;
mod request;
mod session;
mod snap;

pub use caps::{CapFile, CapOp, CapPeer, CapRelease, ClientCapRelease, ClientCaps, DirCounts};
pub use features::{FeatureBits, feature};
pub use frag::{Frag, FragTree};
pub use inode::{FileLayout, InodeStat, RecursiveStat, ReplyCap, Xattrs};
pub use lease::{ClientLease, LeaseAction, LeaseStat};
pub use metrics::{ClientMetric, ClientMetrics, Latency, LatencySpread, OfInodes};
pub use op::{FileLock, LookupIno, OpenArgs, ReadDirArgs, RequestOp, SetAttr};
pub use quota::{ClientQuota, Quota};
pub use reconnect::{
    CapReconnect, ClientReclaim, ClientReclaimReply, ClientReconnect, FileLockRecord, HeldLocks,
    RealmReconnect,
};
pub use reply::{
    ClientReply, CreateExtra, DentryTrace, DirStat, ReaddirEntry, ReaddirExtra, Trace, VxattrExtra,
};
pub use request::{ClientRequest, FilePath, Fscrypt, HeadVersion, RequestForward, RequestRelease};
pub use session::{CapAuth, ClientSession, SessionOp};
pub use snap::{ClientSnap, SnapOp, SnapPayload, SnapRealmChange, SnapRealmInfo, SnapTrace};
