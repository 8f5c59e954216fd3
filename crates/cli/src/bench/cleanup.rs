//! `loligo cleanup`: removes what a bench left behind, as `rados cleanup` does.

use std::time::Instant;

use futures_util::TryStreamExt as _;

use super::metadata::{Metadata, PREFIX, prefix};
use super::{REMOVALS, remove_all};
use crate::client::{self, Client, Pool};
use crate::failure::{Context, Failure};

/// Removes the objects of a run; those that begin with `of`; or, where no run without a name has left word,
/// all of this machine's.
pub(crate) fn run(client: Client, run_name: Option<&str>, of: Option<&str>) -> Result<(), Failure> {
    if let Some(of) = of.filter(|of| !of.starts_with(PREFIX)) {
        return Err(Failure::new(format!("cleanup --prefix {of}"), format!("it must begin with {PREFIX}")));
    }
    client::runtime(1)?.block_on(async {
        let pool = client.pool().await?;
        let began = Instant::now();
        let removed = removed(&pool, run_name, of).await?;
        sayln!("Removed {removed} objects in {:.1} s", began.elapsed().as_secs_f64());
        pool.rados.shutdown().await;
        Ok(())
    })
}

async fn removed(pool: &Pool, run_name: Option<&str>, of: Option<&str>) -> Result<u64, Failure> {
    if let Some(of) = of {
        return search(pool, of).await;
    }
    let name = Metadata::object_name(run_name);
    match pool.ioctx.stat(name).await {
        // Of an interrupted run only its objects tell. A name that was given may be mistyped: nothing is
        // removed for it.
        Err(e) if e.is_not_found() && run_name.is_none() => return search(pool, &prefix()).await,
        _ => {}
    }
    let metadata = Metadata::read(pool, run_name).await?;
    remove_all(pool, &metadata).await?;
    pool.ioctx.remove(name).await.context(|| pool.names("cleanup", name))?;
    Ok(metadata.objects)
}

/// Removes the objects whose names begin so, of the namespace.
async fn search(pool: &Pool, prefix: &str) -> Result<u64, Failure> {
    let what = || pool.names("cleanup", prefix);
    pool.ioctx
        .objects()
        .try_filter(|object| std::future::ready(object.oid.starts_with(prefix.as_bytes())))
        .map_ok(|object| async move {
            let io = pool.ioctx.with_locator(object.locator);
            match io.remove(object.oid).await {
                Err(e) if !e.is_not_found() => Err(e),
                _ => Ok(1),
            }
        })
        .try_buffer_unordered(REMOVALS)
        .try_fold(0, |sum, one| async move { Ok(sum + one) })
        .await
        .context(what)
}
