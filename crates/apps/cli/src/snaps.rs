//! Commands on snapshots, named as `rados` names them.

use clap::Subcommand;
use loligo_rados::{PoolSnapshot, SnapClone, SnapId};
use loligo_wire::UTime;
use serde_json::json;

use crate::client::{Client, Pool};
use crate::failure::{Context, Failure};
use crate::format::Format;
use crate::name::{self, Name};
use crate::stdio::print_bytes;

/// Commands on snapshots of a pool.
#[derive(Subcommand)]
pub(crate) enum SnapCommand {
    /// List the pool's snapshots.
    Lssnap,
    /// Make a snapshot of the pool.
    Mksnap { name: Name },
    /// Remove a snapshot of the pool.
    Rmsnap { name: Name },
    /// Show what an object was at its snapshots.
    Listsnaps { object: Name },
    /// Make an object what it was at a snapshot of the pool.
    Rollback { object: Name, name: Name },
}

pub(crate) fn run(client: Client, command: &SnapCommand) -> Result<(), Failure> {
    client.in_pool(async |pool| one(pool, command).await)
}

async fn one(pool: &Pool, command: &SnapCommand) -> Result<(), Failure> {
    let (io, pool_name) = (&pool.ioctx, &pool.name);
    match command {
        SnapCommand::Lssnap => list(pool),
        SnapCommand::Mksnap { name } => {
            io.create_snapshot(name).await.context(|| format!("mksnap {pool_name} {name}"))?;
            say(pool, &format!("created pool {pool_name} snap {name}"))
        }
        SnapCommand::Rmsnap { name } => {
            io.remove_snapshot(name).await.context(|| format!("rmsnap {pool_name} {name}"))?;
            say(pool, &format!("removed pool {pool_name} snap {name}"))
        }
        SnapCommand::Rollback { object, name } => {
            let what = || format!("{} {name}", pool.names("rollback", object));
            let snap = io.snapshot(name).context(what)?;
            io.rollback(object.as_bytes(), snap.id).await.context(what)?;
            say(pool, &format!("rolled back pool {pool_name} to snapshot {name}"))
        }
        SnapCommand::Listsnaps { object } => list_clones(pool, object).await,
    }
}

/// Prints a message in the plain format only.
fn say(pool: &Pool, what: &str) -> Result<(), Failure> {
    if pool.format == Format::Plain {
        sayln!("{what}");
    }
    Ok(())
}

/// Returns a snapshot's number, name and time.
fn shown(snap: &PoolSnapshot) -> (u64, &[u8], String) {
    (snap.id.0, &snap.name, UTime::from_system(snap.made).to_string())
}

fn list(pool: &Pool) -> Result<(), Failure> {
    let snaps = pool.ioctx.snapshots().context(|| format!("lssnap {}", pool.name))?;
    match pool.format {
        Format::Plain => {
            for (id, name, made) in snaps.iter().map(shown) {
                // In whole seconds, as `rados` prints it.
                let made = made.split('.').next().unwrap_or_default().replace('-', ".").replace('T', " ");
                let (begin, end) = (format!("{id}\t"), format!("\t{made}\n"));
                print_bytes(&[begin.as_bytes(), name, end.as_bytes()].concat())?;
            }
            sayln!("{} snaps", snaps.len());
        }
        _ => {
            let all = snaps.iter().map(shown);
            let all: Vec<_> = all
                .map(|(id, name, made)| json!({"id": id, "name": name::text(name), "made": made}))
                .collect();
            pool.format.print("snapshots", "snapshot", &json!(all));
        }
    }
    Ok(())
}

async fn list_clones(pool: &Pool, object: &Name) -> Result<(), Failure> {
    let known =
        pool.ioctx.object_snapshots(object.as_bytes()).await.context(|| pool.names("listsnaps", object))?;
    let id = |clone: &SnapClone| match clone.id {
        SnapId::HEAD => "head".to_owned(),
        id => id.0.to_string(),
    };
    let ids = |clone: &SnapClone| clone.snaps.iter().map(|snap| snap.0).collect::<Vec<_>>();
    if pool.format != Format::Plain {
        let clone = |clone: &SnapClone| {
            let overlap: Vec<_> =
                clone.overlap.iter().map(|(offset, len)| json!({"offset": offset, "length": len})).collect();
            json!({"id": id(clone), "snapshots": ids(clone), "size": clone.size, "overlap": overlap})
        };
        let clones: Vec<_> = known.clones.iter().map(clone).collect();
        pool.format.print("object", "item", &json!({"name": name::text(object), "clones": clones}));
        return Ok(());
    }
    print_bytes(&[object.as_bytes(), b":\ncloneid\tsnaps\tsize\toverlap\n"].concat())?;
    for clone in &known.clones {
        if clone.id == SnapId::HEAD {
            sayln!("head\t-\t{}", clone.size);
            continue;
        }
        let ids: Vec<String> = ids(clone).iter().map(u64::to_string).collect();
        let overlap: Vec<String> =
            clone.overlap.iter().map(|(offset, len)| format!("{offset}~{len}")).collect();
        sayln!("{}\t{}\t{}\t[{}]", id(clone), ids.join(","), clone.size, overlap.join(","));
    }
    Ok(())
}
