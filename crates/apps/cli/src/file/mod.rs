//! `loligo file`: transfers between local files and striped files, in the format of `rados --striper`.

mod appends;
mod args;
mod copy;
mod direct;
mod get;
mod local;
mod note;
mod put;
mod show;
mod sums;
mod tree;
mod xattrs;

use std::time::Duration;

use loligo_stripe::{File, Layout, LayoutError, Striper};

use crate::client::{self, Client, Pool};
use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::note::Note;

pub(crate) use self::args::FileCommand;
use self::args::{LayoutOptions, Transfer};
use self::note::{Look, NOTE, Readable};

/// Threads: one for the network, the other for checksums and copies.
const WORKERS: usize = 2;

pub(crate) fn run(client: Client, command: &FileCommand) -> Result<(), Failure> {
    client::runtime(WORKERS)?.block_on(async {
        let pool = client.pool().await?;
        let done = tokio::select! {
            done = one(&pool, command) => done,
            _ = tokio::signal::ctrl_c() => Err(Failure::new("file", "interrupted")),
        };
        if done.is_err() {
            settle(&pool).await;
        }
        pool.rados.shutdown().await;
        done
    })
}

/// Waits up to two seconds until dropped files have released their locks, which would otherwise stay for
/// a minute.
async fn settle(pool: &Pool) {
    let idle = async {
        while pool.rados.in_flight() != (0, 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // Tasks of their own release the locks; they must start first.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let _ = tokio::time::timeout(Duration::from_secs(2), idle).await;
}

async fn one(pool: &Pool, command: &FileCommand) -> Result<(), Failure> {
    match command {
        FileCommand::Put { name, file, layout, transfer, resume } => {
            let options = put::Options { layout: *layout, transfer: *transfer, resume: *resume };
            put::run(pool, name, file, &options).await
        }
        FileCommand::Append { name, file, layout } => put::append(pool, name, file, *layout).await,
        FileCommand::Get { name, file, transfer, resume, sparse } => {
            let options = get::Options { transfer: *transfer, resume: *resume, sparse: *sparse };
            get::run(pool, name, file, options).await
        }
        FileCommand::Cat { names, offset, length } => get::cat(pool, names, *offset, *length).await,
        FileCommand::Cp { source, destination, layout, sparse } => {
            copy::run(pool, source, destination, *layout, *sparse).await
        }

        FileCommand::Ls { prefix, long } => {
            show::list(pool, prefix.as_deref().unwrap_or_default(), *long).await
        }
        FileCommand::Stat { name } => show::stat(pool, name).await,
        FileCommand::Rm { names } => {
            // Marks the rest of a file whose removal is interrupted.
            let striper = striper(pool).with_mark(NOTE, Note::without_source(0).text());
            for name in names {
                striper.remove(name).await.context(|| pool.names("rm", name))?;
            }
            Ok(())
        }
        FileCommand::Truncate { name, size } => truncate(pool, name, *size).await,
        FileCommand::Setxattr { name, attribute, value } => {
            xattrs::set(pool, name, attribute, value.as_ref()).await
        }
        FileCommand::Getxattr { name, attribute } => xattrs::get(pool, name, attribute).await,
        FileCommand::Rmxattr { name, attribute } => xattrs::remove(pool, name, attribute).await,
        FileCommand::Listxattr { name } => xattrs::list(pool, name).await,
        FileCommand::Layout { name, offset, length } => show::layout(pool, name, *offset, *length).await,
    }
}

/// Sets a file's size. A file that is not whole may be truncated to the part that is, and is whole then.
async fn truncate(pool: &Pool, name: &Name, size: u64) -> Result<(), Failure> {
    let what = || pool.names("truncate", name);
    let look = Look::at(&striper(pool), name.as_bytes()).await.context(what)?;
    let readable = Readable::of(&striper(pool), name.as_bytes()).await.context(what)?;
    if let Some(unfinished) = readable.err().filter(|unfinished| unfinished.whole_to() < size) {
        return Err(Failure::new(what(), unfinished));
    }
    let mark = Note::without_source(size);
    let striper = striper(pool).with_mark(NOTE, mark.text());
    striper.truncate(name, size).await.context(what)?;
    look.take_off_appends(&striper, name.as_bytes()).await.context(what)?;
    // Extending a file leaves no mark.
    for note in look.note.into_iter().chain([mark]) {
        note.take_off(&striper, name.as_bytes()).await.context(what)?;
    }
    Ok(())
}

/// Returns the striper for the pool.
fn striper(pool: &Pool) -> Striper {
    Striper::new(pool.ioctx.clone())
}

impl LayoutOptions {
    /// Returns the layout; `None` if the command line sets none.
    fn layout(&self) -> Result<Option<Layout>, LayoutError> {
        if self.stripe_unit.or(self.stripe_count).or(self.object_size).is_none() {
            return Ok(None);
        }
        let count = self.stripe_count.unwrap_or(1);
        // A large stripe unit without an object size implies objects that hold one.
        let size = self.object_size.unwrap_or_else(|| self.stripe_unit.unwrap_or(0).max(4 << 20));
        let unit = self.stripe_unit.unwrap_or_else(|| if count == 1 { size } else { unit_of(size) });
        Layout::new(unit, count, size).map(Some)
    }
}

/// Returns the largest power of two that divides an object's size, up to 1 MiB.
fn unit_of(object_size: u64) -> u64 {
    1 << object_size.trailing_zeros().min(20)
}

/// Closes a file after work on it. An error of the work takes precedence over one of the closing.
async fn closing<T>(
    file: File,
    done: Result<T, Failure>,
    what: impl FnOnce() -> String,
) -> Result<T, Failure> {
    let closed = file.close().await;
    let done = done?;
    closed.context(what)?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_completed() {
        let of = |unit, count, size| {
            let options = LayoutOptions { stripe_unit: unit, stripe_count: count, object_size: size };
            options
                .layout()
                .map(|layout| layout.map(|l| (l.stripe_unit(), l.stripe_count(), l.object_size())))
        };
        let (k64, m) = (64 << 10, 1 << 20);
        assert_eq!(of(None, None, None), Ok(None));
        assert_eq!(of(None, None, Some(8 * m)), Ok(Some((8 * m, 1, 8 * m))));
        assert_eq!(of(None, Some(4), None), Ok(Some((m, 4, 4 * m))));
        assert_eq!(of(None, Some(4), Some(3 * k64)), Ok(Some((k64, 4, 3 * k64))));
        assert_eq!(of(Some(16 * m), None, None), Ok(Some((16 * m, 1, 16 * m))));
        assert_eq!(of(Some(k64), None, None), Ok(Some((k64, 1, 4 * m))));
        assert!(of(Some(1000), None, None).is_err() && of(None, Some(0), None).is_err());
    }
}
