//! `loligo rbd`: images, named as `rbd` names what is done with them.

mod args;
mod bench;
mod clones;
mod defaults;
mod diff;
mod export;
mod feature;
mod group;
mod holders;
mod import;
mod list;
mod pool;
mod show;
mod spec;
mod transfer;
mod trash;

use indicatif::{ProgressBar, ProgressStyle};
use loligo_cephx::conf::Conf;
use loligo_rados::{IoCtx, PoolId, Rados};
use loligo_rbd::{Ancestry, Error, Image, Mode, NewCopy, NewImage, Shrink, SnapKind, features, namespaces};
use serde_json::json;

use self::args::{CloneShape, Deep, ImageMeta, Limit, Namespace, ObjectMap, Quiet, Snap};
use self::spec::Spec;
use crate::args::Format;
use crate::client::{self, Client};
use crate::failure::{Context, Failure};

pub(crate) use self::args::RbdCommand;

/// Threads: one carries, the other reads and writes files.
const WORKERS: usize = 2;

pub(crate) fn run(client: Client, command: &RbdCommand) -> Result<(), Failure> {
    if let RbdCommand::MergeDiff { first, second, file, quiet } = command {
        // Files of this machine only.
        return diff::merge(first, second, file, quiet);
    }
    client::runtime(WORKERS)?.block_on(async {
        let (pool, namespace, snap) = client.place();
        let (pool, namespace) = (pool.map(str::to_owned), namespace.to_owned());
        let (snap, format) = (snap.map(str::to_owned), client.format);
        let conf = client.conf()?;
        let rados = client.cluster().await?;
        let conf = conf.with_monitors(rados.monitors_settings());
        let pool = pool.unwrap_or_else(|| defaults::pool(&conf));
        let place = Place { rados, pool, namespace, snap, conf, format };
        let done = one(&place, command).await;
        place.rados.shutdown().await;
        done
    })
}

/// A cluster, and where in it images are looked for that do not say it themselves.
struct Place {
    rados: Rados,
    pool: String,
    namespace: String,
    snap: Option<String>,
    /// With what the monitors say.
    conf: Conf,
    format: Format,
}

async fn one(place: &Place, command: &RbdCommand) -> Result<(), Failure> {
    match command {
        RbdCommand::Ls { place: named, long } => list(place, named.as_deref(), *long).await,
        RbdCommand::Create { image, shape, size } => {
            let (io, spec) = place.image(image).await?;
            let new = shaped(place, &io, shape, *size).await?;
            loligo_rbd::create(&io, &spec.image, new).await.context(|| format!("create {image}"))
        }
        RbdCommand::Info { image } => info(place, image).await,
        RbdCommand::Status { image } => holders::status(place, image).await,
        RbdCommand::Lock(command) => holders::lock(place, command).await,
        RbdCommand::Rm { image, quiet } => {
            let (io, spec) = place.image(image).await?;
            let bar = Bar::new("Removing image", quiet);
            loligo_rbd::remove(&io, &spec.image, |n, of| bar.at(n, of))
                .await
                .context(|| format!("rm {image}"))
        }
        RbdCommand::Rename { image, to } => {
            let ((io, from), (_, to)) = (place.image(image).await?, place.image(to).await?);
            loligo_rbd::rename(&io, &from.image, &to.image).await.context(|| format!("rename {image}"))
        }
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
            copy(place, image, to, shape, *sparse_size, quiet).await
        }
        RbdCommand::Deep(Deep::Cp { image, to, shape, flatten, quiet }) => {
            let ancestry = if *flatten { Ancestry::Flattened } else { Ancestry::Kept };
            deep_copy(place, image, to, shape, ancestry, quiet).await
        }
        RbdCommand::Diff { image, compared } => diff::list(place, image, compared).await,
        RbdCommand::ExportDiff { image, file, compared, quiet } => {
            diff::export(place, image, file, compared, quiet).await
        }
        RbdCommand::ImportDiff { file, image, sparse_size, quiet } => {
            diff::import(place, file, image, *sparse_size, quiet).await
        }
        RbdCommand::MergeDiff { first, second, file, quiet } => diff::merge(first, second, file, quiet),
        RbdCommand::Du { image } => usage(place, image.as_deref()).await,
        RbdCommand::Clone { snapshot, image, shape } => clones::make(place, snapshot, image, shape).await,
        RbdCommand::Children { image, all } => clones::list(place, image, *all).await,
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
        RbdCommand::Snap(command) => snap(place, command).await,
        RbdCommand::Feature(command) => feature::run(place, command).await,
        RbdCommand::ObjectMap(command) => object_map(place, command).await,
        RbdCommand::ImageMeta(command) => image_meta(place, command).await,
        RbdCommand::Group(command) => group::run(place, command).await,
        RbdCommand::Pool(command) => pool::run(place, command).await,
        RbdCommand::Namespace(command) => namespace(place, command).await,
        RbdCommand::Trash(command) => trash::run(place, command).await,
    }
}

