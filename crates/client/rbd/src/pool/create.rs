//! Creates images.

use loligo_rados::{Errno, IoCtx, PoolId, WriteOp};
use loligo_stripe::Layout;
use loligo_wire::Name;
use loligo_wire::rbd::feature;
use loligo_wire::rbd::object_map::{COUNT_MAX, NONEXISTENT};

use crate::call::{tell, telling};
use crate::header::format1::has_header;
use crate::pool::check;
use crate::{Error, features, names};

/// The most characters of an id (`RBD_MAX_IMAGE_ID_LENGTH`).
const ID_LEN_MAX: usize = 14;

/// Valid base-2 logarithms of object sizes: 4 KiB to 32 MiB.
pub(crate) const ORDERS: std::ops::RangeInclusive<u8> = 12..=25;

/// Features that this crate can give a new image.
pub(crate) const CREATABLE: u64 = feature::LAYERING
    | feature::STRIPINGV2
    | feature::EXCLUSIVE_LOCK
    | feature::OBJECT_MAP
    | feature::FAST_DIFF
    | feature::DEEP_FLATTEN
    | feature::DATA_POOL;

/// The properties of a new image.
#[derive(Clone, Debug)]
pub struct NewImage {
    /// The size in bytes.
    pub size: u64,
    /// The base-2 logarithm of the object size: 12 to 25.
    pub order: u8,
    /// `RBD_FEATURE_*`.
    pub features: u64,
    /// Stripe unit in bytes and stripe count in objects; `None`: the image is not striped.
    pub striping: Option<(u64, u64)>,
    /// The data pool, if it differs from the header's pool.
    pub data_pool: Option<PoolId>,
    /// Whether to skip the check that the data pool supports images
    /// ([`pools::validate`](crate::pools::validate)).
    pub pool_unchecked: bool,
}

impl NewImage {
    /// The defaults of stock programs: objects of 4 MiB, features 61.
    pub fn of_size(size: u64) -> Self {
        Self {
            size,
            order: 22,
            features: features::DEFAULT,
            striping: None,
            data_pool: None,
            pool_unchecked: false,
        }
    }

    /// Completes the features and validates the properties.
    fn checked(mut self) -> Result<(Self, Layout), Error> {
        let object_size = 1u64.checked_shl(self.order.into()).unwrap_or(0);
        if self.striping == Some((object_size, 1)) {
            self.striping = None;
        }
        let (stripe_unit, stripe_count) = self.striping.unwrap_or((object_size, 1));
        let layout = Layout::of_image(stripe_unit, stripe_count, object_size)
            .filter(|_| ORDERS.contains(&self.order))
            .ok_or(Error::Layout { order: self.order, stripe_unit, stripe_count })?;
        // Set for an image without striping, the bit would only keep old clients from opening it.
        self.features &= !(feature::STRIPINGV2 | feature::DATA_POOL);
        self.features |= self.striping.map_or(0, |_| feature::STRIPINGV2);
        self.features |= self.data_pool.map_or(0, |_| feature::DATA_POOL);
        let refused = self.features & !CREATABLE;
        if refused != 0 {
            return Err(Error::Features(features::text(refused)));
        }
        for (feature, needs) in
            [(feature::OBJECT_MAP, feature::EXCLUSIVE_LOCK), (feature::FAST_DIFF, feature::OBJECT_MAP)]
        {
            if self.features & feature != 0 && self.features & needs == 0 {
                let missing = format!("{} without {}", features::text(feature), features::text(needs));
                return Err(Error::Features(missing));
            }
        }
        let too_many = self.features & feature::OBJECT_MAP != 0 && layout.object_count(self.size) > COUNT_MAX;
        if too_many {
            return Err(Error::Rados(Errno::ERANGE.into()));
        }
        Ok((self, layout))
    }
}

