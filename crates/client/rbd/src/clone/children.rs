//! An image's clones.
//!
//! Clones of version 2 are listed in the header of their parent. Clones of version 1 are listed in the
//! object `rbd_children` of the clone's pool and namespace, by their parent's pool, id and snapshot.

use std::collections::BTreeSet;

use loligo_rados::{Errno, IoCtx, PoolId, SnapId};
use loligo_wire::rbd::{ChildSpec, ParentSpec, SnapInfo, SnapKind, op_feature};
use loligo_wire::{Name, Writer};

use crate::call::{ask, gone, tell};
use crate::clone::parent::place_of;
use crate::header::Format;
use crate::image::{Image, Inner, Mode, Which};
use crate::pool::directory::name_of;
use crate::{Error, names, namespaces, trash};

/// A clone of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Child {
    /// The pool.
    pub pool: PoolId,
    /// The namespace.
    pub namespace: Name,
    /// The image's name.
    pub name: Name,
    /// Its id.
    pub id: String,
    /// Whether it is in the trash.
    pub in_trash: bool,
}

impl Image {
    /// Returns the clones of a snapshot; `None`: of all snapshots, including those in the trash. Clones
    /// of version 1 are searched for in each namespace of each pool.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; a pool cannot be read.
    pub async fn children(&self, snapshot: Option<&Name>) -> Result<Vec<Child>, Error> {
        let inner = &self.inner;
        inner.refresh().await?;
        let view = inner.view.load_full();
        let snaps = match snapshot {
            Some(name) => std::slice::from_ref(view.snapshot(name)?),
            None => &view.snapshots[..],
        };
        let mut all = BTreeSet::new();
        if self.format() == Format::First {
            return Ok(Vec::new());
        }
        for snap in snaps {
            let mut specs = inner.old_clones(snap.info.id).await?;
            if snap.info.children > 0 {
                specs.extend(inner.new_clones(snap.info.id).await?);
            }
            for spec in specs {
                all.extend(named(inner, spec).await?);
            }
        }
        Ok(all.into_iter().collect())
    }
}

/// Returns `None` if the clone was removed meanwhile, or its creation was not completed.
async fn named(inner: &Inner, spec: ChildSpec) -> Result<Option<Child>, Error> {
    let io = inner.io.rados().ioctx_by_id(PoolId(spec.pool)).with_namespace(spec.nspace.clone());
    match name_of(&io, &spec.image).await {
        Err(e) if e.is_not_found() => Ok(None),
        found => {
            let (name, in_trash) = found?;
            Ok(Some(Child { pool: io.pool(), namespace: spec.nspace, name, id: spec.image, in_trash }))
        }
    }
}

/// Encodes an entry of `rbd_children`.
pub(crate) fn put_old_clone(w: &mut Writer, parent: &ParentSpec, id: &str) {
    w.i64(parent.pool);
    w.put(&parent.image);
    w.u64(parent.snap.0);
    w.put(id);
}

impl Inner {
    /// This clone's entry in its parent's list.
    pub(crate) fn child_spec(&self) -> ChildSpec {
        let nspace = Name::from(self.io.namespace());
        ChildSpec { pool: self.io.pool().0, image: self.id.clone(), nspace }
    }

    pub(crate) async fn new_clones(&self, snap: SnapId) -> Result<BTreeSet<ChildSpec>, Error> {
        match ask(&self.io, &self.header, "children_list", |w| w.u64(snap.0)).await {
            Err(e) if e.is_not_found() => Ok(BTreeSet::new()),
            clones => clones,
        }
    }

    /// A snapshot's clones of version 1, in any namespace of any pool.
    pub(crate) async fn old_clones(&self, snap: SnapId) -> Result<Vec<ChildSpec>, Error> {
        let mut all = Vec::new();
        for (pool, _) in self.io.rados().pools() {
            let io = self.io.rados().ioctx_by_id(pool);
            let namespaces = match namespaces::list(&io).await {
                // An OSD without the class has no clones.
                Err(e) if e.errno() == Errno::EOPNOTSUPP => continue,
                // A user with access to another pool may list clones there, and nothing else.
                Err(e) if e.errno() == Errno::EPERM => Vec::new(),
                namespaces => namespaces?,
            };
            self.add_old_clones(&mut all, &io, Name::new(), snap).await?;
            for namespace in namespaces {
                self.add_old_clones(&mut all, &io.with_namespace(&*namespace), namespace, snap).await?;
            }
        }
        Ok(all)
    }

    async fn add_old_clones(
        &self,
        all: &mut Vec<ChildSpec>,
        io: &IoCtx,
        nspace: Name,
        snap: SnapId,
    ) -> Result<(), Error> {
        let children: Result<BTreeSet<String>, Error> = ask(io, names::CHILDREN, "get_children", |w| {
            w.i64(self.io.pool().0);
            w.put(&self.id);
            w.u64(snap.0);
        })
        .await;
        match children {
            Err(e) if e.is_not_found() => Ok(()),
            children => {
                let spec = |image| ChildSpec { pool: io.pool().0, image, nspace: nspace.clone() };
                all.extend(children?.into_iter().map(spec));
                Ok(())
            }
        }
    }

    /// Removes the image from its parent's list of clones. Repeated calls, and calls for an image that
    /// is not a clone, do nothing.
    pub(crate) async fn detach_child(&self) -> Result<(), Error> {
        let view = self.view.load_full();
        let Some(parent) = &view.parent else { return Ok(()) };
        if view.op_features & op_feature::CLONE_CHILD == 0 {
            let put = |w: &mut Writer| put_old_clone(w, parent, &self.id);
            return gone(tell(&self.io, names::CHILDREN, "remove_child", put).await);
        }
        let io = place_of(&self.io, parent);
        let header = names::header(&parent.image);
        gone(
            tell(&io, &header, "child_detach", |w| {
                w.u64(parent.snap.0);
                w.put(&self.child_spec());
            })
            .await,
        )?;
        // The image is no clone any more, even if the snapshot's removal fails; a user can then remove
        // the snapshot.
        let _ = Box::pin(clear_snapshot(&io, &header, parent)).await;
        Ok(())
    }
}

/// Removes a parent's snapshot that was kept only for its clones, after the last of them is gone.
async fn clear_snapshot(io: &IoCtx, header: &Name, parent: &ParentSpec) -> Result<(), Error> {
    let snap: SnapInfo = ask(io, header, "snapshot_get", |w| w.u64(parent.snap.0)).await?;
    if !matches!(snap.kind, SnapKind::Trash { .. }) || snap.children > 0 {
        return Ok(());
    }
    let which = Which::Known { name: parent.image.as_bytes(), id: &parent.image };
    let image = Image::open_at(io, which, None, Mode::ReadWrite).await?;
    let removed = image.remove_trashed_snapshot(parent.snap).await;
    image.close().await?;
    removed?;
    // An image with remaining snapshots stays.
    trash::remove_parent(io, &parent.image).await
}
