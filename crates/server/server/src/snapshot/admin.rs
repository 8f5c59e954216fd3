//! The commands of the admin socket.
//!
//! They are not for `ceph tell`: a client that may do everything in the cluster may not therefore read and
//! write files of the machine.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use loligo_admin::{Admin, Command, Failure, LastingAnswer, Request};
use loligo_logring::{log, text};
use loligo_wire::Errno;
use serde_json::json;
use tokio::task::JoinError;

use super::job::{Job, Outcome};
use super::{SnapshotError, Snapshots, file};

/// Adds the commands. The table must not keep the server.
pub(crate) fn register(admin: &Admin, snapshots: &Arc<Snapshots>) {
    let add = |name: &str, help: &str, run: fn(Arc<Snapshots>, Request) -> LastingAnswer| {
        let of = Arc::downgrade(snapshots);
        Command::lasting(name, help, move |request| match of.upgrade() {
            Some(snapshots) => run(snapshots, request.clone()),
            None => Box::pin(async { Err(refused(&SnapshotError::Stopped)) }),
        })
    };
    let reset = "Return to the state that the server had when it was ready.";
    admin.command(add("server reset", reset, |snapshots, _| {
        Box::pin(async move {
            snapshots.reset().await.map_err(|e| refused(&e))?;
            Ok(String::new())
        })
    }));
    let dump = "Begin to write the server's whole state to a file.";
    admin.command(add("server dump", dump, dump_to).required("path", &[]));
    let restore = "Begin to return to the state of a file.";
    admin.command(add("server restore", restore, restore_from).required("path", &[]));
    let job = "How far the newest dump or restoration is.";
    admin.command(add("server job", job, |snapshots, request| {
        Box::pin(async move { told(&snapshots, &request) })
    }));
}

fn refused(e: &SnapshotError) -> Failure {
    let errno = match e {
        SnapshotError::Busy | SnapshotError::NotReady => Errno::EBUSY,
        SnapshotError::OnDisk => Errno::EOPNOTSUPP,
        _ => Errno::EINVAL,
    };
    Failure { errno, why: e.to_string() }
}

fn path_of(request: &Request) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(request.arg("path").unwrap_or_default());
    match path.is_absolute() {
        true => Ok(path),
        false => Err(Failure::new(format!("{}: an absolute path is needed", path.display()))),
    }
}

fn dump_to(snapshots: Arc<Snapshots>, request: Request) -> LastingAnswer {
    Box::pin(async move {
        let path = path_of(&request)?;
        let snapshot = snapshots.take().await.map_err(|e| refused(&e))?;
        let job = snapshots.jobs.begin(file::estimate(&snapshot)).map_err(|e| refused(&e))?;
        let begun = begun(&request, &job);
        let work = Arc::clone(&job);
        let write = move || file::write(&path, &snapshot, &work.done);
        let runtime = snapshots.runtime.clone();
        run(&snapshots, job, async move { runtime.spawn_blocking(write).await });
        Ok(begun)
    })
}

fn restore_from(snapshots: Arc<Snapshots>, request: Request) -> LastingAnswer {
    Box::pin(async move {
        let path = path_of(&request)?;
        let bytes = size_of_file(&path).map_err(|e| refused(&e))?;
        snapshots.memory().map_err(|e| refused(&e))?;
        let job = snapshots.jobs.begin(bytes).map_err(|e| refused(&e))?;
        let begun = begun(&request, &job);
        let (work, of) = (Arc::clone(&job), Arc::downgrade(&snapshots));
        let runtime = snapshots.runtime.clone();
        let restore = move || runtime.block_on(restored(&of, &path, &work));
        let runtime = snapshots.runtime.clone();
        run(&snapshots, job, async move { runtime.spawn_blocking(restore).await });
        Ok(begun)
    })
}

async fn restored(of: &Weak<Snapshots>, path: &Path, job: &Job) -> Result<(), SnapshotError> {
    let snapshots = of.upgrade().ok_or(SnapshotError::Stopped)?;
    snapshots.restore(path, &job.done).await
}

fn size_of_file(path: &Path) -> Result<u64, SnapshotError> {
    let found = std::fs::metadata(path);
    Ok(found.map_err(|source| SnapshotError::Path { path: path.to_owned(), source })?.len())
}

/// Runs a job on the server's runtime, and records how it ends.
fn run(
    snapshots: &Snapshots,
    job: Arc<Job>,
    work: impl Future<Output = Result<Result<(), SnapshotError>, JoinError>> + Send + 'static,
) {
    snapshots.runtime.spawn(async move {
        let ended = work.await.unwrap_or_else(|e| Err(SnapshotError::System(std::io::Error::other(e))));
        if let Err(e) = &ended {
            log!(MON, 0, "server job {}: {}", job.number, text(e));
        }
        job.end(ended);
    });
}

fn begun(request: &Request, job: &Job) -> String {
    request.json(&json!({ "job": job.number, "bytes": job.bytes }))
}

fn told(snapshots: &Snapshots, request: &Request) -> Result<String, Failure> {
    let job = snapshots.jobs.newest().ok_or_else(|| Failure::missing("there was no dump or restoration"))?;
    let (state, why) = match job.outcome() {
        Outcome::Running => ("running", None),
        Outcome::Done => ("done", None),
        Outcome::Failed(why) => ("failed", Some(why)),
    };
    Ok(request.json(&json!({
        "job": job.number, "bytes": job.bytes, "done": job.done(), "state": state, "why": why,
    })))
}
