//! `loligo df`: shows the usage of a cluster, or of a directory that no server uses.

use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use loligo_mon::StateFile;
use loligo_rados::{ClusterStatfs, PoolStat, Rados};
use loligo_store_disk::usage;
use loligo_wire::PoolId;
use serde_json::{Value, json};

use crate::client::{self, Client};
use crate::failure::{Context, Failure};
use crate::format::{Format, FormatName};
use crate::fsck::store_of;
use crate::options::Options;
use crate::words::CalledAs;
use crate::{rbd, table};

/// The directory to look at, if any.
#[derive(clap::Args)]
pub(crate) struct Df {
    /// The directory given to `serve --data`, of a server that does not run. USED then counts the blocks of
    /// objects' data; names, attributes and omaps lie in the key-value map and take space beside them.
    pub(crate) dir: Option<PathBuf>,
}

/// Shows the usage of a directory. There is no cluster then, so options that change a cluster's report are
/// refused; a pool, which `CEPH_ARGS` may name for all commands, changes nothing.
pub(crate) fn of_dir(dir: &Path, options: &Options) -> Result<(), Failure> {
    let what = || format!("df {}", dir.display());
    let format = options.format;
    let is_of_cluster = options.trace.is_some() || options.pretty_format;
    if is_of_cluster || !matches!(format, FormatName::Plain | FormatName::Json) {
        return Err(Failure::new(
            what(),
            "a directory has no --trace and no --pretty-format, and --format is plain or json",
        ));
    }
    let usage = usage(&store_of(dir)).context(what)?;
    // The store knows only the pools' numbers.
    let state = StateFile::new(dir.join("mon.json")).load().context(what)?;
    let name = |id: PoolId| {
        let known = state.as_ref().and_then(|state| state.osdmap().pool_name(id));
        known.map_or_else(|| format!("pool {id}"), ToString::to_string)
    };
    let available = usage.capacity - usage.used;
    match format {
        FormatName::Json => {
            let pools: Vec<Value> = usage
                .pools
                .iter()
                .map(|(id, sum)| {
                    json!({"name": name(*id), "id": id.0, "objects": sum.objects, "bytes": sum.bytes,
                           "bytes_allocated": sum.bytes_allocated, "omap_bytes": sum.omap_bytes, "omap_keys": sum.omap_keys})
                })
                .collect();
            let report = json!({"capacity": usage.capacity, "used": usage.used, "available": available,
                                "unstored_records": usage.unstored_records, "pools": pools});
            sayln!("{report}");
        }
        _ => {
            sayln!("{:<24} {:>12} {:>12} {:>12} {:>12}", "POOL", "OBJECTS", "BYTES", "USED", "OMAP KEYS");
            for (id, sum) in &usage.pools {
                let [bytes, used] = [sum.bytes, sum.bytes_allocated].map(|n| HumanBytes(n).to_string());
                sayln!("{:<24} {:>12} {bytes:>12} {used:>12} {:>12}", name(*id), sum.objects, sum.omap_keys);
            }
            let [used, capacity, available] = [usage.used, usage.capacity, available].map(HumanBytes);
            sayln!("\nused {used} of {capacity}, {available} available");
            if usage.unstored_records > 0 {
                sayln!(
                    "not counted: {} records of the journal, of a server that did not end by itself",
                    usage.unstored_records
                );
            }
        }
    }
    Ok(())
}

pub(crate) fn run(client: Client) -> Result<(), Failure> {
    client::runtime(1)?.block_on(of_cluster(client))
}

/// Shows the usage of all pools, or of the named one.
async fn of_cluster(client: Client) -> Result<(), Failure> {
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

/// Prints the pools' usage in the form of `rados df`.
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
