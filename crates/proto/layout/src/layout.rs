//! The mapping of the bytes of a file to objects.
//!
//! A file is divided into *stripe units*. The units are dealt to `stripe_count` objects in turn until
//! each object holds `object_size` bytes. These objects form an *object set*; the next unit begins the
//! next set. The rules and numbers are those of Ceph's `file_layout_t` (`src/common/fs_types.cc`) and
//! `Striper` (`src/osdc/Striper.cc`).

use std::fmt;

/// Stripe units and objects are multiples of this many bytes (`CEPH_MIN_STRIPE_UNIT`).
pub const UNIT_BYTES_MIN: u32 = 64 << 10;

/// The number of an object within its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectNo(pub u64);

/// How a file's bytes are distributed over objects. Always valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    stripe_unit: u32,
    stripe_count: u32,
    object_size: u32,
}

/// Why three numbers are not a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Zero, or not a multiple of [`UNIT_BYTES_MIN`], or not below 2^32.
    #[error("the stripe unit is {0} bytes, not a multiple of 64 KiB")]
    StripeUnit(u64),
    /// Zero, or not below 2^32.
    #[error("the stripe count is {0}, not at least 1")]
    StripeCount(u64),
    /// Zero, or not a multiple of [`UNIT_BYTES_MIN`], or not below 2^32.
    #[error("the object size is {0} bytes, not a multiple of 64 KiB")]
    ObjectSize(u64),
    /// The object size is not a multiple of the stripe unit.
    #[error("the object size of {object_size} bytes is not a multiple of the stripe unit of {stripe_unit}")]
    NotWholeUnits {
        /// In bytes.
        object_size: u32,
        /// In bytes.
        stripe_unit: u32,
    },
}

/// A range of bytes within one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectExtent {
    /// The object.
    pub object: ObjectNo,
    /// The first byte within the object.
    pub offset: u64,
    /// The length in bytes; at least one.
    pub len: u64,
}

/// A range of bytes that is contiguous both within one object and within the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first byte within the file.
    pub file_offset: u64,
    /// The first byte within the object.
    pub object_offset: u64,
    /// The length in bytes; at least one, at most a stripe unit.
    pub len: u64,
}

/// One object after the other, 4 MiB each: the default of stock programs.
impl Default for Layout {
    fn default() -> Self {
        Self { stripe_unit: 4 << 20, stripe_count: 1, object_size: 4 << 20 }
    }
}

impl Layout {
    /// A layout with a stripe unit in bytes, a number of objects to stripe over, and an object size in
    /// bytes.
    ///
    /// # Errors
    /// The conditions are those of `file_layout_t::is_valid`.
    pub fn new(stripe_unit: u64, stripe_count: u64, object_size: u64) -> Result<Self, LayoutError> {
        let bytes = |n: u64| u32::try_from(n).ok().filter(|n| *n > 0 && n.is_multiple_of(UNIT_BYTES_MIN));
        let unit = bytes(stripe_unit).ok_or(LayoutError::StripeUnit(stripe_unit))?;
        let count = u32::try_from(stripe_count).ok().filter(|count| *count > 0);
        let count = count.ok_or(LayoutError::StripeCount(stripe_count))?;
        let size = bytes(object_size).ok_or(LayoutError::ObjectSize(object_size))?;
        if !size.is_multiple_of(unit) {
            return Err(LayoutError::NotWholeUnits { object_size: size, stripe_unit: unit });
        }
        Ok(Self { stripe_unit: unit, stripe_count: count, object_size: size })
    }

    /// A layout of an image's data. The stripe unit and the object size need not be multiples of
    /// [`UNIT_BYTES_MIN`], but the object size must be a multiple of the stripe unit. `None` if these
    /// numbers are not such a layout.
    pub fn of_image(stripe_unit: u64, stripe_count: u64, object_size: u64) -> Option<Self> {
        let number = |n: u64| u32::try_from(n).ok().filter(|n| *n > 0);
        let [stripe_unit, stripe_count, object_size] =
            [number(stripe_unit)?, number(stripe_count)?, number(object_size)?];
        object_size.is_multiple_of(stripe_unit).then_some(Self { stripe_unit, stripe_count, object_size })
    }

    /// The number of bytes stored in one object before the next object is used.
    pub fn stripe_unit(&self) -> u64 {
        self.stripe_unit.into()
    }

    /// The number of objects over which a stripe goes.
    pub fn stripe_count(&self) -> u64 {
        self.stripe_count.into()
    }

    /// The maximum size of an object, in bytes.
    pub fn object_size(&self) -> u64 {
        self.object_size.into()
    }

    /// The size of a stripe in bytes: one unit in each object of a set. Below 2^64, as both factors are
    /// below 2^32.
    pub fn stripe_width(&self) -> u64 {
        self.stripe_unit() * self.stripe_count()
    }

