//! Listing the objects of a collection.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_store::{ObjectName, StoreError};

use super::backend::Snapshot;
use super::keys;
use super::rows::bad;

/// Merges the objects in the map with `newer`, the changes that the map does not have yet.
pub(super) fn merge(
    disk: &dyn Snapshot,
    mut start: Bytes,
    number: u32,
    mut newer: BTreeMap<ObjectName, bool>,
    max: usize,
) -> Result<Vec<ObjectName>, StoreError> {
    const PAGE: usize = 1024;
    let until = keys::objects(number + 1);
    let mut names = Vec::new();
    loop {
        let rows = disk.range(&start, &until, PAGE).map_err(|e| bad(format!("listing: {e}")))?;
        for (key, _) in &rows {
            let name = keys::object_name(key).ok_or_else(|| bad(format!("an object's key: {key:?}")))?;
            let behind = newer.split_off(&name);
            names.extend(
                std::mem::replace(&mut newer, behind).into_iter().filter(|(_, lives)| *lives).map(|(n, _)| n),
            );
            if newer.remove(&name).unwrap_or(true) {
                names.push(name);
            }
            if names.len() >= max {
                names.truncate(max);
                return Ok(names);
            }
        }
        match rows.last() {
            Some((key, _)) if rows.len() == PAGE => start = [&key[..], &[0]].concat().into(),
            _ => break,
        }
    }
    names.extend(newer.into_iter().filter(|(_, lives)| *lives).map(|(name, _)| name));
    names.truncate(max);
    Ok(names)
}
