//! Commands on pools.

use std::io::{BufWriter, Write};

use futures_util::TryStreamExt as _;
use indicatif::HumanBytes;
use loligo_rados::{ClusterStatfs, PoolStat, Rados};
use serde_json::{Value, json};

use crate::args::{Command, Format};
use crate::client::{Client, Pool};
use crate::failure::{Context, Failure};
use crate::name;
use crate::say::Stdout;
use crate::words::CalledAs;
use crate::{export, rbd, table};

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
        _ => format.print("pools", "name", &json!(names)),
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
        _ if CalledAs::now() == CalledAs::Rados => df_of_rados(&rados, &pools, space, format),
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
        _ => {
            let pools: Vec<Value> = pools
                .iter()
                .map(|(name, stat)| {
                    json!({"name": name, "objects": stat.sum.num_objects, "bytes": stat.sum.num_bytes,
                           "reads": stat.sum.num_rd, "writes": stat.sum.num_wr})
                })
                .collect();
            let all = json!({"pools": pools, "total_kib": space.kb, "used_kib": space.kb_used,
                             "avail_kib": space.kb_avail});
            format.print("stats", "item", &all);
        }
    }
    rados.shutdown().await;
    Ok(())
}

/// What the pools hold, in the words of `rados df`.
fn df_of_rados(rados: &Rados, pools: &[(String, PoolStat)], space: ClusterStatfs, format: Format) {
    let ids = rados.pools();
    let id = |name: &str| ids.iter().find(|(_, known)| known == name).map_or(-1, |(id, _)| id.0);
    let objects: i64 = pools.iter().map(|(_, stat)| stat.sum.num_objects).sum();
    if format != Format::Plain {
        let one = |(name, stat): &(String, PoolStat)| {
            let sum = &stat.sum;
            json!({
                "name": name, "id": id(name), "size_bytes": sum.num_bytes, "size_kb": (sum.num_bytes + 1023) / 1024,
                "num_objects": sum.num_objects, "num_object_clones": sum.num_object_clones,
                "num_object_copies": sum.num_object_copies,
                "num_objects_missing_on_primary": sum.num_objects_missing_on_primary,
                "num_objects_unfound": sum.num_objects_unfound, "num_objects_degraded": sum.num_objects_degraded,
                "read_ops": sum.num_rd, "read_bytes": sum.num_rd_kb * 1024,
                "write_ops": sum.num_wr, "write_bytes": sum.num_wr_kb * 1024,
            })
        };
        let all: Vec<Value> = pools.iter().map(one).collect();
        let all = json!({"pools": all, "total_objects": objects, "total_used": space.kb_used,
                         "total_avail": space.kb_avail, "total_space": space.kb});
        return format.print("stats", "item", &all);
    }
    let bytes = |n: i64| rbd::bytes(n.cast_unsigned());
    let titles = [
        "POOL_NAME",
        "USED",
        "OBJECTS",
        "CLONES",
        "COPIES",
        "MISSING_ON_PRIMARY",
        "UNFOUND",
        "DEGRADED",
        "RD_OPS",
        "RD",
        "WR_OPS",
        "WR",
    ];
    let row = |(name, stat): &(String, PoolStat)| {
        let sum = &stat.sum;
        let numbers = [
            sum.num_objects,
            sum.num_object_clones,
            sum.num_object_copies,
            sum.num_objects_missing_on_primary,
            sum.num_objects_unfound,
            sum.num_objects_degraded,
            sum.num_rd,
        ]
        .map(|n| n.to_string());
        let [objects, clones, copies, missing, unfound, degraded, reads] = numbers;
        let (used, read, written) =
            (bytes(sum.num_bytes), bytes(sum.num_rd_kb * 1024), bytes(sum.num_wr_kb * 1024));
        [
            name.clone(),
            used,
            objects,
            clones,
            copies,
            missing,
            unfound,
            degraded,
            reads,
            read,
            sum.num_wr.to_string(),
            written,
        ]
    };
    let rows = std::iter::once(titles.map(str::to_owned)).chain(pools.iter().map(row)).collect::<Vec<_>>();
    let mut right = [true; 12];
    right[0] = false;
    table::lines(right, &rows).iter().for_each(|line| sayln!("{line}"));
    sayln!("\ntotal_objects    {objects}");
    for (title, kib) in
        [("total_used", space.kb_used), ("total_avail", space.kb_avail), ("total_space", space.kb)]
    {
        sayln!("{title:<16} {}", rbd::bytes(kib * 1024));
    }
}

async fn ls(client: Client, all: bool) -> Result<(), Failure> {
    let pool = client.pool().await?;
    // A line for each, as they come; one value where stock `rados` has one.
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