    /// The size of an object set, in bytes.
    pub fn set_size(&self) -> u64 {
        self.object_size() * self.stripe_count()
    }

    /// The position of a byte of the file: the object, and the offset within it.
    pub fn locate(&self, file_offset: u64) -> (ObjectNo, u64) {
        let (set, in_set) = (file_offset / self.set_size(), file_offset % self.set_size());
        let (stripe, in_stripe) = (in_set / self.stripe_width(), in_set % self.stripe_width());
        let (position, in_unit) = (in_stripe / self.stripe_unit(), in_stripe % self.stripe_unit());
        (ObjectNo(set * self.stripe_count() + position), stripe * self.stripe_unit() + in_unit)
    }

    /// The offset within the file of a byte of an object. `None` if no byte of a file has that position:
    /// the offset is behind the object's end, or the file offset would not fit in 64 bits.
    pub fn file_offset(&self, object: ObjectNo, object_offset: u64) -> Option<u64> {
        if object_offset >= self.object_size() {
            return None;
        }
        let (set, position) = (object.0 / self.stripe_count(), object.0 % self.stripe_count());
        let (stripe, in_unit) = (object_offset / self.stripe_unit(), object_offset % self.stripe_unit());
        let in_set = stripe * self.stripe_width() + position * self.stripe_unit() + in_unit;
        set.checked_mul(self.set_size())?.checked_add(in_set)
    }

    /// The number of bytes of an object that belong to the first `file_size` bytes of the file.
    pub fn object_len(&self, object: ObjectNo, file_size: u64) -> u64 {
        let (set, position) = (object.0 / self.stripe_count(), object.0 % self.stripe_count());
        // The offset at which the object's set begins may not fit in 64 bits.
        let begins = u128::from(set) * u128::from(self.set_size());
        let Some(in_set) = u128::from(file_size).checked_sub(begins) else { return 0 };
        let Some(in_set) = u64::try_from(in_set).ok().filter(|in_set| *in_set < self.set_size()) else {
            return self.object_size();
        };
        let (stripe, in_stripe) = (in_set / self.stripe_width(), in_set % self.stripe_width());
        let in_unit = in_stripe.saturating_sub(position * self.stripe_unit()).min(self.stripe_unit());
        stripe * self.stripe_unit() + in_unit
    }

    /// The number of objects that a file of this size can have. All objects with lower numbers, and no
    /// others, hold bytes of the file.
    pub fn object_count(&self, file_size: u64) -> u64 {
        let (sets, rest) = (file_size / self.set_size(), file_size % self.set_size());
        sets * self.stripe_count() + rest.div_ceil(self.stripe_unit()).min(self.stripe_count())
    }

    /// The extents of objects that hold a range of the file, one for each object, in the order of their
    /// first byte in the range.
    ///
    /// One extent is enough for each object: its bytes ascend with the file's, so the part of a file's
    /// range that is in one object is contiguous there.
    pub fn extents(&self, file_offset: u64, len: u64) -> impl Iterator<Item = ObjectExtent> + use<> {
        let layout = *self;
        let end = file_offset.saturating_add(len);
        let sets = match end > file_offset {
            true => file_offset / layout.set_size()..(end - 1) / layout.set_size() + 1,
            false => 0..0,
        };
        sets.flat_map(move |set| {
            let begins = set * layout.set_size();
            let first = file_offset.max(begins) / layout.stripe_unit();
            let last = (end - 1).min(begins.saturating_add(layout.set_size() - 1)) / layout.stripe_unit();
            let objects = (last - first + 1).min(layout.stripe_count());
            (first..first + objects).map(move |unit| {
                let object = ObjectNo(set * layout.stripe_count() + unit % layout.stripe_count());
                let offset = layout.object_len(object, file_offset);
                ObjectExtent { object, offset, len: layout.object_len(object, end) - offset }
            })
        })
    }

    /// Maps an extent of an object to ranges of the file, in the file's order. Ends early at the end of
    /// the object or of the largest file.
    pub fn pieces(&self, extent: ObjectExtent) -> impl Iterator<Item = Piece> + use<> {
        let layout = *self;
        let end = extent.offset.saturating_add(extent.len).min(layout.object_size());
        let mut at = extent.offset;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let file_offset = layout.file_offset(extent.object, at)?;
            let len = (end - at).min(layout.stripe_unit() - at % layout.stripe_unit());
            let piece = Piece { file_offset, object_offset: at, len };
            at += len;
            Some(piece)
        })
    }
}

/// The format of CephFS's `ceph.file.layout`.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stripe_unit, stripe_count, object_size } = self;
        write!(f, "stripe_unit={stripe_unit} stripe_count={stripe_count} object_size={object_size}")
    }
}

#[cfg(test)]
mod tests;