impl Place {
    async fn io(&self, pool: Option<&str>, namespace: Option<&str>) -> Result<IoCtx, Failure> {
        let name = pool.unwrap_or(&self.pool);
        let io = self.rados.ioctx(name).await.context(|| format!("open pool {name}"))?;
        // The default namespace of another pool, not one that was meant for this.
        let namespace = namespace.unwrap_or(if pool.is_some() { "" } else { &self.namespace });
        Ok(io.with_namespace(namespace))
    }

    /// POOL[/NAMESPACE].
    async fn named(&self, named: Option<&str>) -> Result<IoCtx, Failure> {
        match named.map(|named| named.split_once('/').unwrap_or((named, ""))) {
            Some((pool, namespace)) => self.io(Some(pool), Some(namespace)).await,
            None => self.io(None, None).await,
        }
    }

    /// Where an image lies, and what it is called.
    async fn image(&self, text: &str) -> Result<(IoCtx, Spec), Failure> {
        self.image_or(text, "IMAGE").await
    }

    /// The same for something else that is named so.
    async fn image_or(&self, text: &str, what: &str) -> Result<(IoCtx, Spec), Failure> {
        let spec = Spec::parse(text)
            .ok_or_else(|| Failure::new(text, format!("is not [POOL/[NAMESPACE/]]{what}[@SNAPSHOT]")))?;
        let snap = spec.snap.clone().or_else(|| self.snap.clone());
        let io = self.io(spec.pool.as_deref(), spec.namespace.as_deref()).await?;
        Ok((io, Spec { snap, ..spec }))
    }

    async fn open(&self, text: &str, mode: Mode) -> Result<Image, Failure> {
        let (io, spec) = self.image(text).await?;
        Image::open(&io, &spec.image, mode).await.context(|| format!("open {text}"))
    }

    /// The image, or the snapshot that is named, for reading.
    async fn open_to_read(&self, text: &str) -> Result<(Image, Option<String>), Failure> {
        let (io, spec) = self.image(text).await?;
        let image = match &spec.snap {
            None => Image::open(&io, &spec.image, Mode::ReadOnly).await,
            Some(snap) => Image::open_snapshot(&io, &spec.image, snap).await,
        };
        Ok((image.context(|| format!("open {text}"))?, spec.snap))
    }
}

/// Closes an image after work on it. Why the work failed is of more interest than whether the lock could be given up.
async fn closing<T>(image: Image, done: Result<T, Error>, what: &str) -> Result<T, Failure> {
    let closed = image.close().await;
    let done = done.context(|| what.to_owned())?;
    closed.context(|| what.to_owned())?;
    Ok(done)
}

async fn list(place: &Place, named: Option<&str>, long: bool) -> Result<(), Failure> {
    let io = place.named(named).await?;
    let images = loligo_rbd::list(&io).await.context(|| "ls".to_owned())?;
    if long {
        return list::long(place, &io, images.keys()).await;
    }
    match place.format {
        Format::Plain => images.keys().for_each(|name| sayln!("{name}")),
        Format::Json => sayln!("{}", json!(images.keys().collect::<Vec<_>>())),
    }
    Ok(())
}

