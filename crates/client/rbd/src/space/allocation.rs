//! The parts of an image that have objects.

use loligo_stripe::ObjectNo;
use loligo_wire::rbd::object_map::NONEXISTENT;
use loligo_wire::rbd::{ObjectMap, feature};

use crate::features::OBJECT_MAP_INVALID;
use crate::image::{Image, Inner};
use crate::object_map::load;
use crate::{Error, names};

/// The most pieces of objects checked in one call.
const LOOKS_MAX: usize = 1 << 16;

/// A part of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The length in bytes.
    pub len: u64,
    /// Whether there may be objects, or data of the parent; if not, the whole part reads as zeros.
    pub exists: bool,
}

impl Image {
    /// Returns the parts of a range that have objects, according to the object map; adjacent parts
    /// differ in `exists`. Without a valid map all of the range may have objects. The result may end
    /// before the range, but has at least one part unless the range is empty.
    ///
    /// # Errors
    /// The object map cannot be read.
    pub async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, Error> {
        let inner = &self.inner;
        // The map does not have objects that are only in the cache.
        inner.write_back().await?;
        let view = inner.view.load_full();
        let flags = match inner.snap {
            None => view.flags,
            Some(id) => view
                .snapshots
                .iter()
                .find(|snap| snap.info.id == id)
                .map_or(OBJECT_MAP_INVALID, |snap| snap.flags),
        };
        if !view.has(feature::OBJECT_MAP) || flags & OBJECT_MAP_INVALID != 0 {
            return Ok(vec![Allocation { len, exists: true }]);
        }
        let stored = match inner.snap {
            None if inner.map.is_open() => None,
            snap => Some(load(&inner.io, &names::object_map(&inner.id, snap.map(|id| id.0))).await?),
        };
        Ok(inner.parts(offset, len, stored.as_ref()))
    }
}

impl Inner {
    fn parts(&self, offset: u64, len: u64, stored: Option<&ObjectMap>) -> Vec<Allocation> {
        let layout = self.fixed.layout;
        // Without striping, objects are contiguous and are checked once.
        let step = if layout.stripe_count() == 1 { layout.object_size() } else { layout.stripe_unit() };
        // The parent may have data of objects that the clone lacks.
        let is_missing = |number: u64| match stored {
            _ if self.covered(number) > 0 => false,
            // Objects behind the map's end are unknown.
            Some(map) => number < map.count() && map.get(number) == NONEXISTENT,
            None => self.map.is_missing(number),
        };
        let mut parts: Vec<Allocation> = Vec::new();
        let (mut at, end) = (offset, offset.saturating_add(len));
        for _ in 0..LOOKS_MAX {
            if at >= end {
                break;
            }
            let len = (step - at % step).min(end - at);
            let (ObjectNo(number), _) = layout.locate(at);
            let exists = !is_missing(number);
            match parts.last_mut() {
                Some(last) if last.exists == exists => last.len += len,
                _ => parts.push(Allocation { len, exists }),
            }
            at += len;
        }
        parts
    }
}
