//! Asking for a lock, and waiting for it as long as the caller does.

use std::sync::Arc;

use loligo_rados::Errno;
use loligo_wire::message::mds::{FileLock, RequestOp};
use tokio::sync::oneshot;

use super::held::Rule;
use crate::error::Error;
use crate::inode::Inode;
use crate::mount::FileSystem;
use crate::session::Request;

/// Asks for a lock, and notes it.
pub(super) async fn ask(
    fs: &FileSystem,
    inode: &Arc<Inode>,
    rule: Rule,
    args: FileLock,
) -> Result<(), Error> {
    if !args.wait {
        return set(fs, inode, rule, args).await;
    }
    let (stop, stopped) = oneshot::channel::<()>();
    let (tell, told) = oneshot::channel();
    // The request goes on without its caller, until the server has ended it one way or the other.
    tokio::spawn(waiting(fs.clone(), Arc::clone(inode), rule, args, stopped, tell));
    let done = told.await.unwrap_or(Err(Error::Unmounted));
    drop(stop);
    done
}

/// Waits for a lock on behalf of a caller, and tells the caller. `stopped` ends when the caller waits no
/// longer.
async fn waiting(
    fs: FileSystem,
    inode: Arc<Inode>,
    rule: Rule,
    args: FileLock,
    stopped: oneshot::Receiver<()>,
    tell: oneshot::Sender<Result<(), Error>>,
) {
    let asked = set(&fs, &inode, rule, args);
    tokio::pin!(asked);
    let done = tokio::select! {
        done = &mut asked => done,
        _ = stopped => {
            let _ = interrupt(&fs, &inode, rule, args).await;
            asked.await
        }
    };
    if let Err(Ok(())) = tell.send(done) {
        // It was granted, and nobody wants it any more.
        let unlock = FileLock { kind: FileLock::UNLOCK, wait: false, ..args };
        let _ = set(&fs, &inode, rule, unlock).await;
    }
}

/// Sends a request for a lock, and notes what is granted.
async fn set(fs: &FileSystem, inode: &Arc<Inode>, rule: Rule, args: FileLock) -> Result<(), Error> {
    fs.call(Request::about(inode, RequestOp::SetFileLock(args))).await?;
    inode.known().locks.set(rule, &args);
    Ok(())
}

/// Ends the waiting of a request that the server has: it is answered with EINTR.
async fn interrupt(fs: &FileSystem, inode: &Arc<Inode>, rule: Rule, args: FileLock) -> Result<(), Error> {
    let args = FileLock { rule: rule.interrupt(), kind: FileLock::UNLOCK, ..args };
    match fs.call(Request::about(inode, RequestOp::SetFileLock(args))).await {
        Err(e) if e.errno() == Errno::ENOENT => Ok(()),
        done => done.map(drop),
    }
}