async fn shaped(place: &Place, io: &IoCtx, shape: &CloneShape, size: u64) -> Result<NewImage, Failure> {
    shaped_as(place, io, shape, defaults::image(&place.conf, size)?).await
}

/// What is configured, with what the command line says instead.
async fn shaped_as(
    place: &Place,
    io: &IoCtx,
    shape: &CloneShape,
    new: NewImage,
) -> Result<NewImage, Failure> {
    Ok(NewImage {
        order: order(shape)?.unwrap_or(new.order),
        features: wanted("--image-feature", &shape.image_feature)?.unwrap_or(new.features),
        striping: shape.spread.stripe_unit.zip(shape.spread.stripe_count).or(new.striping),
        data_pool: data_pool(place, io, shape.spread.data_pool.as_deref()).await?,
        ..new
    })
}

/// Of an object's size, to the base 2, if it is given.
fn order(shape: &CloneShape) -> Result<Option<u8>, Failure> {
    if shape.object_size.is_some_and(|size| !size.is_power_of_two()) {
        return Err(Failure::new("--object-size", "is no power of two"));
    }
    Ok(shape.object_size.map(|size| size.ilog2() as u8))
}

/// The features of these names, if there is one, that `what` asks for.
fn wanted(what: &str, named: &[String]) -> Result<Option<u64>, Failure> {
    let mut wanted = None;
    for name in named {
        let feature = features::by_name(name)
            .ok_or_else(|| Failure::new(what, format!("there is no feature '{name}'")))?;
        wanted = Some(wanted.unwrap_or(0) | feature);
    }
    Ok(wanted)
}

/// The pool for the data of an image in `io`'s pool, if that is another one: as named, or else as configured.
async fn data_pool(place: &Place, io: &IoCtx, named: Option<&str>) -> Result<Option<PoolId>, Failure> {
    let configured = defaults::data_pool(&place.conf);
    let Some(name) = named.map(str::to_owned).or(configured) else { return Ok(None) };
    let pool = place.rados.pool_id(&name).await.context(|| format!("open data pool {name}"))?;
    Ok(Some(pool).filter(|pool| *pool != io.pool()))
}

async fn info(place: &Place, text: &str) -> Result<(), Failure> {
    let (image, snap) = place.open_to_read(text).await?;
    let view = image.view();
    let snap = match &snap {
        Some(snap) => Some(view.snapshot(snap).context(|| format!("info {text}"))?),
        None => None,
    };
    let parent = image.parent().await.context(|| format!("info {text}"))?;
    let group = image.group().await.context(|| format!("info {text}"))?;
    let of = show::Of { snap, parent: parent.as_ref(), group: group.as_ref() };
    show::info(&place.rados, &image, of, place.format);
    Ok(())
}

async fn copy(
    place: &Place,
    from: &str,
    to: &str,
    shape: &CloneShape,
    sparse_size: u64,
    quiet: &Quiet,
) -> Result<(), Failure> {
    let ((image, _), (io, spec)) = (place.open_to_read(from).await?, place.image(to).await?);
    let new = NewCopy {
        sparse_bytes: usize::try_from(sparse_size).unwrap_or(usize::MAX),
        ..new_copy(place, &io, shape).await?
    };
    let bar = Bar::new("Image copy", quiet);
    let copied = image.copy(&io, &spec.image, new, |n, of| bar.at(n, of)).await;
    copied.context(|| format!("cp {from} to {to}"))
}

async fn deep_copy(
    place: &Place,
    from: &str,
    to: &str,
    shape: &CloneShape,
    ancestry: Ancestry,
    quiet: &Quiet,
) -> Result<(), Failure> {
    let ((image, _), (io, spec)) = (place.open_to_read(from).await?, place.image(to).await?);
    let new = new_copy(place, &io, shape).await?;
    let bar = Bar::new("Image deep copy", quiet);
    let copied = image.deep_copy(&io, &spec.image, new, ancestry, |n, of| bar.at(n, of)).await;
    copied.context(|| format!("deep cp {from} to {to}"))
}

