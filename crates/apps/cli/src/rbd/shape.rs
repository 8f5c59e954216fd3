//! The shape of a new image, from the command line and the configuration.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use loligo_rados::{Errno, IoCtx, PoolId};
use loligo_rbd::{Image, Mode, NewCopy, NewImage};

use super::args::{CloneShape, Quiet};
use super::{Bar, Place, closing, config, defaults, wanted};
use crate::failure::{Context, Failure};
use crate::name::Name;

pub(super) async fn shaped(
    place: &Place,
    io: &IoCtx,
    shape: &CloneShape,
    size: u64,
) -> Result<NewImage, Failure> {
    let conf = config::of_pool_of(place, io).await;
    shaped_as(place, io, shape, defaults::image(&conf, size)?).await
}

/// Returns the configured shape, overridden by the command line.
pub(super) async fn shaped_as(
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
        pool_unchecked: defaults::pool_unchecked(&config::of_pool_of(place, io).await)?,
        ..new
    })
}

/// Returns the exponent of the object size to the base 2, if the size is given.
pub(super) fn order(shape: &CloneShape) -> Result<Option<u8>, Failure> {
    if shape.order.is_some() {
        return Ok(shape.order);
    }
    if shape.object_size.is_some_and(|size| !size.is_power_of_two()) {
        return Err(Failure::of(Errno::EINVAL, "--object-size", "is no power of two"));
    }
    Ok(shape.object_size.map(|size| size.ilog2() as u8))
}

/// Returns the pool for the data of an image in `io`'s pool, if it is a separate one: the named or the
/// configured pool.
pub(super) async fn data_pool(
    place: &Place,
    io: &IoCtx,
    named: Option<&str>,
) -> Result<Option<PoolId>, Failure> {
    let name = match named {
        Some(name) => Some(name.to_owned()),
        None => defaults::data_pool(&config::of_pool_of(place, io).await),
    };
    let Some(name) = name else { return Ok(None) };
    let pool = place.rados.pool_id(&name).await.context(|| format!("open data pool {name}"))?;
    Ok(Some(pool).filter(|pool| *pool != io.pool()))
}

/// Creates an image of the first format if the user confirms it, as with stock `rbd`.
pub(super) async fn create_old(
    place: &Place,
    (io, name): (&IoCtx, &Name),
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

/// Bytes of zeros in one write; the next constant is the number of such writes in flight.
const ZEROS: u64 = 4 << 20;

const ZEROS_AT_ONCE: usize = 10;

/// Writes zeros to all of an image, so that its space is allocated.
pub(super) async fn fill(io: &IoCtx, name: &Name, quiet: &Quiet) -> Result<(), Failure> {
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

pub(super) async fn new_copy(place: &Place, io: &IoCtx, shape: &CloneShape) -> Result<NewCopy, Failure> {
    Ok(NewCopy {
        order: order(shape)?,
        features: wanted("--image-feature", &shape.image_feature)?,
        striping: shape.spread.stripe_unit.zip(shape.spread.stripe_count),
        data_pool: data_pool(place, io, shape.spread.data_pool.as_deref()).await?,
        pool_unchecked: defaults::pool_unchecked(&config::of_pool_of(place, io).await)?,
        ..NewCopy::default()
    })
}
