//! `loligo rbd`: images, named as `rbd` names what is done with them.

mod args;
mod bench;
mod clones;
mod config;
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
pub(crate) mod words;

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use indicatif::{ProgressBar, ProgressStyle};
use loligo_cephx::conf::Conf;
use loligo_rados::{Errno, IoCtx, PoolId, Rados};
use loligo_rbd::{
    Ancestry, Error, Image, Mode, NewCopy, NewImage, Shrink, SnapKind, Usage, features, namespaces,
};
use serde_json::json;

use self::args::{
    ById, CloneShape, Deep, Group, ImageMeta, Limit, Namespace, ObjectMap, PoolCommand, Quiet, Snap, Trash,
};
use self::spec::{At, GroupName, GroupSnapshotName, ImageName, ImageOrSnapshot, SnapshotName};
use crate::args::Format;
use crate::client::{self, Client};
use crate::failure::{Context, Failure};
use crate::name::{self, Name};
use crate::object::print_lines;
use crate::words::CalledAs;

pub(crate) use self::args::RbdCommand;
pub(crate) use self::show::bytes;

/// Threads: one carries, the other reads and writes files.
const WORKERS: usize = 2;

pub(crate) fn run(client: Client, command: &RbdCommand) -> Result<(), Failure> {
    check_place(&client, command)?;
    if let RbdCommand::MergeDiff { first, second, file, quiet } = command {
        // Files of this machine only.
        return diff::merge(first, second, file, quiet);
    }
    client::runtime(WORKERS)?.block_on(async {
        let (pool, namespace, snap) = client.place();
        let wrong = || Failure::of(Errno::EINVAL, format!("namespace {namespace}"), "is not UTF-8");
        let namespace = namespace.as_text().ok_or_else(wrong)?.to_owned();
        let pool = pool.map(str::to_owned);
        let (snap, format) = (snap.map(str::to_owned), client.format);
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

/// A cluster, and where in it images are looked for that do not say it themselves.
struct Place {
    rados: Rados,
    pool: String,
    namespace: String,
    snap: Option<String>,
    /// With what the monitors say.
    conf: Conf,
    format: Format,
    called: CalledAs,
}

/// Refuses `-s` and `-N` where the command would drop them. Commands with images refuse `-s` themselves if
/// they take no snapshot.
fn check_place(client: &Client, command: &RbdCommand) -> Result<(), Failure> {
    let (_, namespace, snap) = client.place();
    if snap.is_some() {
        may_have_snap(command)?;
    }
    if !namespace.as_bytes().is_empty() {
        may_have_namespace(command)?;
    }
    Ok(())
}

fn may_have_snap(command: &RbdCommand) -> Result<(), Failure> {
    match command {
        RbdCommand::Create { .. } | RbdCommand::Resize { .. } => {
            Err(Failure::of(Errno::EINVAL, "--snap", "the command takes no snapshot"))
        }
        RbdCommand::Group(Group::Snap(_)) => Ok(()),
        RbdCommand::Ls { .. }
        | RbdCommand::MergeDiff { .. }
        | RbdCommand::Group(_)
        | RbdCommand::Pool(_)
        | RbdCommand::Namespace(_)
        | RbdCommand::Trash(Trash::Ls { .. } | Trash::Purge { .. })
        | RbdCommand::Du { image: None, .. } => Err(Failure::new("-s", "the command takes no snapshot")),
        _ => Ok(()),
    }
}

fn may_have_namespace(command: &RbdCommand) -> Result<(), Failure> {
    match command {
        RbdCommand::MergeDiff { .. }
        | RbdCommand::Pool(PoolCommand::Init { .. })
        | RbdCommand::Namespace(
            Namespace::Ls { .. } | Namespace::Create { place: Some(_) } | Namespace::Rm { place: Some(_) },
        ) => Err(Failure::new("-N", "the command takes no namespace beside what it names")),
        _ => Ok(()),
    }
}

async fn one(place: &Place, command: &RbdCommand) -> Result<(), Failure> {
    match command {
        RbdCommand::Ls { place: named, long } => list(place, named.as_deref(), *long).await,
        RbdCommand::Create { image, shape, size, thick_provision, quiet } => {
            let (io, name) = place.image(image).await?;
            if shape.image_format == Some(1) {
                return create_old(place, (&io, &name), shape, *size).await;
            }
            let new = shaped(place, &io, shape, *size).await?;
            loligo_rbd::create(&io, &name, new).await.context(|| format!("create {image}"))?;
            if *thick_provision { fill(&io, &name, quiet).await } else { Ok(()) }
        }
        RbdCommand::Info { image, by } => info(place, image, by).await,
        RbdCommand::Status { image } => holders::status(place, image).await,
        RbdCommand::Lock(command) => holders::lock(place, command).await,
        RbdCommand::Rm { image, quiet } => remove(place, image, quiet).await,
        RbdCommand::Rename { image, to } => rename(place, image, to).await,
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
        RbdCommand::Snap(command) => snap(place, command).await,
        RbdCommand::Feature(command) => feature::run(place, command).await,
        RbdCommand::ObjectMap(command) => object_map(place, command).await,
        RbdCommand::ImageMeta(command) => image_meta(place, command).await,
        RbdCommand::Config(command) => config::run(place, command).await,
        RbdCommand::Group(command) => group::run(place, command).await,
        RbdCommand::Pool(command) => pool::run(place, command).await,
        RbdCommand::Namespace(command) => namespace(place, command).await,
        RbdCommand::Trash(command) => trash::run(place, command).await,
    }
}

impl Place {
    async fn io(&self, at: &At) -> Result<IoCtx, Failure> {
        self.io_at(self.pool_of(at), self.namespace_of(at)).await
    }

    fn pool_of<'a>(&'a self, at: &'a At) -> &'a str {
        at.pool.as_deref().unwrap_or(&self.pool)
    }

    /// The default namespace of another pool, not one that was meant for this.
    fn namespace_of<'a>(&'a self, at: &'a At) -> &'a str {
        at.namespace.as_deref().unwrap_or(if at.pool.is_some() { "" } else { &self.namespace })
    }

    /// A pool and one of its namespaces, which must be there.
    async fn io_at(&self, pool: &str, namespace: &str) -> Result<IoCtx, Failure> {
        let io = self.pool(pool).await?;
        if namespace.is_empty() {
            return Ok(io);
        }
        let what = || format!("open namespace {pool}/{namespace}");
        let all = namespaces::list(&io).await.context(what)?;
        match all.iter().any(|name| name == namespace) {
            true => Ok(io.with_namespace(namespace)),
            false => Err(Error::NoNamespace(namespace.to_owned())).context(what),
        }
    }

    /// The default namespace of a pool.
    async fn pool(&self, name: &str) -> Result<IoCtx, Failure> {
        self.rados.ioctx(name).await.context(|| format!("open pool {name}"))
    }

    /// POOL[/NAMESPACE].
    async fn named(&self, named: Option<&str>) -> Result<IoCtx, Failure> {
        let Some(text) = named else { return self.io(&At::default()).await };
        let (pool, namespace) = named_so(text, spec::place(text))?;
        self.io_at(pool, namespace).await
    }

    /// Where an image lies, and what it is called; no snapshot.
    async fn image(&self, text: &str) -> Result<(IoCtx, String), Failure> {
        let name = named_so(text, ImageName::parse(text, self.snap.as_deref()))?;
        Ok((self.io(&name.at).await?, name.image))
    }

    /// The same of an image that is to be made of another: -s names a snapshot of that.
    async fn new_image(&self, text: &str) -> Result<(IoCtx, String), Failure> {
        let name = named_so(text, ImageName::parse(text, None))?;
        if self.called == CalledAs::Rbd && name.at.pool.is_none() {
            // As stock `rbd`, to which -p names the pool of what is copied.
            let namespace = name.at.namespace.as_deref().unwrap_or_default();
            return Ok((self.io_at(&defaults::pool(&self.conf), namespace).await?, name.image));
        }
        Ok((self.io(&name.at).await?, name.image))
    }

    /// An image that is named by its name or its id.
    async fn open_by(&self, text: &str, by: &ById, mode: Mode) -> Result<Image, Failure> {
        let (io, name) = self.image(text).await?;
        open_named(&io, &name, by, mode).await.context(|| format!("open {text}"))
    }

    async fn snapshot(&self, text: &str) -> Result<(IoCtx, String, String), Failure> {
        let name = named_so(text, SnapshotName::parse(text, self.snap.as_deref()))?;
        Ok((self.io(&name.of.at).await?, name.of.image, name.snap))
    }

    async fn image_or_snapshot(&self, text: &str) -> Result<(IoCtx, String, Option<String>), Failure> {
        let name = named_so(text, ImageOrSnapshot::parse(text, self.snap.as_deref()))?;
        Ok((self.io(&name.of.at).await?, name.of.image, name.snap))
    }

    async fn group(&self, text: &str) -> Result<(IoCtx, String), Failure> {
        let name = named_so(text, GroupName::parse(text))?;
        Ok((self.io(&name.at).await?, name.group))
    }

    async fn group_snapshot(&self, text: &str) -> Result<(IoCtx, String, String), Failure> {
        let name = named_so(text, GroupSnapshotName::parse(text, self.snap.as_deref()))?;
        Ok((self.io(&name.of.at).await?, name.of.group, name.snap))
    }

    /// That two names mean the same pool and namespace, where nothing goes from one to another.
    fn same_place(&self, what: &str, from: &At, to: &At) -> Result<(), Failure> {
        let place = |at| (self.pool_of(at), self.namespace_of(at));
        let ((pool, namespace), (to_pool, to_namespace)) = (place(from), place(to));
        if (pool, namespace) == (to_pool, to_namespace) {
            return Ok(());
        }
        let why = format!(
            "goes from {pool}/{namespace} to {to_pool}/{to_namespace}, and must stay in its pool and namespace"
        );
        Err(Failure::of(Errno::EINVAL, what, why))
    }

    async fn open(&self, text: &str, mode: Mode) -> Result<Image, Failure> {
        let (io, name) = self.image(text).await?;
        Image::open(&io, &name, mode).await.context(|| format!("open {text}"))
    }

    /// The image, or the snapshot that is named, for reading.
    async fn open_to_read(&self, text: &str) -> Result<(Image, Option<String>), Failure> {
        let (io, name, snap) = self.image_or_snapshot(text).await?;
        let image = match &snap {
            None => Image::open(&io, &name, Mode::ReadOnly).await,
            Some(snap) => Image::open_snapshot(&io, &name, snap).await,
        };
        Ok((image.context(|| format!("open {text}"))?, snap))
    }
}

async fn open_named(io: &IoCtx, name: &str, by: &ById, mode: Mode) -> Result<Image, Error> {
    if by.by_id { Image::open_by_id(io, name, mode).await } else { Image::open(io, name, mode).await }
}

/// What a text names, or why it is refused.
fn named_so<T>(text: &str, parsed: Result<T, &'static str>) -> Result<T, Failure> {
    parsed.map_err(|why| Failure::of(Errno::EINVAL, format!("'{text}'"), why))
}

async fn rename(place: &Place, image: &str, to: &str) -> Result<(), Failure> {
    let what = format!("rename {image} to {to}");
    let from = named_so(image, ImageName::parse(image, place.snap.as_deref()))?;
    let mut to = named_so(to, ImageName::parse(to, None))?;
    if to.at == At::default() {
        to.at = from.at.clone();
    }
    place.same_place(&what, &from.at, &to.at)?;
    let io = place.io(&from.at).await?;
    loligo_rbd::rename(&io, &from.image, &to.image).await.context(|| what)
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
    let images = loligo_rbd::list_all(&io).await.context(|| "ls".to_owned())?;
    // Those of the first format, which have no id, come first, as `rbd` lists them.
    let (old, new): (Vec<_>, Vec<_>) = images.into_iter().partition(|(_, id)| id.is_empty());
    let names: Vec<Bytes> = old.into_iter().chain(new).map(|(name, _)| name).collect();
    if long {
        return list::long(place, &io, text_names(names, "ls").iter()).await;
    }
    match place.format {
        Format::Plain => print_lines(names.iter()),
        _ => {
            let names: Vec<_> = names.iter().map(|name| name::text(name)).collect();
            place.format.print("images", "name", &json!(names));
            Ok(())
        }
    }
}

/// The images that a command can look at; it says which it cannot, as it shows the others.
fn text_names(names: impl IntoIterator<Item = Bytes>, what: &str) -> Vec<String> {
    let text = |name: Bytes| {
        let name = Name::from(name.to_vec());
        if name.as_text().is_none() {
            let failure = Failure::new(format!("{what} {name}"), "left out: its name is not UTF-8");
            eprintln!("loligo: {failure}");
        }
        name.as_text().map(str::to_owned)
    };
    names.into_iter().filter_map(text).collect()
}

async fn shaped(place: &Place, io: &IoCtx, shape: &CloneShape, size: u64) -> Result<NewImage, Failure> {
    let conf = config::of_pool_of(place, io).await;
    shaped_as(place, io, shape, defaults::image(&conf, size)?).await
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
    if shape.order.is_some() {
        return Ok(shape.order);
    }
    if shape.object_size.is_some_and(|size| !size.is_power_of_two()) {
        return Err(Failure::of(Errno::EINVAL, "--object-size", "is no power of two"));
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
    let name = match named {
        Some(name) => Some(name.to_owned()),
        None => defaults::data_pool(&config::of_pool_of(place, io).await),
    };
    let Some(name) = name else { return Ok(None) };
    let pool = place.rados.pool_id(&name).await.context(|| format!("open data pool {name}"))?;
    Ok(Some(pool).filter(|pool| *pool != io.pool()))
}

/// Removes an image, or puts it into the trash where that is configured.
async fn remove(place: &Place, text: &str, quiet: &Quiet) -> Result<(), Failure> {
    let what = || format!("rm {text}");
    let (io, name) = place.image(text).await?;
    let conf = config::of_pool_of(place, &io).await;
    if conf.bool("rbd_move_to_trash_on_remove", false).context(what)? {
        let keep = conf.u64("rbd_move_to_trash_on_remove_expire_seconds", 0).context(what)?;
        return loligo_rbd::trash::put(&io, &name, Duration::from_secs(keep)).await.context(what);
    }
    let bar = Bar::new("Removing image", quiet);
    match loligo_rbd::remove(&io, &name, |n, of| bar.at(n, of)).await {
        Err(Error::HasClones(_))
            if conf.bool("rbd_move_parent_to_trash_on_remove", false).context(what)? =>
        {
            loligo_rbd::trash::put_parent(&io, &name).await.context(what)
        }
        removed => removed.context(what),
    }
}

/// Makes an image of the first format, where the user says that this is meant, as to stock `rbd`.
async fn create_old(
    place: &Place,
    (io, name): (&IoCtx, &str),
    shape: &CloneShape,
    size: u64,
) -> Result<(), Failure> {
    let what = || format!("create {name}");
    if std::env::var_os("RBD_FORCE_ALLOW_V1").is_none() {
        let why = "images of format 1 are deprecated; a test that needs one sets RBD_FORCE_ALLOW_V1=1";
        return Err(Failure::of(Errno::EINVAL, what(), why));
    }
    if !shape.image_feature.is_empty()
        || shape.spread.stripe_unit.is_some()
        || shape.spread.data_pool.is_some()
    {
        let why = "an image of format 1 has no features, no striping and no data pool";
        return Err(Failure::of(Errno::EINVAL, what(), why));
    }
    let conf = config::of_pool_of(place, io).await;
    let order = order(shape)?.unwrap_or(defaults::image(&conf, size)?.order);
    loligo_rbd::create_old(io, name, size, order).await.context(what)
}

/// Bytes of zeros that are written at once, and such writes under way.
const ZEROS: u64 = 4 << 20;
const ZEROS_AT_ONCE: usize = 10;

/// Writes zeros into all of an image, so that it has its room.
async fn fill(io: &IoCtx, name: &str, quiet: &Quiet) -> Result<(), Failure> {
    let what = || format!("create --thick-provision {name}");
    let image = Image::open(io, name, Mode::ReadWrite).await.context(what)?;
    let bar = Bar::new("Thick provisioning", quiet);
    let (size, zeros) = (image.size(), Bytes::from(vec![0; ZEROS as usize]));
    let writes = (0..size).step_by(ZEROS as usize).map(|at| {
        let (image, zeros) = (&image, zeros.slice(..ZEROS.min(size - at) as usize));
        async move { image.write(at, zeros).await }
    });
    let mut writes = stream::iter(writes).buffer_unordered(ZEROS_AT_ONCE);
    let (mut done, mut written) = (0, Ok(()));
    while let Some(one) = writes.next().await {
        done += ZEROS;
        bar.at(done.min(size), size);
        if one.is_err() {
            written = one;
            break;
        }
    }
    drop(writes);
    closing(image, written, &what()).await
}

async fn info(place: &Place, text: &str, by: &ById) -> Result<(), Failure> {
    let (io, name, snap) = place.image_or_snapshot(text).await?;
    let image = match by.by_id {
        true => Image::open_header_by_id(&io, &name, snap.as_deref()).await,
        false => Image::open_header(&io, &name, snap.as_deref()).await,
    };
    let image = image.context(|| format!("open {text}"))?;
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
    let (io, name) = place.new_image(to).await?;
    let (image, _) = place.open_to_read(from).await?;
    let new = NewCopy {
        sparse_bytes: usize::try_from(sparse_size).unwrap_or(usize::MAX),
        ..new_copy(place, &io, shape).await?
    };
    let bar = Bar::new("Image copy", quiet);
    let copied = image.copy(&io, &name, new, |n, of| bar.at(n, of)).await;
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
    let (io, name) = place.new_image(to).await?;
    let (image, _) = place.open_to_read(from).await?;
    let new = new_copy(place, &io, shape).await?;
    let bar = Bar::new("Image deep copy", quiet);
    let copied = image.deep_copy(&io, &name, new, ancestry, |n, of| bar.at(n, of)).await;
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
        Some(text) => vec![place.image_or_snapshot(text).await?],
        None => {
            let io = place.io(&At::default()).await?;
            let images = loligo_rbd::list_all(&io).await.context(|| "du".to_owned())?;
            let images = text_names(images.into_keys(), "du");
            images.into_iter().map(|image| (io.clone(), image, None)).collect()
        }
    };
    let mut all = Vec::new();
    for (io, name, snap) in named {
        let what = || format!("du {name}");
        let (id, mut used) = match usage_of(&io, &name).await {
            // Of all images, one that is broken is no reason not to show the others.
            Err(e) if all_of => {
                list::left_out("du", &name, &e);
                continue;
            }
            found => found.context(what)?,
        };
        if let Some(snap) = &snap {
            used.retain(|usage| usage.snapshot.as_ref().is_some_and(|(_, name)| name == snap));
            if used.is_empty() {
                return Err(Error::NoSnapshot(snap.clone())).context(what);
            }
        }
        all.push((name.clone(), id, used));
    }
    show::usage(&all, all_of, place.format);
    Ok(())
}

async fn usage_of(io: &IoCtx, name: &str) -> Result<(String, Vec<Usage>), Error> {
    let image = Image::open(io, name, Mode::ReadOnly).await?;
    Ok((image.id().to_owned(), image.usage().await?))
}

async fn snap(place: &Place, command: &Snap) -> Result<(), Failure> {
    match command {
        Snap::Ls { image, all, by } => list_snapshots(place, (image, by), *all).await,
        Snap::Purge { image: text, by, .. } => {
            let image = place.open_by(text, by, Mode::ReadWrite).await?;
            let done = purge(&image).await;
            closing(image, done, &format!("snap purge {text}")).await
        }
        Snap::Limit(limit) => snap_limit(place, limit).await,
        Snap::Rename { image, to } => rename_snapshot(place, image, to).await,
        Snap::Create { image, .. } | Snap::Rollback { image, .. } => {
            on_snapshot(place, image, &ById { by_id: false }, command).await
        }
        Snap::Rm { image, by, .. } | Snap::Protect { image, by } | Snap::Unprotect { image, by } => {
            on_snapshot(place, image, by, command).await
        }
    }
}

async fn list_snapshots(place: &Place, (text, by): (&str, &ById), all: bool) -> Result<(), Failure> {
    let image = place.open_by(text, by, Mode::Header).await?;
    let made_with = if all { group::made_with(place, &image).await } else { Ok(Vec::new()) };
    let made_with = made_with.context(|| format!("snap ls {text}"))?;
    show::snapshots(&image.view().snapshots, &made_with, all, place.format);
    Ok(())
}

/// The new name is one of the same image.
async fn rename_snapshot(place: &Place, text: &str, to: &str) -> Result<(), Failure> {
    let what = format!("snap rename {text} to {to}");
    let from = named_so(text, SnapshotName::parse(text, place.snap.as_deref()))?;
    let mut to = named_so(to, SnapshotName::parse(to, None))?;
    if to.of.at == At::default() {
        to.of.at = from.of.at.clone();
    }
    place.same_place(&what, &from.of.at, &to.of.at)?;
    if from.of.image != to.of.image {
        let why = format!("goes from image {} to image {}", from.of.image, to.of.image);
        return Err(Failure::of(Errno::EINVAL, what, why));
    }
    let io = place.io(&from.of.at).await?;
    let image = Image::open(&io, &from.of.image, Mode::ReadWrite).await.context(|| format!("open {text}"))?;
    let done = image.rename_snapshot(&from.snap, &to.snap).await;
    closing(image, done, &what).await
}

async fn on_snapshot(place: &Place, text: &str, by: &ById, command: &Snap) -> Result<(), Failure> {
    let (io, image, name) = place.snapshot(text).await?;
    let image = open_named(&io, &image, by, Mode::ReadWrite).await.context(|| format!("open {text}"))?;
    let done = match command {
        Snap::Create { .. } => image.create_snapshot(&name).await,
        Snap::Rm { force, .. } => match force {
            true => remove_forced(place, &image, &name).await,
            false => image.remove_snapshot(&name).await,
        },
        Snap::Protect { .. } => image.protect_snapshot(&name).await,
        Snap::Unprotect { .. } => image.unprotect_snapshot(&name).await,
        Snap::Rollback { quiet, .. } => {
            let bar = Bar::new("Rolling back to snapshot", quiet);
            image.roll_back(&name, |n, of| bar.at(n, of)).await
        }
        Snap::Ls { .. } | Snap::Purge { .. } | Snap::Rename { .. } | Snap::Limit(_) => Ok(()),
    };
    closing(image, done, &format!("snap {text}")).await
}

/// Flattens a snapshot's clones, so that nothing needs it any more, and removes it, be it protected.
async fn remove_forced(place: &Place, image: &Image, name: &str) -> Result<(), Error> {
    for child in image.children(Some(name)).await? {
        let io = place.rados.ioctx_by_id(child.pool).with_namespace(child.namespace.clone());
        let clone = Image::open_by_id(&io, &child.id, Mode::ReadWrite).await?;
        let flat = clone.flatten(|_, _| {}).await;
        let closed = clone.close().await;
        flat.and(closed)?;
    }
    if image.view().snapshot(name).is_ok_and(|snap| snap.protected) {
        image.unprotect_snapshot(name).await?;
    }
    image.remove_snapshot(name).await
}

async fn snap_limit(place: &Place, command: &Limit) -> Result<(), Failure> {
    let (text, limit) = match command {
        Limit::Set { image, limit } => (image, Some(*limit)),
        Limit::Clear { image } => (image, None),
    };
    let image = place.open(text, Mode::Header).await?;
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
    let (ObjectMap::Check { image: text, .. } | ObjectMap::Rebuild { image: text, .. }) = command;
    let (io, name, snap) = place.image_or_snapshot(text).await?;
    let image = Image::open(&io, &name, Mode::ReadWrite).await.context(|| format!("open {text}"))?;
    let done = match (command, &snap) {
        (ObjectMap::Check { .. }, None) => image.check_object_map().await,
        (ObjectMap::Check { .. }, Some(snap)) => image.check_snapshot_object_map(snap).await,
        (ObjectMap::Rebuild { quiet, .. }, snap) => {
            let bar = Bar::new("Object Map Rebuild", quiet);
            let told = |n, of| bar.at(n, of);
            let made = match snap {
                None => image.rebuild_object_map(told).await,
                Some(snap) => image.rebuild_snapshot_object_map(snap, told).await,
            };
            made.map(|()| Vec::new())
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
    let image = place.open(text, Mode::Header).await?;
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
                Format::Plain if place.called == CalledAs::Rbd => show::metadata(&all),
                Format::Plain => all.iter().for_each(|(key, value)| sayln!("{key}\t{value}")),
                _ => place.format.print("metadata", "item", &json!(all)),
            }
            Ok(())
        }
    }
}

async fn namespace(place: &Place, command: &Namespace) -> Result<(), Failure> {
    let (Namespace::Create { place: named } | Namespace::Rm { place: named }) = command else {
        let Namespace::Ls { pool } = command else { return Ok(()) };
        let io = place.pool(only_pool(pool.as_deref().unwrap_or(&place.pool))?).await?;
        let all = namespaces::list(&io).await.context(|| "namespace ls".to_owned())?;
        show::namespaces(&all, place.format);
        return Ok(());
    };
    let (pool, name) = match named.as_deref() {
        Some(text) => named_so(text, spec::place(text))?,
        None => (&*place.pool, &*place.namespace),
    };
    if name.is_empty() {
        return Err(Failure::of(Errno::EINVAL, "namespace", "is not named: POOL/NAMESPACE"));
    }
    let what = || format!("namespace {name}");
    let io = place.pool(only_pool(pool)?).await?;
    match command {
        Namespace::Rm { .. } => namespaces::remove(&io, name).await.context(what),
        _ => namespaces::create(&io, name).await.context(what),
    }
}

/// A pool, and nothing within it.
fn only_pool(text: &str) -> Result<&str, Failure> {
    match text.contains('/') {
        true => Err(Failure::of(Errno::EINVAL, format!("'{text}'"), "is no name of a pool")),
        false => Ok(text),
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
