//! The mark of an image that is being moved. Only images of the second format can be.

use bytes::Bytes;
use loligo_wire::{Encode, Reader};

use super::Answer;
use super::feature;
use super::types::Migration;
use crate::classes::Handle;
use crate::errno::Errno;

const KEY: &str = "migration";

pub(super) fn set(object: &mut Handle<'_, '_>, input: &[u8]) -> Answer {
    let migration: Migration = Reader::new(input).get()?;
    if object.has(KEY)? {
        return Err(Errno::EEXIST);
    }
    let features: u64 = object.find("features")?.ok_or(Errno::ENXIO)?;
    if features & feature::MIGRATING == 0 {
        object.set("features", &(features | feature::MIGRATING))?;
    } else if migration.header != Migration::DESTINATION {
        return Err(Errno::EEXIST);
    }
    object.set(KEY, &migration)?;
    Ok(Bytes::new())
}

/// The mark, of an image that has the feature.
fn read(object: &mut Handle<'_, '_>) -> Result<Migration, Errno> {
    let features: u64 = object.find("features")?.ok_or(Errno::ENXIO)?;
    if features & feature::MIGRATING == 0 {
        return Err(Errno::EINVAL);
    }
    object.get(KEY)
}

pub(super) fn set_state(object: &mut Handle<'_, '_>, input: &[u8]) -> Answer {
    let (state, description) = Reader::new(input).get()?;
    let mut migration = read(object)?;
    (migration.state, migration.description) = (state, description);
    object.set(KEY, &migration)?;
    Ok(Bytes::new())
}

pub(super) fn get(object: &mut Handle<'_, '_>, _input: &[u8]) -> Answer {
    Ok(read(object)?.to_bytes())
}

pub(super) fn remove(object: &mut Handle<'_, '_>, _input: &[u8]) -> Answer {
    match object.unset(KEY) {
        // An object that is not there has no features either, and that is what a stock OSD tells.
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno),
    }
    let features: u64 = object.find("features")?.ok_or(Errno::ENXIO)?;
    if features & feature::MIGRATING != 0 {
        object.set("features", &(features & !feature::MIGRATING))?;
    }
    Ok(Bytes::new())
}
