//! Commands on pools.

use std::io::{BufWriter, Write};

use futures_util::TryStreamExt as _;
use indicatif::HumanBytes;
use serde_json::{Value, json};

use crate::args::{Command, Format};
use crate::client::{Client, Pool};
use crate::export;
use crate::failure::{Context, Failure};
use crate::name;
use crate::say::Stdout;

pub(crate) async fn run(client: Client, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Lspools => lspools(client).await,
        Command::Df { .. } => df(client).await,
        Command::Ls { all } => ls(client, *all).await,
        Command::Purge { purged, yes_i_really_really_mean_it } => {
            purge(client, purged, *yes_i_really_really_mean_it).await
        }
        Command::Cppool { copied, destination, yes_i_really_mean_it } => {
            copy(client, copied, destination, *yes_i_really_mean_it).await
        }
        _ => Err(Failure::new("command", "is not about a pool")),
    }
}

async fn lspools(client: Client) -> Result<(), Failure> {
    let format = client.format;
    let rados = client.cluster().await?;
    let names: Vec<String> = rados.pools().into_iter().map(|(_, name)| name).collect();
    match format {
        Format::Plain => names.iter().for_each(|name| sayln!("{name}")),
        Format::Json => sayln!("{}", json!(names)),
    }
    rados.shutdown().await;
    Ok(())
}

/// What the pools hold, or one of them if one is named.
async fn df(client: Client) -> Result<(), Failure> {
    let (format, only) = (client.format, client.place().0.map(str::to_owned));
    let rados = client.cluster().await?;
    if let Some(only) = &only {
        rados.pool_id(only).await.context(|| format!("open pool {only}"))?;
    }
    let names = rados.pools().into_iter().map(|(_, name)| name);
    let names: Vec<String> = names.filter(|name| only.as_ref().is_none_or(|only| only == name)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let pools = rados.pool_stats(&names).await.context(|| "df".to_owned())?;
    let space = rados.statfs().await.context(|| "df".to_owned())?;
    match format {
        Format::Plain => {
            sayln!("{:<24} {:>12} {:>12} {:>12} {:>12}", "POOL", "OBJECTS", "USED", "READS", "WRITES");
            for (name, stat) in &pools {
                let sum = &stat.sum;
                let used = HumanBytes(sum.num_bytes.cast_unsigned()).to_string();
                sayln!("{name:<24} {:>12} {used:>12} {:>12} {:>12}", sum.num_objects, sum.num_rd, sum.num_wr);
            }
            let kib = |n: u64| HumanBytes(n * 1024);
            sayln!("\nused {} of {}, {} available", kib(space.kb_used), kib(space.kb), kib(space.kb_avail));
        }
        Format::Json => {
            let pools: Vec<Value> = pools
                .iter()
                .map(|(name, stat)| {
                    json!({"name": name, "objects": stat.sum.num_objects, "bytes": stat.sum.num_bytes,
                           "reads": stat.sum.num_rd, "writes": stat.sum.num_wr})
                })
                .collect();
            let all = json!({"pools": pools, "total_kib": space.kb, "used_kib": space.kb_used,
                             "avail_kib": space.kb_avail});
            sayln!("{all}");
        }
    }
    rados.shutdown().await;
    Ok(())
}

async fn ls(client: Client, all: bool) -> Result<(), Failure> {
    let pool = client.pool().await?;
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
                Format::Json => {
                    let line = json!({"namespace": name::text(&object.nspace),
                                      "name": name::text(&object.oid),
                                      "locator": name::text(&object.locator)});
                    writeln!(out, "{}", name::line(&line)).map_err(write_failed)?;
                }
            }
        }
    }
    out.flush().map_err(write_failed)?;
    drop(out);
    pool.rados.shutdown().await;
    Ok(())
}

/// Removals under way.
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
    // As `rados cppool` does it.
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
