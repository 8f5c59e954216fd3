//! Commands on pools.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::Subcommand;
use futures_util::TryStreamExt as _;
use serde_json::json;

use crate::client::{self, Client, Pool};
use crate::export::{self, ImportOptions};
use crate::failure::{Context, Failure};
use crate::format::Format;
use crate::name;
use crate::say::Stdout;
use crate::words::CalledAs;

/// Commands on pools.
#[derive(Subcommand)]
pub(crate) enum PoolCommand {
    /// List the pools.
    Lspools,
    /// List the objects of a pool.
    Ls {
        /// In all namespaces.
        #[arg(long)]
        all: bool,
    },
    /// Remove all objects of a pool, of all namespaces; the pool stays.
    Purge {
        #[arg(value_name = "POOL")]
        purged: String,
        /// Nothing brings them back.
        #[arg(long)]
        yes_i_really_really_mean_it: bool,
    },
    /// Copy all objects of a pool, of all namespaces, into another pool: data, attributes, maps and locators.
    ///
    /// Not copied are snapshots, watches, times of modification, allocation hints, and what the pool itself
    /// is set to. Objects that are written meanwhile may be copied in a state between.
    Cppool {
        #[arg(value_name = "POOL")]
        copied: String,
        #[arg(value_name = "DESTINATION")]
        destination: String,
        /// Copy a pool with snapshots of its clients' own (images, for one), which the copy lacks.
        #[arg(long)]
        yes_i_really_mean_it: bool,
    },
    /// Write all objects of the pool, of all namespaces, into a file, in the format of `rados export`.
    Export {
        /// The file; - or none is standard output.
        file: Option<PathBuf>,
    },
    /// Read a file that `export` wrote into the pool.
    Import {
        /// The file; - is standard input.
        file: PathBuf,
        /// Only say what would be written.
        #[arg(long)]
        dry_run: bool,
        /// Leave objects alone that are there already.
        #[arg(long)]
        no_overwrite: bool,
    },
}

pub(crate) fn run(client: Client, command: &PoolCommand) -> Result<(), Failure> {
    client::runtime(1)?.block_on(async {
        match command {
            PoolCommand::Lspools => lspools(client).await,
            PoolCommand::Ls { all } => ls(client, *all).await,
            PoolCommand::Purge { purged, yes_i_really_really_mean_it } => {
                purge(client, purged, *yes_i_really_really_mean_it).await
            }
            PoolCommand::Cppool { copied, destination, yes_i_really_mean_it } => {
                copy(client, copied, destination, *yes_i_really_mean_it).await
            }
            PoolCommand::Export { file } => {
                let pool = client.pool().await?;
                let done = export::export(&pool, file.as_deref()).await;
                pool.rados.shutdown().await;
                done
            }
            PoolCommand::Import { file, dry_run, no_overwrite } => {
                let options = ImportOptions { dry_run: *dry_run, no_overwrite: *no_overwrite };
                let pool = client.pool().await?;
                let done = export::import(&pool, file, options).await;
                pool.rados.shutdown().await;
                done
            }
        }
    })
}

async fn lspools(client: Client) -> Result<(), Failure> {
    let format = client.format;
    let rados = client.cluster().await?;
    let names: Vec<String> = rados.pools().into_iter().map(|(_, name)| name).collect();
    match format {
        Format::Plain => names.iter().for_each(|name| sayln!("{name}")),
        _ => format.print("pools", "name", &json!(names)),
    }
    rados.shutdown().await;
    Ok(())
}

async fn ls(client: Client, all: bool) -> Result<(), Failure> {
    let pool = client.pool().await?;
    // Plain output has a line for each object as it is listed. Stock `rados` prints JSON as one value.
    let is_listed = match pool.format {
        Format::Plain => false,
        Format::Json => CalledAs::now() == CalledAs::Rados,
        _ => true,
    };
    let mut listed = Vec::new();
    let mut list = if all { pool.ioctx.objects_of_all_namespaces() } else { pool.ioctx.objects() };
    let mut out = BufWriter::new(Stdout);
    let write_failed = |e| Failure::new("write standard output", e);
    loop {
        let batch = list.next_batch().await.context(|| format!("ls {}", pool.name))?;
        if batch.is_empty() {
            break;
        }
        for object in batch {
            match pool.format {
                Format::Plain => {
                    if all {
                        out.write_all(&object.nspace)
                            .and_then(|()| out.write_all(b"\t"))
                            .map_err(write_failed)?;
                    }
                    out.write_all(&object.oid).map_err(write_failed)?;
                    if !object.locator.is_empty() {
                        out.write_all(b"\t")
                            .and_then(|()| out.write_all(&object.locator))
                            .map_err(write_failed)?;
                    }
                    out.write_all(b"\n").map_err(write_failed)?;
                }
                _ => {
                    let mut line = json!({"namespace": name::text(&object.nspace),
                                          "name": name::text(&object.oid),
                                          "locator": name::text(&object.locator)});
                    if is_listed {
                        if let Some(fields) = line.as_object_mut().filter(|_| object.locator.is_empty()) {
                            fields.remove("locator");
                        }
                        listed.push(line);
                    } else {
                        writeln!(out, "{}", name::line(&line)).map_err(write_failed)?;
                    }
                }
            }
        }
    }
    out.flush().map_err(write_failed)?;
    drop(out);
    if is_listed {
        pool.format.print("objects", "object", &json!(listed));
    }
    pool.rados.shutdown().await;
    Ok(())
}

/// Maximum number of concurrent removals.
const REMOVALS: usize = 64;

async fn purge(client: Client, name: &str, sure: bool) -> Result<(), Failure> {
    if !sure {
        let warning =
            "this removes all its objects for good; say --yes-i-really-really-mean-it if that is meant";
        return Err(Failure::new(format!("purge {name}"), warning));
    }
    let what = || format!("purge {name}");
    let rados = client.cluster().await?;
    let ioctx = rados.ioctx(name).await.context(what)?;
    let removed = ioctx
        .objects_of_all_namespaces()
        .map_ok(|object| {
            let of_object = ioctx.with_namespace(object.nspace).with_locator(object.locator);
            async move {
                match of_object.remove(object.oid).await {
                    Err(e) if !e.is_not_found() => Err(e),
                    _ => Ok(1u64),
                }
            }
        })
        .try_buffer_unordered(REMOVALS)
        .try_fold(0, |sum, one| async move { Ok(sum + one) })
        .await
        .context(what)?;
    rados.shutdown().await;
    sayln!("successfully purged pool {name}: {removed} objects");
    Ok(())
}

async fn copy(client: Client, from: &str, to: &str, sure: bool) -> Result<(), Failure> {
    let format = client.format;
    if from == to {
        return Err(Failure::new(format!("cppool {from}"), "a pool cannot be copied into itself"));
    }
    let rados = client.cluster().await?;
    let ioctx = rados.ioctx(from).await.context(|| format!("open pool {from}"))?;
    let destination = rados.ioctx(to).await.context(|| format!("open pool {to}"))?;
    // `rados cppool` has the same check.
    if !sure && ioctx.has_managed_snapshots() {
        let warning = "the pool has snapshots of its clients' own, as those of images are, and the copy would lack them; \
                       say --yes-i-really-mean-it if that is meant";
        return Err(Failure::new(format!("cppool {from}"), warning));
    }
    let pool = Pool { rados: rados.clone(), ioctx, name: from.to_owned(), format };
    export::copy_pool(&pool, &destination).await?;
    rados.shutdown().await;
    Ok(())
}
