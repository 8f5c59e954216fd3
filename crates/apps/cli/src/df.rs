//! `loligo df DIR`: what a directory holds that no server uses.

use std::path::Path;

use indicatif::HumanBytes;
use loligo_mon::StateFile;
use loligo_store_disk::usage;
use loligo_wire::PoolId;
use serde_json::{Value, json};

use crate::args::FormatName;
use crate::failure::{Context, Failure};
use crate::fsck::store_of;

pub(crate) fn run(dir: &Path, format: FormatName) -> Result<(), Failure> {
    let what = || format!("df {}", dir.display());
    let usage = usage(&store_of(dir)).context(what)?;
    // The store knows pools by their numbers only.
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
