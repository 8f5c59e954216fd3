//! Creation of clones.

use loligo_rados::{Errno, IoCtx, PoolId};
use loligo_wire::Encode as _;
use loligo_wire::Name;
use loligo_wire::rbd::{ParentSpec, feature, op_feature};

use crate::call::tell;
use crate::clone::children::put_old_clone;
use crate::image::{At, Image, Inner, Mode, Which, metadata};
use crate::pool::create::{CREATABLE, NewImage, make};
use crate::pool::remove;
use crate::{Error, features, header, names};

/// The number of the first release whose clients support clones of version 2.
const MIMIC: u8 = 13;

/// The properties of a new clone. Unset ones are the parent's.
#[derive(Clone, Debug, Default)]
pub struct NewClone {
    /// The base-2 logarithm of the object size: 12 to 25.
    pub order: Option<u8>,
    /// `RBD_FEATURE_*`; layering must be among them. If unset, the parent's features, without those that
    /// cannot be given to a new image.
    pub features: Option<u64>,
    /// Stripe unit in bytes, and stripe count.
    pub striping: Option<(u64, u64)>,
    /// The data pool. If unset, the clone's pool; the parent's data pool is not inherited.
    pub data_pool: Option<PoolId>,
    /// Whether to skip the check that the data pool supports images
    /// ([`pools::validate`](crate::pools::validate)).
    pub pool_unchecked: bool,
    /// The version of clones.
    pub format: CloneFormat,
}

/// How parent and clone are linked (`rbd_default_clone_format`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloneFormat {
    /// Version 2 if the cluster refuses clients older than release 13 (`ceph osd
    /// set-require-min-compat-client mimic`), otherwise version 1.
    #[default]
    Auto,
    /// The link is in an object of the clone's pool. The snapshot must be protected, and in the clone's
    /// namespace.
    First,
    /// The link is in the parent's header. The snapshot needs no protection, and may be removed before
    /// its clones.
    Second,
}

impl CloneFormat {
    fn is_first(self, io: &IoCtx) -> bool {
        match self {
            Self::Auto => io.rados().require_min_compat_client() < MIMIC,
            Self::First => true,
            Self::Second => false,
        }
    }
}

/// Creates the image `name` as a clone of a snapshot. It has the snapshot's data until that is
/// overwritten.
///
/// # Errors
/// [`Error::NoImage`]; [`Error::NoSnapshot`]; [`Error::Unprotected`]; [`Error::Features`] if the parent
/// or the clone lacks layering; as [`create`](crate::create()).
pub async fn clone(
    parent_io: &IoCtx,
    parent: impl Into<Name>,
    snapshot: impl Into<Name>,
    io: &IoCtx,
    name: impl Into<Name>,
    new: NewClone,
) -> Result<(), Error> {
    let parent = &parent.into();
    let snapshot = &snapshot.into();
    let name = &name.into();
    let parent = Inner::load(parent_io, Which::Name(parent), At::Name(snapshot), Mode::ReadOnly, 0).await?;
    parent.must_be_new("have clones", Errno::ENOENT)?;
    let is_first = new.format.is_first(io);
    let view = parent.view.load_full();
    let is_ready = view.snapshot(snapshot)?.protected && parent_io.namespace() == io.namespace();
    if is_first && !is_ready {
        return Err(Error::Unprotected(snapshot.to_owned()));
    }
    let layout = parent.fixed.layout;
    let image = NewImage {
        size: parent.size(),
        order: new.order.unwrap_or(parent.fixed.order),
        features: new.features.unwrap_or(view.features & CREATABLE),
        striping: new.striping.or(Some((layout.stripe_unit(), layout.stripe_count()))),
        data_pool: new.data_pool,
        pool_unchecked: new.pool_unchecked,
    };
    for features in [view.features, image.features] {
        if features & feature::LAYERING == 0 {
            let without = format!("a clone without {}", features::text(feature::LAYERING));
            return Err(Error::Features(without));
        }
    }
    let id = make(io, name, image).await?;
    let attached = attach(&parent, snapshot, io, &id, is_first).await;
    if attached.is_err() {
        // Best effort; the first failure is returned.
        let _ = remove(io, name, |_, _| {}).await;
    }
    attached
}

/// Links parent and clone. The clone's link to its parent comes first, so that an incomplete clone can
/// be removed completely.
async fn attach(parent: &Inner, snapshot: &Name, io: &IoCtx, id: &str, is_first: bool) -> Result<(), Error> {
    let snap = parent.view.load().snapshot(snapshot)?.info.clone();
    let nspace = Name::from(parent.io.namespace());
    let spec = ParentSpec { pool: parent.io.pool().0, nspace, image: parent.id.clone(), snap: snap.id };
    let header = names::header(id);
    tell(io, &header, "parent_attach", |w| {
        w.put(&spec);
        w.u64(snap.size);
        w.bool(false);
    })
    .await?;
    if is_first {
        tell(io, names::CHILDREN, "add_child", |w| put_old_clone(w, &spec, id)).await?;
        // To unprotect a snapshot, a client first removes the protection and then looks for clones:
        // check again.
        let (_, now) = header::load(&parent.io, &parent.header, parent.fixed.format).await?;
        if !now.snapshot(snapshot)?.protected {
            return Err(Error::Unprotected(snapshot.to_owned()));
        }
    } else {
        tell(io, &header, "op_features_set", |w| {
            w.u64(op_feature::CLONE_CHILD);
            w.u64(op_feature::CLONE_CHILD);
        })
        .await?;
        let clone =
            Image::open_at(io, Which::Known { name: id.as_bytes(), id }, None, Mode::ReadOnly).await?;
        tell(&parent.io, &parent.header, "child_attach", |w| {
            w.u64(snap.id.0);
            w.put(&clone.inner.child_spec());
        })
        .await?;
    }
    let pairs = metadata::load_for_copy(&parent.io, &parent.header).await?;
    if pairs.is_empty() {
        return Ok(());
    }
    tell(io, &header, "metadata_set", |w| w.raw(&pairs.to_bytes())).await
}
