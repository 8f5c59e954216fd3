//! `loligo rbd pool`.

use bytes::Bytes;
use loligo_rbd::pools::{self, Sum};
use serde_json::json;

use super::args::PoolCommand;
use super::show::bytes;
use super::{Place, only_pool};
use crate::args::Format;
use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::words::CalledAs;

pub(super) async fn run(place: &Place, command: &PoolCommand) -> Result<(), Failure> {
    match command {
        PoolCommand::Init { place: named, force } => init(place, named.as_ref(), *force).await,
        PoolCommand::Stats { place: named } => stats(place, named.as_ref()).await,
    }
}

async fn init(place: &Place, named: Option<&Name>, force: bool) -> Result<(), Failure> {
    let name = named.map_or(Ok(&*place.pool), |named| only_pool(named))?;
    let what = || format!("pool init {name}");
    let io = place.pool(name).await?;
    let mut command = json!({"prefix": "osd pool application enable", "pool": name, "app": "rbd"});
    if force {
        command["yes_i_really_mean_it"] = true.into();
    }
    place.rados.mon_command(&command.to_string(), Bytes::new()).await.context(what)?;
    match pools::validate(&io).await.context(what) {
        // Stock `rbd` prints the error too, but succeeds: the pool is marked for images.
        Err(unfit) if place.called == CalledAs::Rbd => {
            eprintln!("{}", unfit.line(place.called));
            Ok(())
        }
        validated => validated,
    }
}

async fn stats(place: &Place, named: Option<&Name>) -> Result<(), Failure> {
    let io = place.named(named).await?;
    let (images, trash) = pools::sums(&io).await.context(|| "pool stats".to_owned())?;
    if place.format != Format::Plain {
        let one = |sum: &Sum| json!({"count": sum.images, "provisioned_bytes": sum.provisioned, "snap_count": sum.snapshots});
        place.format.print("stats", "item", &json!({"images": one(&images), "trash": one(&trash)}));
        return Ok(());
    }
    let trashed =
        |text: String| if trash.images == 0 { String::new() } else { format!(" ({text} in trash)") };
    sayln!("Total Images: {}{}", images.images, trashed(trash.images.to_string()));
    sayln!("Total Snapshots: {}{}", images.snapshots, trashed(trash.snapshots.to_string()));
    sayln!("Provisioned Size: {}{}", bytes(images.provisioned), trashed(bytes(trash.provisioned)));
    Ok(())
}
