//! `loligo cleanup`: removes the objects of a bench, as `rados cleanup` does.

use std::time::Instant;

use futures_util::TryStreamExt as _;
use loligo_rados::ObjectList;

use super::args::Cleanup;
use super::metadata::{Metadata, PREFIX, prefix};
use super::{REMOVALS, remove_all};
use crate::client::{self, Client, Pool};
use crate::failure::{Context, Failure};

/// Removes the objects of a run, or those whose names begin with `of`. Without either, and without the
/// metadata of an unnamed run, it removes all of this machine's objects. `--all` searches all namespaces
/// by name, since each namespace has its own metadata.
pub(crate) fn run(client: Client, options: &Cleanup) -> Result<(), Failure> {
    let (run_name, of, all) = (options.run_name.as_deref(), options.prefix.as_deref(), options.all);
    if let Some(of) = of.filter(|of| !of.starts_with(PREFIX)) {
        return Err(Failure::new(format!("cleanup --prefix {of}"), format!("it must begin with {PREFIX}")));
    }
    client::runtime(1)?.block_on(async {
        let pool = client.pool().await?;
        let began = Instant::now();
        let removed = match all {
            false => removed(&pool, run_name, of).await?,
            true => {
                let word = of.is_none().then(|| Metadata::object_name(run_name));
                search(&pool, of.unwrap_or(&prefix()), word, pool.ioctx.objects_of_all_namespaces()).await?
            }
        };
        sayln!("Removed {removed} objects in {:.1} s", began.elapsed().as_secs_f64());
        pool.rados.shutdown().await;
        Ok(())
    })
}

async fn removed(pool: &Pool, run_name: Option<&str>, of: Option<&str>) -> Result<u64, Failure> {
    if let Some(of) = of {
        return search(pool, of, None, pool.ioctx.objects()).await;
    }
    let name = Metadata::object_name(run_name);
    match pool.ioctx.stat(name).await {
        // An interrupted run leaves no metadata, only objects. A given name may be mistyped, so nothing
        // is removed for it.
        Err(e) if e.is_not_found() && run_name.is_none() => {
            return search(pool, &prefix(), None, pool.ioctx.objects()).await;
        }
        _ => {}
    }
    let metadata = Metadata::read(pool, run_name).await?;
    remove_all(pool, &metadata).await?;
    pool.ioctx.remove(name).await.context(|| pool.names("cleanup", name))?;
    Ok(metadata.objects())
}

/// Removes the listed objects whose names begin with `prefix`, and those named `word`, which are not
/// counted.
async fn search(pool: &Pool, prefix: &str, word: Option<&str>, listed: ObjectList) -> Result<u64, Failure> {
    let what = || pool.names("cleanup", prefix);
    let is_word = |oid: &[u8]| word.is_some_and(|word| oid == word.as_bytes());
    listed
        .try_filter(|object| {
            std::future::ready(object.oid.starts_with(prefix.as_bytes()) || is_word(&object.oid))
        })
        .map_ok(|object| async move {
            let counts = u64::from(!is_word(&object.oid));
            let io = pool.ioctx.with_namespace(object.nspace).with_locator(object.locator);
            match io.remove(object.oid).await {
                Err(e) if !e.is_not_found() => Err(e),
                _ => Ok(counts),
            }
        })
        .try_buffer_unordered(REMOVALS)
        .try_fold(0, |sum, one| async move { Ok(sum + one) })
        .await
        .context(what)
}