async fn new_copy(place: &Place, io: &IoCtx, shape: &CloneShape) -> Result<NewCopy, Failure> {
    Ok(NewCopy {
        order: order(shape)?,
        features: wanted("--image-feature", &shape.image_feature)?,
        striping: shape.spread.stripe_unit.zip(shape.spread.stripe_count),
        data_pool: data_pool(place, io, shape.spread.data_pool.as_deref()).await?,
        ..NewCopy::default()
    })
}

async fn usage(place: &Place, named: Option<&str>) -> Result<(), Failure> {
    let all_of = named.is_none();
    let named = match named {
        Some(text) => vec![place.image(text).await?],
        None => {
            let io = place.io(None, None).await?;
            let images = loligo_rbd::list(&io).await.context(|| "du".to_owned())?;
            let spec = |image| Spec { pool: None, namespace: None, image, snap: None };
            images.into_keys().map(|image| (io.clone(), spec(image))).collect()
        }
    };
    let mut all = Vec::new();
    for (io, spec) in named {
        let what = || format!("du {}", spec.image);
        let image = Image::open(&io, &spec.image, Mode::ReadOnly).await.context(what)?;
        let mut used = image.usage().await.context(what)?;
        if let Some(snap) = &spec.snap {
            used.retain(|usage| usage.snapshot.as_ref().is_some_and(|(_, name)| name == snap));
        }
        all.push((spec.image.clone(), image.id().to_owned(), used));
    }
    show::usage(&all, all_of, place.format);
    Ok(())
}

async fn snap(place: &Place, command: &Snap) -> Result<(), Failure> {
    let (text, name) = match command {
        Snap::Ls { image, .. } | Snap::Purge { image } => (image, None),
        Snap::Limit(limit) => return snap_limit(place, limit).await,
        Snap::Create { image }
        | Snap::Rm { image }
        | Snap::Rename { image, .. }
        | Snap::Protect { image }
        | Snap::Unprotect { image }
        | Snap::Rollback { image, .. } => (image, place.image(image).await?.1.snap),
    };
    if let Snap::Ls { all, .. } = command {
        let image = place.open(text, Mode::ReadOnly).await?;
        let made_with = if *all { group::made_with(place, &image).await } else { Ok(Vec::new()) };
        let made_with = made_with.context(|| format!("snap ls {text}"))?;
        show::snapshots(&image.view().snapshots, &made_with, *all, place.format);
        return Ok(());
    }
    let name = name.unwrap_or_default();
    if name.is_empty() && !matches!(command, Snap::Purge { .. }) {
        return Err(Failure::new(format!("snap {text}"), "names no snapshot: IMAGE@SNAPSHOT"));
    }
    let image = place.open(text, Mode::ReadWrite).await?;
    let done = match command {
        Snap::Create { .. } => image.create_snapshot(&name).await,
        Snap::Rm { .. } => image.remove_snapshot(&name).await,
        Snap::Purge { .. } => purge(&image).await,
        Snap::Rename { to, .. } => {
            // `rbd` takes it with the image's name or without.
            let to = to.split_once('@').map_or(to.as_str(), |(_, snap)| snap);
            image.rename_snapshot(&name, to).await
        }
        Snap::Protect { .. } => image.protect_snapshot(&name).await,
        Snap::Unprotect { .. } => image.unprotect_snapshot(&name).await,
        Snap::Rollback { quiet, .. } => {
            let bar = Bar::new("Rolling back to snapshot", quiet);
            image.roll_back(&name, |n, of| bar.at(n, of)).await
        }
        Snap::Ls { .. } | Snap::Limit(_) => Ok(()),
    };
    closing(image, done, &format!("snap {text}")).await
}

async fn snap_limit(place: &Place, command: &Limit) -> Result<(), Failure> {
    let (text, limit) = match command {
        Limit::Set { image, limit } => (image, Some(*limit)),
        Limit::Clear { image } => (image, None),
    };
    let image = place.open(text, Mode::ReadOnly).await?;
    image.limit_snapshots(limit).await.context(|| format!("snap limit {text}"))
}

