//! Mirroring settings that clients read and set (`rbd_mirroring`): whether a pool or an image is
//! mirrored.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_wire::{Encode, Errno, Reader, Writer};

use super::Answer;
use super::directory::take;
use super::types::{MirrorImage, MirrorPeer};
use crate::handle::Handle;
use crate::typed::decoded;

const UUID_KEY: &str = "mirror_uuid";
pub(super) const MODE_KEY: &str = "mirror_mode";
const IMAGE_PREFIX: &str = "image_";
pub(super) const PEER_PREFIX: &str = "mirror_peer_";

pub(super) const MODE_DISABLED: u32 = 0;
/// The first number that is not a mode; the modes are disabled, image and pool.
const MODE_END: u32 = 3;

/// The status of an image for which no daemon has reported one (`MIRROR_IMAGE_STATUS_STATE_UNKNOWN`).
const STATUS_UNKNOWN: u8 = 0;

/// The state of an image whose mirroring is being disabled.
const DISABLING: u8 = 0;

fn image_key(id: &str) -> String {
    format!("{IMAGE_PREFIX}{id}")
}

fn global_key(id: &str) -> String {
    format!("global_{id}")
}

/// This site's identity, stored as plain text.
pub(super) fn uuid(object: &mut Handle<'_>) -> Result<Bytes, Errno> {
    object.value(UUID_KEY.as_bytes())
}

fn mode(object: &mut Handle<'_>) -> Result<u32, Errno> {
    object.get(MODE_KEY)
}

/// Maps ENOENT, of an object that does not exist, to the default.
fn absent_is_none<T: Default>(found: Result<T, Errno>) -> Result<T, Errno> {
    match found {
        Err(Errno::ENOENT) => Ok(T::default()),
        found => found,
    }
}

pub(super) fn uuid_get(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    Ok(uuid(object)?.to_bytes())
}

pub(super) fn uuid_set(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let given: Bytes = Reader::new(input).get()?;
    let disabled = object.find(MODE_KEY)?.unwrap_or(MODE_DISABLED) == MODE_DISABLED;
    if given.is_empty() || !disabled {
        return Err(Errno::EINVAL);
    }
    object.set_all(&[(Bytes::from_static(UUID_KEY.as_bytes()), given)])?;
    Ok(Bytes::new())
}

pub(super) fn mode_get(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    Ok(mode(object)?.to_bytes())
}

pub(super) fn mode_set(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let wanted = Reader::new(input).u32()?;
    if wanted >= MODE_END {
        return Err(Errno::EINVAL);
    }
    if wanted == MODE_DISABLED {
        // Without an object nothing is mirrored either.
        let peers = absent_is_none(take(object, PEER_PREFIX.as_bytes(), PEER_PREFIX.as_bytes(), 1))?;
        if !peers.is_empty() {
            return Err(Errno::EBUSY);
        }
        absent_is_none(object.unset(MODE_KEY))?;
        absent_is_none(object.unset(UUID_KEY))?;
        return Ok(Bytes::new());
    }
    if uuid(object).is_err_and(|errno| errno == Errno::ENOENT) {
        return Err(Errno::EINVAL);
    }
    object.set(MODE_KEY, &wanted)?;
    Ok(Bytes::new())
}

pub(super) fn image_list(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (after, max) = (r.get::<String>()?, r.u64()?);
    let mut found: BTreeMap<Bytes, String> = BTreeMap::new();
    for (id, image) in take(object, image_key(&after).as_bytes(), IMAGE_PREFIX.as_bytes(), max)? {
        found.insert(id, decoded::<MirrorImage>(&image)?.global_id);
    }
    Ok(found.to_bytes())
}

/// The number of images by status. No method sets a status, so each is unknown.
pub(super) fn status_summary(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let _peers: Vec<MirrorPeer> = Reader::new(input).get()?;
    let mut count = 0i32;
    object.each(IMAGE_PREFIX.as_bytes(), IMAGE_PREFIX.as_bytes(), |_, image| {
        decoded::<MirrorImage>(image)?;
        count += 1;
        Ok(())
    })?;
    let states: BTreeMap<u8, i32> = (count > 0).then_some((STATUS_UNKNOWN, count)).into_iter().collect();
    Ok(states.to_bytes())
}

/// Lists the images, without a status.
pub(super) fn status_list(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (after, max) = (r.get::<String>()?, r.u64()?);
    let mut found: BTreeMap<Bytes, MirrorImage> = BTreeMap::new();
    for (id, image) in take(object, image_key(&after).as_bytes(), IMAGE_PREFIX.as_bytes(), max)? {
        found.insert(id, decoded(&image)?);
    }
    let mut w = Writer::new();
    w.put(&found);
    w.count(0);
    Ok(w.into_bytes())
}

/// No daemon has reported a status of the image.
pub(super) fn status_get(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let _global: String = Reader::new(input).get()?;
    object.must_exist()?;
    Err(Errno::ENOENT)
}

/// The daemons that mirror an image: none, since none can report.
pub(super) fn image_instances(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let _behind: (String, u64) = Reader::new(input).get()?;
    object.must_exist()?;
    Ok(BTreeMap::<Bytes, Bytes>::new().to_bytes())
}

/// The mirroring daemons: none, since none can register.
pub(super) fn instances_list(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    object.must_exist()?;
    Ok(Vec::<String>::new().to_bytes())
}

pub(super) fn image_get(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let id: String = Reader::new(input).get()?;
    Ok(object.get::<MirrorImage>(image_key(&id))?.to_bytes())
}

pub(super) fn image_get_image_id(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let global: String = Reader::new(input).get()?;
    Ok(object.get::<String>(global_key(&global))?.to_bytes())
}

pub(super) fn image_set(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (id, image) = (r.get::<String>()?, r.get::<MirrorImage>()?);
    if let Some(before) = object.find::<MirrorImage>(image_key(&id))? {
        if before.mode != image.mode || before.global_id != image.global_id {
            return Err(Errno::EINVAL);
        }
        if before.state == DISABLING && image.state != DISABLING {
            return Err(Errno::EBUSY);
        }
    } else if object.has(global_key(&image.global_id))? {
        return Err(Errno::EEXIST);
    } else if image.state == DISABLING {
        // Its mirroring was disabled meanwhile.
        return Err(Errno::ENOENT);
    }
    object.set(image_key(&id), &image)?;
    object.set(global_key(&image.global_id), &id)?;
    Ok(Bytes::new())
}

pub(super) fn image_remove(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let id: String = Reader::new(input).get()?;
    let image: MirrorImage = object.get(image_key(&id))?;
    if image.state != DISABLING {
        return Err(Errno::EBUSY);
    }
    object.unset(image_key(&id))?;
    object.unset(global_key(&image.global_id))?;
    Ok(Bytes::new())
}
