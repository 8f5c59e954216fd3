//! The migration mark of an image. An image of the first format can only be a migration's source.

use bytes::Bytes;
use loligo_wire::rbd::Migration;
use loligo_wire::{Encode, Errno, Reader};

use super::{Answer, feature, old};
use crate::handle::Handle;

const KEY: &str = "migration";

pub(super) fn set(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let migration: Migration = Reader::new(input).get()?;
    if object.has(KEY)? {
        return Err(Errno::EEXIST);
    }
    match object.find::<u64>("features")? {
        None if old::is_migrating(object)? => return Err(Errno::EEXIST),
        None if migration.header != Migration::SOURCE => return Err(Errno::EINVAL),
        None => old::set_migrating(object, true)?,
        Some(features) if features & feature::MIGRATING == 0 => {
            object.set("features", &(features | feature::MIGRATING))?;
        }
        Some(_) if migration.header != Migration::DESTINATION => return Err(Errno::EEXIST),
        Some(_) => {}
    }
    object.set(KEY, &migration)?;
    Ok(Bytes::new())
}

/// Loads the mark of an image that has the feature, or the header text of the first format.
fn read(object: &mut Handle<'_>) -> Result<Migration, Errno> {
    let is_migrating = match object.find::<u64>("features")? {
        Some(features) => features & feature::MIGRATING != 0,
        None => old::is_migrating(object)?,
    };
    if is_migrating { object.get(KEY) } else { Err(Errno::EINVAL) }
}

pub(super) fn set_state(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let (state, description) = Reader::new(input).get()?;
    let mut migration = read(object)?;
    (migration.state, migration.description) = (state, description);
    object.set(KEY, &migration)?;
    Ok(Bytes::new())
}

pub(super) fn get(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    Ok(read(object)?.to_bytes())
}

pub(super) fn remove(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    match object.unset(KEY) {
        // An object that does not exist has no features either, which is the error a stock OSD returns.
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno),
    }
    match object.find::<u64>("features")? {
        None if old::is_migrating(object)? => old::set_migrating(object, false)?,
        None => return Err(Errno::EINVAL),
        Some(features) if features & feature::MIGRATING != 0 => {
            object.set("features", &(features & !feature::MIGRATING))?;
        }
        Some(_) => {}
    }
    Ok(Bytes::new())
}
