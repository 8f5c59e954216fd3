//! `loligo rbd`: commands on images, named as in `rbd`.

mod args;
mod bar;
mod bench;
mod clones;
mod config;
mod defaults;
mod diff;
mod export;
mod feature;
mod group;
mod holders;
mod image;
mod import;
mod kept;
mod list;
mod migration;
mod namespace;
mod place;
mod pool;
mod shape;
mod show;
mod snap;
mod spec;
mod transfer;
mod trash;
pub(crate) mod words;

use loligo_rbd::{Ancestry, Error, Image, Mode, Shrink};

use self::args::Deep;
use self::bar::Bar;
use self::defaults::wanted;
use self::place::{Place, check_place, named_so, only_pool, open_named};
use self::shape::{create_old, data_pool, fill, new_copy, order, shaped, shaped_as};
use crate::client::{self, Client};
use crate::failure::{Context, Failure};
use crate::words::CalledAs;

pub(crate) use self::args::RbdCommand;
pub(crate) use self::show::bytes;
pub(crate) use self::transfer::import;

/// Threads: one for the network, the other for reading and writing files.
const WORKERS: usize = 2;

pub(crate) fn run(client: Client, command: &RbdCommand) -> Result<(), Failure> {
    check_place(&client, command)?;
    if let RbdCommand::MergeDiff { first, second, file, quiet } = command {
        // It works on local files only.
        return diff::merge(first, second, file, quiet);
    }
    client::runtime(WORKERS)?.block_on(async {
        let (pool, namespace, snap) = client.place();
        let (pool, namespace) = (pool.map(str::to_owned), namespace.clone());
        let (snap, format) = (snap.cloned(), client.format);
        let conf = client.conf()?;
        let rados = client.cluster().await?;
        let conf = conf.with_monitors(rados.monitors_settings());
        let pool = pool.unwrap_or_else(|| defaults::pool(&conf));
        let called = CalledAs::now();
        let place = Place { rados, pool, namespace, snap, conf, format, called };
        let done = one(&place, command).await;
        place.rados.shutdown().await;
        done
    })
}

async fn one(place: &Place, command: &RbdCommand) -> Result<(), Failure> {
    match command {
        RbdCommand::Ls { place: named, long } => image::list(place, named.as_ref(), *long).await,
        RbdCommand::Create { image, shape, size, thick_provision, quiet } => {
            let (io, name) = place.image(image).await?;
            if shape.image_format == Some(1) {
                return create_old(place, (&io, &name), shape, *size).await;
            }
            let new = shaped(place, &io, shape, *size).await?;
            loligo_rbd::create(&io, &name, new).await.context(|| format!("create {image}"))?;
            if *thick_provision { fill(&io, &name, quiet).await } else { Ok(()) }
        }
        RbdCommand::Info { image, by } => image::info(place, image, by).await,
        RbdCommand::Status { image } => holders::status(place, image).await,
        RbdCommand::Lock(command) => holders::lock(place, command).await,
        RbdCommand::Rm { image, quiet } => image::remove(place, image, quiet).await,
        RbdCommand::Rename { image, to } => image::rename(place, image, to).await,
        RbdCommand::Resize { image, size, allow_shrink, quiet } => {
            let shrink = if *allow_shrink { Shrink::Allowed } else { Shrink::Refused };
            let bar = Bar::new("Resizing image", quiet);
            let what = format!("resize {image}");
            let open = place.open(image, Mode::ReadWrite).await?;
            let done = open.resize_telling(*size, shrink, |n, of| bar.at(n, of)).await;
            closing(open, done, &what).await
        }
        RbdCommand::Import(options) => import::run(place, options).await,
        RbdCommand::Export(options) => export::run(place, options).await,
        RbdCommand::Cp { image, to, shape, sparse_size, quiet } => {
            image::copy(place, image, to, shape, *sparse_size, quiet).await
        }
        RbdCommand::Deep(Deep::Cp { image, to, shape, flatten, quiet }) => {
            let ancestry = if *flatten { Ancestry::Flattened } else { Ancestry::Kept };
            image::deep_copy(place, image, to, shape, ancestry, quiet).await
        }
        RbdCommand::Diff { image, compared } => diff::list(place, image, compared).await,
        RbdCommand::ExportDiff { image, file, compared, quiet } => {
            diff::export(place, image, file, compared, quiet).await
        }
        RbdCommand::ImportDiff { file, image, sparse_size, quiet } => {
            diff::import(place, file, image, *sparse_size, quiet).await
        }
        RbdCommand::MergeDiff { first, second, file, quiet } => diff::merge(first, second, file, quiet),
        RbdCommand::Du { image } => image::usage(place, image.as_ref()).await,
        RbdCommand::Clone { snapshot, image, shape } => clones::make(place, snapshot, image, shape).await,
        RbdCommand::Children { image, all, descendants, by } => {
            clones::list(place, (image, by), *all, *descendants).await
        }
        RbdCommand::Flatten { image, quiet } => {
            let bar = Bar::new("Image flatten", quiet);
            let open = place.open(image, Mode::ReadWrite).await?;
            let done = open.flatten(|n, of| bar.at(n, of)).await;
            closing(open, done, &format!("flatten {image}")).await
        }
        RbdCommand::Sparsify { image, sparse_size, quiet } => {
            let bar = Bar::new("Image sparsify", quiet);
            let open = place.open(image, Mode::ReadWrite).await?;
            let done = open.sparsify(*sparse_size, |n, of| bar.at(n, of)).await;
            closing(open, done, &format!("sparsify {image}")).await
        }
        RbdCommand::Bench(options) => {
            let image = bench::open(place, options).await?;
            let done = bench::run(&image, options, place.format).await;
            let closed = image.close().await;
            done?;
            closed.context(|| format!("bench {}", options.image))
        }
        RbdCommand::Snap(command) => snap::run(place, command).await,
        RbdCommand::Feature(command) => feature::run(place, command).await,
        RbdCommand::ObjectMap(command) => kept::object_map(place, command).await,
        RbdCommand::ImageMeta(command) => kept::image_meta(place, command).await,
        RbdCommand::Config(command) => config::run(place, command).await,
        RbdCommand::Group(command) => group::run(place, command).await,
        RbdCommand::Pool(command) => pool::run(place, command).await,
        RbdCommand::Namespace(command) => namespace::run(place, command).await,
        RbdCommand::Trash(command) => trash::run(place, command).await,
        RbdCommand::Migration(command) => migration::run(place, command).await,
    }
}

/// Closes an image after work on it. An error of the work takes precedence over one of the closing.
async fn closing<T>(image: Image, done: Result<T, Error>, what: &str) -> Result<T, Failure> {
    let closed = image.close().await;
    let done = done.context(|| what.to_owned())?;
    closed.context(|| what.to_owned())?;
    Ok(done)
}