async fn purge(image: &Image) -> Result<(), Error> {
    let view = image.view();
    let of_users = || view.snapshots.iter().filter(|snap| snap.info.kind == SnapKind::User);
    for snap in of_users().filter(|snap| !snap.protected) {
        image.remove_snapshot(&snap.info.name).await?;
    }
    match of_users().find(|snap| snap.protected) {
        Some(snap) => Err(Error::SnapshotBusy(snap.info.name.clone())),
        None => Ok(()),
    }
}

async fn object_map(place: &Place, command: &ObjectMap) -> Result<(), Failure> {
    let (ObjectMap::Check { image: text } | ObjectMap::Rebuild { image: text, .. }) = command;
    let image = place.open(text, Mode::ReadWrite).await?;
    let done = match command {
        ObjectMap::Check { .. } => image.check_object_map().await,
        ObjectMap::Rebuild { quiet, .. } => {
            let bar = Bar::new("Object Map Rebuild", quiet);
            image.rebuild_object_map(|n, of| bar.at(n, of)).await.map(|()| Vec::new())
        }
    };
    let missed = closing(image, done, &format!("object-map {text}")).await?;
    match missed.first() {
        None => Ok(()),
        Some(first) => {
            let why = format!("object {first} and {} more are not in the map", missed.len() - 1);
            Err(Failure::new(format!("object-map {text}"), why))
        }
    }
}

async fn image_meta(place: &Place, command: &ImageMeta) -> Result<(), Failure> {
    let (ImageMeta::List { image: text }
    | ImageMeta::Get { image: text, .. }
    | ImageMeta::Set { image: text, .. }
    | ImageMeta::Remove { image: text, .. }) = command;
    let what = || format!("image-meta {text}");
    let image = place.open(text, Mode::ReadOnly).await?;
    match command {
        ImageMeta::Set { key, value, .. } => {
            image.set_metadata(key, value.clone().into_bytes().into()).await.context(what)
        }
        ImageMeta::Remove { key, .. } => image.remove_metadata(key).await.context(what),
        ImageMeta::Get { key, .. } => {
            let all = image.metadata().await.context(what)?;
            let value = all.get(key).ok_or_else(|| Failure::new(what(), format!("no key '{key}'")))?;
            sayln!("{}", String::from_utf8_lossy(value));
            Ok(())
        }
        ImageMeta::List { .. } => {
            let all = image.metadata().await.context(what)?;
            let all: std::collections::BTreeMap<_, _> =
                all.iter().map(|(key, value)| (key, String::from_utf8_lossy(value))).collect();
            match place.format {
                Format::Plain => all.iter().for_each(|(key, value)| sayln!("{key}\t{value}")),
                Format::Json => sayln!("{}", json!(all)),
            }
            Ok(())
        }
    }
}

async fn namespace(place: &Place, command: &Namespace) -> Result<(), Failure> {
    let (Namespace::Create { place: named } | Namespace::Rm { place: named }) = command else {
        let Namespace::Ls { pool } = command else { return Ok(()) };
        let io = place.io(pool.as_deref(), None).await?;
        let all = namespaces::list(&io).await.context(|| "namespace ls".to_owned())?;
        show::namespaces(&all, place.format);
        return Ok(());
    };
    let (pool, name) = match named.as_deref().map(|named| named.split_once('/').unwrap_or((named, ""))) {
        Some((pool, name)) => (Some(pool), name),
        None => (None, &*place.namespace),
    };
    let what = || format!("namespace {name}");
    if name.is_empty() {
        return Err(Failure::new("namespace", "is not named: POOL/NAMESPACE"));
    }
    let io = place.io(pool, None).await?;
    match command {
        Namespace::Rm { .. } => namespaces::remove(&io, name).await.context(what),
        _ => namespaces::create(&io, name).await.context(what),
    }
}

/// How far something is, on a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new(what: &'static str, quiet: &Quiet) -> Self {
        if quiet.no_progress {
            return Self(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{msg}: {percent}% complete...");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::new(0).with_style(style).with_message(what))
    }

    fn at(&self, done: u64, of: u64) {
        self.0.set_length(of);
        self.0.set_position(done);
    }
}
