//! `list-inconsistent-pg | obj | snapset`: lists the findings of scrubs, in the structured form of
//! `rados`.

use bytes::Bytes;
use clap::Subcommand;
use loligo_rados::{
    DamagedObject, DamagedSnaps, Errno, Error, IoCtx, Rados, ScrubbedId, Shard, SnapId, object_error,
    shard_error, snaps_error,
};
use loligo_wire::PgId;
use serde_json::{Value, json};

use crate::client::{self, Client};
use crate::failure::{Context, Failure};
use crate::name;

/// Lists the findings of scrubs.
#[derive(Subcommand)]
#[expect(clippy::enum_variant_names, reason = "the words are those of `rados`")]
pub(crate) enum DamageCommand {
    /// List the placement groups of a pool in which scrubs have found damage.
    ListInconsistentPg {
        #[arg(value_name = "POOL")]
        scrubbed: String,
    },
    /// List the objects of a placement group that scrubs have found damaged.
    ListInconsistentObj { pgid: String },
    /// List the objects of a placement group whose snapshots scrubs have found damaged.
    ListInconsistentSnapset { pgid: String },
}

pub(crate) fn run(client: Client, command: &DamageCommand) -> Result<(), Failure> {
    client::runtime(1)?.block_on(async {
        match command {
            DamageCommand::ListInconsistentPg { scrubbed } => groups(client, scrubbed).await,
            DamageCommand::ListInconsistentObj { pgid } => objects(client, pgid).await,
            DamageCommand::ListInconsistentSnapset { pgid } => snapsets(client, pgid).await,
        }
    })
}

/// Lists the placement groups of a pool in which scrubs have found damage.
async fn groups(client: Client, pool: &str) -> Result<(), Failure> {
    let what = || format!("list-inconsistent-pg {pool}");
    let format = client.format;
    let rados = client.cluster().await?;
    let id = rados.pool_id(pool).await.context(what)?;
    let ask = json!({"prefix": "pg ls", "pool": id.0, "states": ["inconsistent"], "format": "json"});
    let (output, _) = rados.mgr_command(&ask.to_string(), Bytes::new()).await.context(what)?;
    let answer: Value = serde_json::from_slice(&output)
        .map_err(|e| Failure::new(what(), format!("the manager's answer cannot be read: {e}")))?;
    // The reply is an array in releases before 15, and empty if nothing is damaged.
    let groups = answer.get("pg_stats").unwrap_or(&answer).as_array().map(Vec::as_slice).unwrap_or_default();
    let ids: Vec<&Value> = groups.iter().filter_map(|group| group.get("pgid")).collect();
    format.print("pgs", "pgid", &json!(ids));
    rados.shutdown().await;
    Ok(())
}

/// Lists the objects of a placement group that scrubs have found damaged.
async fn objects(client: Client, pgid: &str) -> Result<(), Failure> {
    let what = || format!("list-inconsistent-obj {pgid}");
    let format = client.format;
    let (rados, pool, pg) = group(client, pgid, what).await?;
    let damaged = pool.inconsistent_objects(pg.seed).await.map_err(|e| unlisted(what(), e))?;
    let found: Vec<Value> = damaged.found.iter().map(object).collect();
    format.print("info", "inconsistent", &json!({"epoch": damaged.interval.0, "inconsistents": found}));
    rados.shutdown().await;
    Ok(())
}

/// Lists the objects of a placement group whose snapshots scrubs have found damaged.
async fn snapsets(client: Client, pgid: &str) -> Result<(), Failure> {
    let what = || format!("list-inconsistent-snapset {pgid}");
    let format = client.format;
    let (rados, pool, pg) = group(client, pgid, what).await?;
    let damaged = pool.inconsistent_snapsets(pg.seed).await.map_err(|e| unlisted(what(), e))?;
    let found: Vec<Value> = damaged.found.iter().map(snaps).collect();
    format.print("info", "inconsistent", &json!({"epoch": damaged.interval.0, "inconsistents": found}));
    rados.shutdown().await;
    Ok(())
}

/// Opens the pool of the placement group `POOL.SEED`.
async fn group(
    client: Client,
    pgid: &str,
    what: impl Fn() -> String,
) -> Result<(Rados, IoCtx, PgId), Failure> {
    let pg: PgId = pgid.parse().map_err(|_| {
        Failure::of(Errno::EINVAL, what(), "a placement group is POOL.SEED, such as 1.1f: `ceph pg ls`")
    })?;
    let rados = client.cluster().await?;
    if !rados.pools().iter().any(|(id, _)| *id == pg.pool) {
        return Err(Failure::of(Errno::ENOENT, what(), format!("there is no pool {}", pg.pool)));
    }
    let pool = rados.ioctx_by_id(pg.pool);
    Ok((rados, pool, pg))
}

fn unlisted(what: String, error: Error) -> Failure {
    match error.errno() {
        errno @ Errno::ENOENT => {
            let why = "no scrub information is available: `ceph pg deep-scrub` gathers it";
            Failure::of(errno, what, why)
        }
        errno @ Errno::EAGAIN => {
            Failure::of(errno, what, "the placement group has moved meanwhile: list it again")
        }
        _ => Err::<(), _>(error).context(|| what).expect_err("an error"),
    }
}

fn object(damaged: &DamagedObject) -> Value {
    let mut id = id(&damaged.object);
    id["version"] = damaged.version.into();
    let shards: Vec<Value> = damaged.shards.iter().map(|((osd, part), of)| shard(*osd, *part, of)).collect();
    json!({
        "object": id,
        "errors": names(damaged.errors, &object_error::NAMES),
        "union_shard_errors": names(damaged.shard_errors.0, &shard_error::NAMES),
        "shards": shards,
    })
}

/// Describes one copy. A copy of a replicated pool has no shard number.
fn shard(osd: i32, part: i8, of: &Shard) -> Value {
    let mut shown =
        json!({"osd": osd, "primary": of.primary, "errors": names(of.errors.0, &shard_error::NAMES)});
    if part >= 0 {
        shown["shard"] = part.into();
    }
    if of.errors.0 & (shard_error::MISSING | shard_error::STAT) == 0 {
        shown["size"] = of.size.into();
        for (name, digest) in [("omap_digest", of.omap_digest), ("data_digest", of.data_digest)] {
            if let Some(digest) = digest {
                shown[name] = format!("0x{digest:08x}").into();
            }
        }
    }
    shown
}

fn snaps(damaged: &DamagedSnaps) -> Value {
    let mut shown = id(&damaged.object);
    shown["errors"] = json!(names(damaged.errors, &snaps_error::NAMES));
    for (name, snaps) in [("extra clones", &damaged.clones), ("missing", &damaged.missing)] {
        if !snaps.is_empty() {
            shown[name] = json!(snaps);
        }
    }
    shown
}

fn id(object: &ScrubbedId) -> Value {
    let snap = if object.snap == SnapId::HEAD { json!("head") } else { json!(object.snap.0) };
    json!({
        "name": name::text(&object.name), "nspace": name::text(&object.nspace),
        "locator": name::text(&object.locator), "snap": snap,
    })
}

fn names(errors: u64, all: &[(u64, &'static str)]) -> Vec<&'static str> {
    all.iter().filter(|(bit, _)| errors & bit != 0).map(|(_, name)| *name).collect()
}
