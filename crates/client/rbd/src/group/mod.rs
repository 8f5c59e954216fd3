//! Groups of images. A group snapshot is consistent across all images of the group.
//!
//! A group has a name in its pool and namespace, and a header that lists its images, which may be in
//! other pools, and its snapshots. An image belongs to one group at most, which its header names. Facts:
//! `librbd/api/Group.cc`, `cls/rbd/cls_rbd.cc`.
//!
//! ```no_run
//! # async fn example(pool: loligo_rados::IoCtx) -> Result<(), loligo_rbd::Error> {
//! use loligo_rbd::group;
//!
//! group::create(&pool, "database").await?;
//! for image in ["data", "log"] {
//!     group::add_image(&pool, "database", &pool, image).await?;
//! }
//! group::create_snapshot(&pool, "database", "before").await?;
//! group::roll_back(&pool, "database", "before", |_, _| {}).await
//! # }
//! ```

mod members;
mod snapshots;

use loligo_rados::{Errno, IoCtx, PoolId, WriteOp};
use loligo_wire::rbd::{GroupMember, GroupSnap, GroupSpec, SnapKind};
use loligo_wire::{Name, Writer};

pub use self::members::{Member, add_image, members, remove_image, remove_image_by_id};
pub use self::snapshots::{
    GroupSnapshot, InGroup, create_snapshot, remove_snapshot, rename_snapshot, roll_back, snapshots,
};
use crate::call::{ask, gone, listed, listed_behind, tell};
use crate::image::Image;
use crate::{Error, names};

/// The state of a namespace in which images can be created (`dir_state_assert`).
const READY: u8 = 0;

/// A group, and its pool and namespace.
struct Group<'a> {
    io: &'a IoCtx,
    id: String,
    header: Name,
}

/// Creates a group without images.
///
/// # Errors
/// [`Error::GroupExists`]; [`Error::NoNamespace`]; EINVAL if the name is not valid.
pub async fn create(io: &IoCtx, name: impl Into<Name>) -> Result<(), Error> {
    let name = &name.into();
    names::checked(name)?;
    if !io.namespace().is_empty() {
        match tell(io, names::DIRECTORY, "dir_state_assert", |w| w.u8(READY)).await {
            Err(e) if e.is_not_found() => {
                return Err(Error::NoNamespace(namespace_of(io)));
            }
            ready => ready?,
        }
    }
    let id = new_id(io);
    let both = |w: &mut Writer| {
        w.put(name);
        w.put(&id);
    };
    match tell(io, names::GROUPS, "group_dir_add", both).await {
        Err(e) if e.errno() == Errno::EEXIST => return Err(Error::GroupExists(name.to_owned())),
        added => added?,
    }
    let made = io.operate(names::group_header(&id), WriteOp::new().create(true)).await;
    if made.is_err() {
        // The first failure is returned.
        let _ = tell(io, names::GROUPS, "group_dir_remove", both).await;
    }
    Ok(made?)
}

/// Returns a unique id.
fn new_id(io: &IoCtx) -> String {
    format!("{:x}{:x}", io.rados().instance_id().0, fastrand::u32(..))
}

/// Lists the groups, by name.
///
/// # Errors
/// The directory cannot be read. A missing directory means no groups.
pub async fn list(io: &IoCtx) -> Result<Vec<Name>, Error> {
    let all =
        listed(io, names::GROUPS, "group_dir_list", |(name, _): &(Name, String)| name.as_bytes()).await?;
    Ok(all.into_iter().map(|(name, _)| name).collect())
}

/// Removes a group with its snapshots, but not its images. Can be repeated after a failure.
///
/// # Errors
/// [`Error::NoGroup`]; as [`remove_snapshot`].
pub async fn remove(io: &IoCtx, name: impl Into<Name>) -> Result<(), Error> {
    let name = &name.into();
    let group = Group::find(io, name).await?;
    for snap in group.snaps().await? {
        group.erase_snapshot(&snap).await?;
    }
    for member in group.members().await? {
        group.let_go(&group.place(member.image.pool), &member.image.image).await?;
    }
    gone(io.remove(&*group.header).await.map_err(Error::from))?;
    gone(
        tell(io, names::GROUPS, "group_dir_remove", |w| {
            w.put(name);
            w.put(&group.id);
        })
        .await,
    )
}

