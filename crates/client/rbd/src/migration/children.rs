//! Relinks the clones of a migrated image to its other image as their parent.
//!
//! The clone's link to its parent is changed first, then the clone is added to the new parent's list,
//! then removed from the old one's. This can be repeated after an interruption, in either direction;
//! completed parts are skipped.

use loligo_rados::{Errno, IoCtx, PoolId, SnapId};
use loligo_wire::Encode as _;
use loligo_wire::Name;
use loligo_wire::rbd::{ChildSpec, ParentSpec, op_feature};

use crate::call::{gone, tell, telling};
use crate::clone::children::put_old_clone;
use crate::clone::parent;
use crate::header::{self, Format, View};
use crate::image::{Image, Inner};
use crate::lock::messages::{Message, NEWS_TIMEOUT};
use crate::{Error, names};

/// A snapshot of one image and its counterpart in the other.
pub(super) struct Mapped {
    pub(super) from: SnapId,
    pub(super) to: SnapId,
}

/// Whether a snapshot of the image has clones.
pub(super) async fn has_some(image: &Image) -> Result<bool, Error> {
    for snap in &image.view().snapshots {
        if !image.inner.clones(snap.info.id).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes the snapshots of `to` the parents of all clones of those of `from`.
pub(super) async fn relink(from: &Image, to: &Image, snaps: &[Mapped]) -> Result<(), Error> {
    let (from, to) = (&*from.inner, &*to.inner);
    for snap in snaps {
        let mut children = from.clones(snap.from).await?;
        // Some clones may be relinked partly.
        children.extend(to.clones(snap.to).await?);
        for child in children {
            let (old, new) = (spec_of(from, snap.from), spec_of(to, snap.to));
            relink_child(&child, (from, &old), (to, &new)).await?;
        }
    }
    Ok(())
}

fn spec_of(image: &Inner, snap: SnapId) -> ParentSpec {
    let nspace = Name::from(image.io.namespace());
    ParentSpec { pool: image.io.pool().0, nspace, image: image.id.clone(), snap }
}

async fn relink_child(
    child: &ChildSpec,
    (from, old): (&Inner, &ParentSpec),
    (to, new): (&Inner, &ParentSpec),
) -> Result<(), Error> {
    let io = from.io.rados().ioctx_by_id(PoolId(child.pool)).with_namespace(child.nspace.clone());
    let header = names::header(&child.image);
    let (_, view) = match header::load(&io, &header, Format::Second).await {
        // Left by an incomplete creation of a clone.
        Err(e) if e.is_not_found() => return Ok(()),
        loaded => loaded?,
    };
    match &view.parent {
        Some(parent) if parent == new => {}
        Some(parent) if parent == old => attach(&io, &header, new, &view).await?,
        _ => return Err(Errno::ESTALE.into()),
    }
    if view.op_features & op_feature::CLONE_CHILD == 0 {
        exists(tell(&io, names::CHILDREN, "add_child", |w| put_old_clone(w, new, &child.image)).await)?;
        gone(tell(&io, names::CHILDREN, "remove_child", |w| put_old_clone(w, old, &child.image)).await)?;
    } else {
        let put = |snap: SnapId| {
            move |w: &mut loligo_wire::Writer| {
                w.u64(snap.0);
                w.put(child);
            }
        };
        exists(tell(&to.io, &to.header, "child_attach", put(new.snap)).await)?;
        gone(tell(&from.io, &from.header, "child_detach", put(old.snap)).await)?;
    }
    io.notify(header, Message::HeaderUpdate.to_bytes(), NEWS_TIMEOUT).await?;
    Ok(())
}

/// Changes a clone's parent. If only the clone's snapshots need the parent, the parent is attached and
/// then detached from the head again.
async fn attach(io: &IoCtx, header: &Name, new: &ParentSpec, view: &View) -> Result<(), Error> {
    let overlap = view.overlap.filter(|overlap| *overlap > 0);
    tell(io, header, "parent_attach", |w| {
        w.put(new);
        w.u64(overlap.unwrap_or(view.size.max(1)));
        w.bool(true);
    })
    .await?;
    match overlap {
        Some(_) => Ok(()),
        None => {
            Ok(io.operate(header, telling(loligo_rados::WriteOp::new(), "parent_detach", |_| {})).await?)
        }
    }
}

/// Treats EEXIST as success.
fn exists(done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(e) if e.errno() == Errno::EEXIST => Ok(()),
        done => done,
    }
}

impl Inner {
    /// A snapshot's clones, of either version.
    async fn clones(&self, snap: SnapId) -> Result<Vec<ChildSpec>, Error> {
        if self.fixed.format == Format::First {
            return Ok(Vec::new());
        }
        let view = self.view.load_full();
        let Some(snap) = view.snapshot_by_id(snap) else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        if snap.protected {
            // Clones of version 1 need the protection; they are searched for in all pools.
            all = self.old_clones(snap.info.id).await?;
        }
        all.extend(self.new_clones(snap.info.id).await?);
        Ok(all)
    }

    /// Makes this incomplete image a clone of a parent.
    pub(super) async fn become_child_of(
        &self,
        spec: &ParentSpec,
        overlap: u64,
        is_second: bool,
    ) -> Result<(), Error> {
        tell(&self.io, &self.header, "parent_attach", |w| {
            w.put(spec);
            w.u64(overlap);
            w.bool(false);
        })
        .await?;
        if !is_second {
            return tell(&self.io, names::CHILDREN, "add_child", |w| put_old_clone(w, spec, &self.id)).await;
        }
        tell(&self.io, &self.header, "op_features_set", |w| {
            w.u64(op_feature::CLONE_CHILD);
            w.u64(op_feature::CLONE_CHILD);
        })
        .await?;
        tell(&parent::place_of(&self.io, spec), &names::header(&spec.image), "child_attach", |w| {
            w.u64(spec.snap.0);
            w.put(&self.child_spec());
        })
        .await
    }
}
