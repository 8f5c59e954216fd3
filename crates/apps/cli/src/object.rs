//! Commands on objects, named as `rados` names them.

use std::io::{Read, Write};
use std::time::{Duration, UNIX_EPOCH};

use loligo_rados::{WhenFull, WriteOp, WriteOptions};
use loligo_wire::UTime;
use serde_json::json;

use crate::args::{Command, Format};
use crate::client::{Client, Pool};
use crate::export::{self, ImportOptions};
use crate::failure::{Context, Failure};
use crate::name::{self, Name};
use crate::say::Stdout;
use crate::{locks, omap, snaps, transfer, watch};

pub(crate) async fn run(client: Client, command: &Command) -> Result<(), Failure> {
    let mut pool = client.pool().await?;
    if let Command::Put { force_full: true, .. } | Command::Rm { force_full: true, .. } = command {
        pool.ioctx = pool.ioctx.with_when_full(WhenFull::Force);
    }
    let done = one(&pool, command).await;
    pool.rados.shutdown().await;
    done
}

async fn one(pool: &Pool, command: &Command) -> Result<(), Failure> {
    let io = &pool.ioctx;
    match command {
        Command::Put { object, file, offset, .. } => transfer::put(pool, object, file, *offset).await,
        Command::Get { object, file, offset } => transfer::get(pool, object, file, *offset).await,
        Command::Append { object, file } => transfer::append(pool, object, file).await,
        Command::Create { object } => {
            io.create(object.as_bytes(), true).await.context(|| pool.names("create", object))
        }
        Command::Rm { objects, .. } => {
            for object in objects {
                io.remove(object.as_bytes()).await.context(|| pool.names("rm", object))?;
            }
            Ok(())
        }
        Command::Stat { object } => stat(pool, object).await,
        Command::Touch { object, timestamp } => touch(pool, object, *timestamp).await,
        Command::Mapext { object } => map_extents(pool, object).await,
        Command::SetAllocHint { object, expected_object_size, expected_write_size } => {
            let hint = WriteOp::new().set_alloc_hint(*expected_object_size, *expected_write_size);
            io.operate(object.as_bytes(), hint).await.context(|| pool.names("set-alloc-hint", object))
        }
        Command::Export { file } => export::export(pool, file.as_deref()).await,
        Command::Import { file, dry_run, no_overwrite } => {
            let options = ImportOptions { dry_run: *dry_run, no_overwrite: *no_overwrite };
            export::import(pool, file, options).await
        }
        Command::Truncate { object, size } => {
            io.truncate(object.as_bytes(), *size).await.context(|| pool.names("truncate", object))
        }
        Command::Setxattr { object, name, value } => {
            let value = given_or_read(value.as_ref())?;
            let done = io.set_xattr(object.as_bytes(), name, value).await;
            done.context(|| format!("{} {name}", pool.names("setxattr", object)))
        }
        Command::Getxattr { object, name } => {
            let value = io.xattr(object.as_bytes(), name).await;
            print_bytes(&value.context(|| format!("{} {name}", pool.names("getxattr", object)))?)
        }
        Command::Rmxattr { object, name } => {
            let done = io.remove_xattr(object.as_bytes(), name).await;
            done.context(|| format!("{} {name}", pool.names("rmxattr", object)))
        }
        Command::Listxattr { object } => list_xattrs(pool, object).await,
        Command::Cp { source, destination, target_pool } => {
            let target = match target_pool {
                Some(name) => pool.rados.ioctx(name).await.context(|| format!("open pool {name}"))?,
                None => io.clone(),
            };
            let target = target.with_namespace(io.namespace().to_vec());
            let copy = WriteOp::new().copy_from(io, source, 0);
            target.operate(destination.as_bytes(), copy).await.context(|| pool.names("cp", source))
        }
        Command::Lock(command) => locks::run(pool, command).await,
        Command::Watch { object } => watch::watch(pool, object).await,
        Command::Notify { object, message } => watch::notify(pool, object, message).await,
        Command::Listwatchers { object } => watch::list(pool, object).await,
        Command::Lssnap
        | Command::Mksnap { .. }
        | Command::Rmsnap { .. }
        | Command::Listsnaps { .. }
        | Command::Rollback { .. } => snaps::run(pool, command).await,
        other => omap::run(pool, other).await,
    }
}

async fn stat(pool: &Pool, object: &Name) -> Result<(), Failure> {
    let stat = pool.ioctx.stat(object.as_bytes()).await.context(|| pool.names("stat", object))?;
    let mtime = UTime::from_system(stat.mtime);
    match pool.format {
        Format::Plain => {
            let (begin, end) = (format!("{}/", pool.name), format!(" mtime {mtime}, size {}\n", stat.size));
            return print_bytes(&[begin.as_bytes(), object.as_bytes(), end.as_bytes()].concat());
        }
        _ => {
            let shown = json!({"object": name::text(object), "size": stat.size, "mtime": mtime.to_string()});
            pool.format.print("object", "item", &shown);
        }
    }
    Ok(())
}

async fn touch(pool: &Pool, object: &Name, timestamp: Option<u64>) -> Result<(), Failure> {
    let mtime = timestamp.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
    let options = WriteOptions { mtime, ..WriteOptions::default() };
    let what = || pool.names("touch", object);
    let done =
        pool.ioctx.execute(object.as_bytes(), WriteOp::new().create(false), options).await.context(what)?;
    match done.errno() {
        None => Ok(()),
        Some(errno) => Err(Failure::new(what(), errno)),
    }
}

async fn map_extents(pool: &Pool, object: &Name) -> Result<(), Failure> {
    let extents =
        pool.ioctx.extents(object.as_bytes(), 0, u64::MAX).await.context(|| pool.names("mapext", object))?;
    match pool.format {
        Format::Plain => extents.iter().for_each(|(offset, len)| sayln!("{offset:x}\t{len:x}")),
        _ => {
            let extents = extents.iter().map(|(offset, length)| json!({"offset": offset, "length": length}));
            pool.format.print("extents", "extent", &json!(extents.collect::<Vec<_>>()));
        }
    }
    Ok(())
}

async fn list_xattrs(pool: &Pool, object: &Name) -> Result<(), Failure> {
    let xattrs = pool.ioctx.xattrs(object.as_bytes()).await.context(|| pool.names("listxattr", object))?;
    match pool.format {
        Format::Plain => print_lines(xattrs.keys()),
        _ => {
            let names: Vec<_> = xattrs.keys().map(|name| name::text(name)).collect();
            pool.format.print("xattrs", "name", &json!(names));
            Ok(())
        }
    }
}

/// A value of the command line, or all of standard input.
pub(crate) fn given_or_read(given: Option<&Name>) -> Result<Vec<u8>, Failure> {
    if let Some(given) = given {
        return Ok(given.as_bytes().to_vec());
    }
    let mut value = Vec::new();
    std::io::stdin().read_to_end(&mut value).context(|| "read standard input".to_owned())?;
    Ok(value)
}

/// One name a line, as its bytes are.
pub(crate) fn print_lines<N: AsRef<[u8]>>(names: impl Iterator<Item = N>) -> Result<(), Failure> {
    names.into_iter().try_for_each(|name| print_bytes(&[name.as_ref(), b"\n"].concat()))
}

pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = Stdout;
    out.write_all(bytes).and_then(|()| out.flush()).context(|| "write standard output".to_owned())
}
