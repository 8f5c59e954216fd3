//! Commands on objects, named as `rados` names them.

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use clap::Subcommand;
use loligo_rados::{WhenFull, WriteOp, WriteOptions};
use loligo_wire::UTime;
use serde_json::json;

use crate::client::{Client, Pool};
use crate::failure::{Context, Failure};
use crate::format::Format;
use crate::name::{self, Name};
use crate::stdio::{given_or_read, print_bytes, print_lines};
use crate::transfer;
use crate::values::size;

/// Commands on an object and its attributes.
#[derive(Subcommand)]
pub(crate) enum ObjectCommand {
    /// Write a file as an object.
    Put {
        object: Name,
        /// The file; - is standard input.
        file: PathBuf,
        /// Write from this byte on, and leave the rest of the object as it is.
        #[arg(long, value_parser = size)]
        offset: Option<u64>,
        /// Write though the pool or the cluster is full; not everybody may.
        #[arg(long)]
        force_full: bool,
    },
    /// Read an object into a file.
    Get {
        object: Name,
        /// The file; - is standard output.
        file: PathBuf,
        /// Read from this byte on.
        #[arg(long, value_parser = size, default_value = "0")]
        offset: u64,
    },
    /// Write a file at the end of an object.
    Append {
        object: Name,
        /// The file; - is standard input.
        file: PathBuf,
    },
    /// Make an empty object, which must not exist.
    Create { object: Name },
    /// Remove objects.
    Rm {
        #[arg(required = true)]
        objects: Vec<Name>,
        /// Remove though the pool or the cluster is full; not everybody may.
        #[arg(long)]
        force_full: bool,
    },
    /// Show an object's size and modification time.
    #[command(alias = "stat2")]
    Stat { object: Name },
    /// Set an object's time of modification, to now, or to a number of seconds since 1970; the object is made
    /// if there is none.
    Touch { object: Name, timestamp: Option<u64> },
    /// Show which parts of an object hold something: offset and length, in hexadecimal.
    Mapext { object: Name },
    /// Tell the store how large an object and writes to it will be.
    SetAllocHint {
        object: Name,
        #[arg(value_parser = size)]
        expected_object_size: u64,
        #[arg(value_parser = size)]
        expected_write_size: u64,
    },
    /// Set an object's size.
    Truncate { object: Name, size: u64 },
    /// Set an extended attribute; without VALUE it is read from standard input.
    Setxattr { object: Name, name: Name, value: Option<Name> },
    /// Print an extended attribute.
    Getxattr { object: Name, name: Name },
    /// Remove an extended attribute.
    Rmxattr { object: Name, name: Name },
    /// List the extended attributes.
    Listxattr { object: Name },
    /// Make an object what another one is, with its attributes and its map.
    Cp {
        source: Name,
        destination: Name,
        /// The pool of the destination, if it is another one.
        #[arg(long, value_name = "POOL")]
        target_pool: Option<String>,
    },
}

pub(crate) fn run(client: Client, command: &ObjectCommand) -> Result<(), Failure> {
    client.in_pool(async |pool| {
        let is_forced = matches!(
            command,
            ObjectCommand::Put { force_full: true, .. } | ObjectCommand::Rm { force_full: true, .. }
        );
        if is_forced {
            pool.ioctx = pool.ioctx.clone().with_when_full(WhenFull::Force);
        }
        one(pool, command).await
    })
}

async fn one(pool: &Pool, command: &ObjectCommand) -> Result<(), Failure> {
    let io = &pool.ioctx;
    match command {
        ObjectCommand::Put { object, file, offset, .. } => transfer::put(pool, object, file, *offset).await,
        ObjectCommand::Get { object, file, offset } => transfer::get(pool, object, file, *offset).await,
        ObjectCommand::Append { object, file } => transfer::append(pool, object, file).await,
        ObjectCommand::Create { object } => {
            io.create(object.as_bytes(), true).await.context(|| pool.names("create", object))
        }
        ObjectCommand::Rm { objects, .. } => {
            for object in objects {
                io.remove(object.as_bytes()).await.context(|| pool.names("rm", object))?;
            }
            Ok(())
        }
        ObjectCommand::Stat { object } => stat(pool, object).await,
        ObjectCommand::Touch { object, timestamp } => touch(pool, object, *timestamp).await,
        ObjectCommand::Mapext { object } => map_extents(pool, object).await,
        ObjectCommand::SetAllocHint { object, expected_object_size, expected_write_size } => {
            let hint = WriteOp::new().set_alloc_hint(*expected_object_size, *expected_write_size);
            io.operate(object.as_bytes(), hint).await.context(|| pool.names("set-alloc-hint", object))
        }
        ObjectCommand::Truncate { object, size } => {
            io.truncate(object.as_bytes(), *size).await.context(|| pool.names("truncate", object))
        }
        ObjectCommand::Setxattr { object, name, value } => {
            let value = given_or_read(value.as_ref())?;
            let done = io.set_xattr(object.as_bytes(), name, value).await;
            done.context(|| format!("{} {name}", pool.names("setxattr", object)))
        }
        ObjectCommand::Getxattr { object, name } => {
            let value = io.xattr(object.as_bytes(), name).await;
            print_bytes(&value.context(|| format!("{} {name}", pool.names("getxattr", object)))?)
        }
        ObjectCommand::Rmxattr { object, name } => {
            let done = io.remove_xattr(object.as_bytes(), name).await;
            done.context(|| format!("{} {name}", pool.names("rmxattr", object)))
        }
        ObjectCommand::Listxattr { object } => list_xattrs(pool, object).await,
        ObjectCommand::Cp { source, destination, target_pool } => {
            let target = match target_pool {
                Some(name) => pool.rados.ioctx(name).await.context(|| format!("open pool {name}"))?,
                None => io.clone(),
            };
            let target = target.with_namespace(io.namespace().to_vec());
            let copy = WriteOp::new().copy_from(io, source, 0);
            target.operate(destination.as_bytes(), copy).await.context(|| pool.names("cp", source))
        }
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
