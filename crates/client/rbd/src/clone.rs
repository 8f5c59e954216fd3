//! Making clones.

use loligo_rados::{Errno, IoCtx, PoolId};
use loligo_wire::Encode as _;
use loligo_wire::Name;
use loligo_wire::rbd::{ParentSpec, feature, op_feature};

use crate::call::tell;
use crate::children::put_old_clone;
use crate::image::{At, Image, Inner, Mode, Which};
use crate::images::{CREATABLE, NewImage, make, remove};
use crate::{Error, features, header, metadata, names};

/// Releases, as maps number them: the first whose clients know clones of the second version.
const MIMIC: u8 = 13;

/// A new clone. What is not said is the parent's.
#[derive(Clone, Debug, Default)]
pub struct NewClone {
    /// Of an object's size, to the base 2: 12 to 25.
    pub order: Option<u8>,
    /// `RBD_FEATURE_*`; layering must be among them. Of the parent's those that cannot be given here are left
    /// out.
    pub features: Option<u64>,
    /// Stripe unit in bytes, and stripe count.
    pub striping: Option<(u64, u64)>,
    /// The pool of its data; not the parent's, if that is another one.
    pub data_pool: Option<PoolId>,
    /// Whether the pool of its data is taken to support images without a look
    /// ([`pools::validate`](crate::pools::validate)).
    pub pool_unchecked: bool,
    /// Which version of clones.
    pub format: CloneFormat,
}

/// How parent and clone know of each other (`rbd_default_clone_format`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloneFormat {
    /// The second version, if the cluster allows no clients of before release 13 (`ceph osd
    /// set-require-min-compat-client mimic`); else the first.
    #[default]
    Auto,
    /// A list in the clone's pool; the snapshot must be protected, and in the clone's namespace.
    First,
    /// A list in the parent's header; the snapshot needs no protection, and may be removed before its clones
    /// are.
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

/// Makes the image `name` of a snapshot: it has what the snapshot has until that is overwritten.
///
/// # Errors
/// [`Error::NoImage`]; [`Error::NoSnapshot`]; [`Error::Unprotected`]; [`Error::Features`] if the parent or
/// the clone shall not have layering; as [`create`](crate::create()).
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
        // As far as it goes: the first failure is the one to tell.
        let _ = remove(io, name, |_, _| {}).await;
    }
    attached
}

/// Makes parent and clone know each other, first the clone its parent: then it can be removed by whoever
/// finds it.
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
        // Who takes the protection away does so first and looks for clones afterwards.
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
