//! The names of images' objects (`include/rbd_types.h`).

use loligo_rados::Errno;
use loligo_wire::Name;

use crate::Error;

/// Returns an error unless an image or a namespace may have this name.
pub(crate) fn checked(name: &Name) -> Result<(), Error> {
    match name.is_empty() || name.iter().any(|byte| b"/@".contains(byte)) {
        true => Err(Errno::EINVAL.into()),
        false => Ok(()),
    }
}

/// The directory: names and ids of all images.
pub(crate) const DIRECTORY: &str = "rbd_directory";

/// The object with the id of the image of this name.
pub(crate) fn id_object(name: &Name) -> Name {
    [b"rbd_id.", name.as_bytes()].concat().into()
}

/// The header of an image.
pub(crate) fn header(id: &str) -> Name {
    format!("rbd_header.{id}").into()
}

/// The header of an image of format 1.
pub(crate) fn old_header(name: &Name) -> Name {
    [name.as_bytes(), b".rbd"].concat().into()
}

/// The object map of an image, or of one of its snapshots.
pub(crate) fn object_map(id: &str, snap: Option<u64>) -> Name {
    match snap {
        None => format!("rbd_object_map.{id}").into(),
        Some(snap) => format!("rbd_object_map.{id}.{snap:016x}").into(),
    }
}

/// The name of a data object. Each I/O needs it, so it is formatted by hand.
pub(crate) fn data_object(prefix: &str, digits: usize, number: u64) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut name = String::with_capacity(prefix.len() + 1 + digits);
    name.push_str(prefix);
    name.push('.');
    name.extend((0..digits).rev().map(|at| char::from(DIGITS[(number >> (4 * at)) as usize & 15])));
    name
}

/// The namespaces of a pool for images.
pub(crate) const NAMESPACES: &str = "rbd_namespace";

/// Names and ids of all groups.
pub(crate) const GROUPS: &str = "rbd_group_directory";

/// The header of a group: its images and snapshots.
pub(crate) fn group_header(id: &str) -> Name {
    format!("rbd_group_header.{id}").into()
}

/// Whether the pool supports images, as checked by a client, and the pool's metadata.
pub(crate) const INFO: &str = "rbd_info";

/// The trash.
pub(crate) const TRASH: &str = "rbd_trash";

/// The clones of version 1 in a pool and namespace.
pub(crate) const CHILDREN: &str = "rbd_children";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_objects_have_sixteen_digits_or_twelve() {
        for number in [0, 0x1f, 0x0123_4567_89ab_cdef, u64::MAX] {
            assert_eq!(data_object("rbd_data.1", 16, number), format!("rbd_data.1.{number:016x}"));
            let number = number >> 16;
            assert_eq!(data_object("rb.0.1.2", 12, number), format!("rb.0.1.2.{number:012x}"));
        }
    }
}