/// Creates an image.
///
/// # Errors
/// [`Error::ImageExists`]; [`Error::Layout`]; [`Error::Features`]; [`Error::NoNamespace`];
/// [`Error::UnfitPool`].
pub async fn create(io: &IoCtx, name: impl Into<Name>, image: NewImage) -> Result<(), Error> {
    let name = &name.into();
    make(io, name, image).await.map(drop)
}

/// Creates an image and returns its id.
pub(crate) async fn make(io: &IoCtx, name: &Name, image: NewImage) -> Result<String, Error> {
    names::checked(name)?;
    if has_header(io, name).await? {
        return Err(Error::ImageExists(name.to_owned()));
    }
    let id = new_id(io);
    make_as(io, name, &id, image).await?;
    Ok(id)
}

/// Creates an image with this id. The caller has checked that no image of format 1 has the name.
pub(crate) async fn make_as(io: &IoCtx, name: &Name, id: &str, image: NewImage) -> Result<(), Error> {
    names::checked(name)?;
    let (image, layout) = image.checked()?;
    if !image.pool_unchecked {
        let data = image.data_pool.map(|pool| io.rados().ioctx_by_id(pool));
        check::validate(data.as_ref().unwrap_or(io)).await?;
    }
    let named = telling(WriteOp::new().create(true), "set_id", |w| w.put(id));
    match io.operate(names::id_object(name), named).await {
        Err(e) if e.errno() == Errno::EEXIST => return Err(Error::ImageExists(name.to_owned())),
        done => done?,
    }
    let made = enter(io, name, id, &image, layout).await;
    if made.is_err() {
        // Best effort; the first failure is returned.
        let _ = tell(io, names::DIRECTORY, "dir_remove_image", |w| {
            w.put(name);
            w.put(id);
        })
        .await;
        let _ = io.remove(names::header(id)).await;
        let _ = io.remove(names::id_object(name)).await;
    }
    made
}

async fn enter(io: &IoCtx, name: &Name, id: &str, image: &NewImage, layout: Layout) -> Result<(), Error> {
    let mut listed = WriteOp::new();
    if !io.namespace().is_empty() {
        // Fails if the namespace is being removed.
        listed = telling(listed, "dir_state_assert", |w| w.u8(0));
    }
    let listed = telling(listed, "dir_add_image", |w| {
        w.put(name);
        w.put(id);
    });
    match io.operate(names::DIRECTORY, listed).await {
        Err(e) if e.errno() == Errno::ENOENT && !io.namespace().is_empty() => {
            return Err(Error::NoNamespace(Name::from(io.namespace())));
        }
        done => done?,
    }
    let prefix = match image.data_pool {
        Some(_) => format!("rbd_data.{}.{id}", io.pool().0),
        None => format!("rbd_data.{id}"),
    };
    let header = telling(WriteOp::new().create(true), "create", |w| {
        w.u64(image.size);
        w.u8(image.order);
        w.u64(image.features);
        w.put(&prefix);
        w.i64(image.data_pool.map_or(-1, |pool| pool.0));
    });
    io.operate(names::header(id), header).await?;
    if let Some((unit, count)) = image.striping {
        // Calls of one request read the state before the request, so this is a request of its own.
        tell(io, &names::header(id), "set_stripe_unit_count", |w| {
            w.u64(unit);
            w.u64(count);
        })
        .await?;
    }
    if image.features & feature::OBJECT_MAP != 0 {
        tell(io, &names::object_map(id, None), "object_map_resize", |w| {
            w.u64(layout.object_count(image.size));
            w.u8(NONEXISTENT);
        })
        .await?;
    }
    Ok(())
}

/// Returns a unique id: the client's number, and a random one.
pub(crate) fn new_id(io: &IoCtx) -> String {
    let id = format!("{:x}{:x}", io.rados().instance_id().0, fastrand::u32(..));
    id[id.len().saturating_sub(ID_LEN_MAX)..].to_owned()
}
