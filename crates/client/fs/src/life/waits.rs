//! What a mount waits for, in words, for programs that tell their users why nothing happens.

use std::time::Duration;

use loligo_cluster::{Gathered, Observed, Reason, Waiter};
use loligo_wire::message::mds::RequestOp;

use crate::core::Core;
use crate::session::Request;

impl Observed for Core {
    fn waits(&self, age_min: Duration, into: &mut Gathered) {
        let now = self.now_ms();
        let age = |since: u64| Duration::from_millis(now.saturating_sub(since));
        let fs = self.fs_name();
        for session in self.all_sessions() {
            let old: Vec<_> = {
                let state = session.state();
                let old = state.pending.values().filter(|flight| age(flight.sent_ms) >= age_min);
                old.map(|flight| (flight.sent_ms, flight.request.clone())).collect()
            };
            for (since, request) in old {
                let reason = Reason::MdsAnswer { rank: session.rank, fs: fs.clone() };
                into.add(Waiter::Metadata, age(since), || Some(in_words(&request)), reason);
            }
        }
    }
}

/// Describes a request.
fn in_words(request: &Request) -> String {
    format!("{} {}", name(&request.op), request.path)
}

/// Returns the name of an operation, as stock servers print it.
fn name(op: &RequestOp) -> String {
    let name = match op {
        RequestOp::Lookup { .. } => "lookup",
        RequestOp::GetAttr { .. } => "getattr",
        RequestOp::LookupParent { .. } => "lookupparent",
        RequestOp::LookupIno(_) => "lookupino",
        RequestOp::LookupName { .. } => "lookupname",
        RequestOp::GetVxattr => "getvxattr",
        RequestOp::SetXattr { .. } => "setxattr",
        RequestOp::RmXattr => "rmxattr",
        RequestOp::SetAttr(_) => "setattr",
        RequestOp::SetFileLock(_) => "setfilelock",
        RequestOp::GetFileLock(_) => "getfilelock",
        RequestOp::MkNod { .. } => "mknod",
        RequestOp::Link => "link",
        RequestOp::Unlink => "unlink",
        RequestOp::Rename => "rename",
        RequestOp::MkDir { .. } => "mkdir",
        RequestOp::RmDir => "rmdir",
        RequestOp::SymLink => "symlink",
        RequestOp::Create(_) => "create",
        RequestOp::Open(_) => "open",
        RequestOp::ReadDir(_) => "readdir",
        RequestOp::LookupSnap { .. } => "lookupsnap",
        RequestOp::MkSnap { .. } => "mksnap",
        RequestOp::RmSnap => "rmsnap",
        RequestOp::LsSnap(_) => "lssnap",
        RequestOp::RenameSnap => "renamesnap",
        other => return format!("operation {:#x}", other.code()),
    };
    name.to_owned()
}