/// Renames a group.
///
/// # Errors
/// [`Error::NoGroup`]; [`Error::GroupExists`]; EINVAL if the name is not valid.
pub async fn rename(io: &IoCtx, from: impl Into<Name>, to: impl Into<Name>) -> Result<(), Error> {
    let from = &from.into();
    let to = &to.into();
    names::checked(to)?;
    let group = Group::find(io, from).await?;
    let renamed = tell(io, names::GROUPS, "group_dir_rename", |w| {
        w.put(from);
        w.put(to);
        w.put(&group.id);
    });
    match renamed.await {
        Err(e) if e.errno() == Errno::EEXIST => Err(Error::GroupExists(to.to_owned())),
        done => done,
    }
}

/// The group of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belonging {
    /// The group's pool.
    pub pool: PoolId,
    /// The namespace of the group and the image.
    pub namespace: Name,
    /// Its id.
    pub id: String,
    /// Its name, or its id if the name is lost.
    pub name: Name,
}

impl Image {
    /// Returns the group that the image belongs to.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn group(&self) -> Result<Option<Belonging>, Error> {
        let inner = &self.inner;
        let spec = match ask::<GroupSpec>(&inner.io, &inner.header, "image_group_get", |_| {}).await {
            // An OSD without support for groups.
            Err(e) if e.errno() == Errno::EOPNOTSUPP => return Ok(None),
            spec => spec?,
        };
        if !spec.exists() {
            return Ok(None);
        }
        let io = place_in(&inner.io, spec.pool);
        let name = match ask(&io, names::GROUPS, "dir_get_name", |w| w.put(&spec.group)).await {
            Err(e) if e.is_not_found() => Name::from(&spec.group),
            name => name?,
        };
        let namespace = namespace_of(&io);
        Ok(Some(Belonging { pool: io.pool(), namespace, id: spec.group, name }))
    }
}

fn namespace_of(io: &IoCtx) -> Name {
    Name::from(io.namespace())
}

/// The same namespace of another pool.
fn place_in(io: &IoCtx, pool: i64) -> IoCtx {
    io.rados().ioctx_by_id(PoolId(pool)).with_namespace(io.namespace().to_vec())
}

impl<'a> Group<'a> {
    async fn find(io: &'a IoCtx, name: &Name) -> Result<Self, Error> {
        let id: String = match ask(io, names::GROUPS, "dir_get_id", |w| w.put(name)).await {
            Err(e) if e.is_not_found() => return Err(Error::NoGroup(name.to_owned())),
            id => id?,
        };
        Ok(Self { io, header: names::group_header(&id), id })
    }

    /// The group's namespace in an image's pool.
    fn place(&self, pool: i64) -> IoCtx {
        place_in(self.io, pool)
    }

    fn spec(&self) -> GroupSpec {
        GroupSpec { pool: self.io.pool().0, group: self.id.clone() }
    }

    /// The kind of the images' snapshots that belong to a group's snapshot.
    fn kind(&self, snap: &GroupSnap) -> SnapKind {
        SnapKind::Group { pool: self.io.pool().0, group: self.id.clone(), snap: snap.id.clone() }
    }

    /// The group's images, by pool and id.
    async fn members(&self) -> Result<Vec<GroupMember>, Error> {
        let begin = |last: Option<&GroupMember>, w: &mut Writer| match last {
            Some(last) => w.put(&last.image),
            None => w.put(&loligo_wire::rbd::GroupImage::default()),
        };
        let key = |member: &GroupMember| (member.image.pool, member.image.image.clone());
        let follows = |one: &GroupMember, last: &GroupMember| key(one) > key(last);
        listed_behind(self.io, &self.header, "group_image_list", begin, follows).await
    }

    /// The group's snapshots, by id.
    async fn snaps(&self) -> Result<Vec<GroupSnap>, Error> {
        let begin = |last: Option<&GroupSnap>, w: &mut Writer| match last {
            Some(last) => w.put(last),
            None => w.put(&GroupSnap::default()),
        };
        let follows = |one: &GroupSnap, last: &GroupSnap| one.id > last.id;
        listed_behind(self.io, &self.header, "group_snap_list", begin, follows).await
    }
}
