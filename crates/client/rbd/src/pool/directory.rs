//! The directory of a pool: the name of an id, and the id of a name.

use loligo_rados::IoCtx;
use loligo_wire::Name;
use loligo_wire::rbd::TrashImage;

use crate::call::ask;
use crate::{Error, names};

/// Returns the id of a name. Two objects store it; one of them may be lost.
pub(crate) async fn id_of(io: &IoCtx, name: &Name) -> Result<String, Error> {
    match ask(io, &names::id_object(name), "get_id", |_| {}).await {
        Err(e) if e.is_not_found() => {}
        id => return id,
    }
    match ask(io, names::DIRECTORY, "dir_get_id", |w| w.put(name)).await {
        Err(e) if e.is_not_found() => Err(Error::NoImage(name.to_owned())),
        id => id,
    }
}

/// Returns the name of the image of this id, and whether it is in the trash.
pub(crate) async fn name_of(io: &IoCtx, id: &str) -> Result<(Name, bool), Error> {
    match ask(io, names::DIRECTORY, "dir_get_name", |w| w.put(id)).await {
        Err(e) if e.is_not_found() => {}
        name => return Ok((name?, false)),
    }
    match ask::<TrashImage>(io, names::TRASH, "trash_get", |w| w.put(id)).await {
        Err(e) if e.is_not_found() => Err(Error::NoImage(id.into())),
        found => Ok((found?.name, true)),
    }
}
