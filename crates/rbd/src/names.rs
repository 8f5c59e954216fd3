//! What the objects of images are called (`include/rbd_types.h`).

use loligo_rados::Errno;

use crate::Error;

/// A name that an image or a namespace may have.
pub(crate) fn checked(name: &str) -> Result<(), Error> {
    match name.is_empty() || name.contains(['/', '@']) {
        true => Err(Errno::EINVAL.into()),
        false => Ok(()),
    }
}

/// Names and ids of all images.
pub(crate) const DIRECTORY: &str = "rbd_directory";

/// Holds the id of the image of this name.
pub(crate) fn id_object(name: &str) -> String {
    format!("rbd_id.{name}")
}

/// Holds what an image is.
pub(crate) fn header(id: &str) -> String {
    format!("rbd_header.{id}")
}

/// Holds the object map of an image, or of one of its snapshots.
pub(crate) fn object_map(id: &str, snap: Option<u64>) -> String {
    match snap {
        None => format!("rbd_object_map.{id}"),
        Some(snap) => format!("rbd_object_map.{id}.{snap:016x}"),
    }
}

/// A data object.
pub(crate) fn data_object(prefix: &str, number: u64) -> String {
    format!("{prefix}.{number:016x}")
}

/// Namespaces of a pool that may have images.
pub(crate) const NAMESPACES: &str = "rbd_namespace";

/// Says whether librbd has looked whether the pool can have images, and holds the pool's metadata.
pub(crate) const INFO: &str = "rbd_info";

/// Images that wait to be removed.
pub(crate) const TRASH: &str = "rbd_trash";

/// Clones of the first version of a pool.
pub(crate) const CHILDREN: &str = "rbd_children";
