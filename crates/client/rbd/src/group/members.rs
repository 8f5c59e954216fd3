//! The images of a group.
//!
//! Group and image name each other. The group records the image as incomplete first, so that an
//! interrupted change can be found from the group.

use loligo_rados::{Errno, IoCtx, PoolId};
use loligo_wire::Encode as _;
use loligo_wire::Name;
use loligo_wire::rbd::{GroupImage, GroupMember, GroupSpec};

use super::Group;
use crate::call::{ask, gone, tell};
use crate::lock::messages::{Message, NEWS_TIMEOUT};
use crate::pool::directory::name_of;
use crate::{Error, names};

/// An image of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The image's pool. Its namespace is the group's.
    pub pool: PoolId,
    /// The image's id.
    pub id: String,
    /// The image's name, or its id if the name is lost.
    pub name: Name,
    /// Whether group and image name each other. It is `false` while the image is being added or removed,
    /// and after an interruption of that.
    pub attached: bool,
}

/// Lists the images of a group, by pool and name.
///
/// # Errors
/// [`Error::NoGroup`].
pub async fn members(io: &IoCtx, group: impl Into<Name>) -> Result<Vec<Member>, Error> {
    let group = &group.into();
    let group = Group::find(io, group).await?;
    let mut all = Vec::new();
    for GroupMember { image: GroupImage { image: id, pool }, state } in group.members().await? {
        let name = match name_of(&group.place(pool), &id).await {
            Err(Error::NoImage(_)) => Name::from(&id),
            name => name?.0,
        };
        all.push(Member { pool: PoolId(pool), id, name, attached: state == GroupMember::ATTACHED });
    }
    all.sort_by(|a, b| (a.pool.0, &a.name).cmp(&(b.pool.0, &b.name)));
    Ok(all)
}

/// Adds an image, which may be in another pool, to a group. A repeated call does nothing.
///
/// # Errors
/// [`Error::NoGroup`]; [`Error::NoImage`]; [`Error::OtherGroup`]; [`Error::GroupNamespace`].
pub async fn add_image(
    io: &IoCtx,
    group: impl Into<Name>,
    image_io: &IoCtx,
    image: impl Into<Name>,
) -> Result<(), Error> {
    let group = &group.into();
    let image = &image.into();
    let group = Group::find_for(io, group, image_io).await?;
    let id = id_of(image_io, image).await?;
    if group.is_another(image_io, &id).await? {
        return Err(Error::OtherGroup);
    }
    group.note(image_io, &id, GroupMember::INCOMPLETE).await?;
    let spec = group.spec();
    match tell(image_io, &names::header(&id), "image_group_add", |w| w.put(&spec)).await {
        Err(e) => {
            // The first failure is returned.
            let _ = group.strike_out(image_io, &id).await;
            return Err(if e.errno() == Errno::EEXIST { Error::OtherGroup } else { e });
        }
        Ok(()) => tell_all(image_io, &id).await,
    }
    group.note(image_io, &id, GroupMember::ATTACHED).await
}

/// Removes an image from a group. Its snapshots that belong to the group's remain until those are
/// removed. Does nothing if the image is not in the group.
///
/// # Errors
/// [`Error::NoGroup`]; [`Error::NoImage`]; [`Error::OtherGroup`]; [`Error::GroupNamespace`].
pub async fn remove_image(
    io: &IoCtx,
    group: impl Into<Name>,
    image_io: &IoCtx,
    image: impl Into<Name>,
) -> Result<(), Error> {
    let group = &group.into();
    let image = &image.into();
    let group = Group::find_for(io, group, image_io).await?;
    let id = id_of(image_io, image).await?;
    group.let_go(image_io, &id).await
}

/// As [`remove_image`], for an image known by its id; the image may be removed already.
///
/// # Errors
/// As [`remove_image`].
pub async fn remove_image_by_id(
    io: &IoCtx,
    group: impl Into<Name>,
    image_io: &IoCtx,
    id: &str,
) -> Result<(), Error> {
    let group = &group.into();
    Group::find_for(io, group, image_io).await?.let_go(image_io, id).await
}

async fn id_of(io: &IoCtx, image: &Name) -> Result<String, Error> {
    match ask(io, names::DIRECTORY, "dir_get_id", |w| w.put(image)).await {
        Err(e) if e.is_not_found() => Err(Error::NoImage(image.to_owned())),
        id => id,
    }
}

/// Notifies all clients that have an image open of a changed header. A failure is ignored.
async fn tell_all(io: &IoCtx, id: &str) {
    let _ = io.notify(names::header(id), Message::HeaderUpdate.to_bytes(), NEWS_TIMEOUT).await;
}

impl<'a> Group<'a> {
    async fn find_for(io: &'a IoCtx, group: &Name, image_io: &IoCtx) -> Result<Self, Error> {
        if io.namespace() != image_io.namespace() {
            return Err(Error::GroupNamespace);
        }
        Self::find(io, group).await
    }

    /// Whether an image belongs to another group.
    async fn is_another(&self, io: &IoCtx, id: &str) -> Result<bool, Error> {
        let spec: GroupSpec = match ask(io, &names::header(id), "image_group_get", |_| {}).await {
            Err(e) if e.is_not_found() => return Ok(false),
            spec => spec?,
        };
        Ok(spec.exists() && spec != self.spec())
    }

    /// Removes an image from the group.
    pub(super) async fn let_go(&self, io: &IoCtx, id: &str) -> Result<(), Error> {
        if self.is_another(io, id).await? {
            return Err(Error::OtherGroup);
        }
        self.note(io, id, GroupMember::INCOMPLETE).await?;
        let spec = self.spec();
        match tell(io, &names::header(id), "image_group_remove", |w| w.put(&spec)).await {
            Err(e) if !e.is_not_found() => return Err(e),
            Err(_) => {}
            Ok(()) => tell_all(io, id).await,
        }
        self.strike_out(io, id).await
    }

    async fn note(&self, io: &IoCtx, id: &str, state: u8) -> Result<(), Error> {
        let member = GroupMember { image: GroupImage { image: id.to_owned(), pool: io.pool().0 }, state };
        tell(self.io, &self.header, "group_image_set", |w| w.put(&member)).await
    }

    async fn strike_out(&self, io: &IoCtx, id: &str) -> Result<(), Error> {
        let image = GroupImage { image: id.to_owned(), pool: io.pool().0 };
        gone(tell(self.io, &self.header, "group_image_remove", |w| w.put(&image)).await)
    }
}
