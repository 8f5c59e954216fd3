//! Bags of options for new images, `rbd_image_options_t`, and the options of the configuration.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};

use az::SaturatingAs as _;
use loligo_rados::IoCtx;
use loligo_rbd::{CloneFormat, NewClone, NewCopy, NewImage, features};
use loligo_wire::Errno;

use crate::border::{Fail, calls, plain};
use crate::memory::{fill_text, put, text};
use crate::rados::Client;
use crate::runtime::wait;

pub(super) const FORMAT: c_int = 0;
const FEATURES: c_int = 1;
const ORDER: c_int = 2;
const STRIPE_UNIT: c_int = 3;
const STRIPE_COUNT: c_int = 4;
const JOURNAL_ORDER: c_int = 5;
const JOURNAL_SPLAY_WIDTH: c_int = 6;
const JOURNAL_POOL: c_int = 7;
const FEATURES_SET: c_int = 8;
const FEATURES_CLEAR: c_int = 9;
const DATA_POOL: c_int = 10;
const FLATTEN: c_int = 11;
const CLONE_FORMAT: c_int = 12;
const MIRROR_IMAGE_MODE: c_int = 13;

/// The feature of images whose stripe unit is not the object's size.
const STRIPINGV2: u64 = 1 << 1;

/// The sizes that objects may have, as powers of two.
const ORDERS: std::ops::RangeInclusive<u64> = 12..=25;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(String),
    Number(u64),
}

impl Value {
    /// Whether it stands for what is used without the option.
    fn is_default(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Number(number) => *number == 0,
        }
    }
}

/// Options that were set.
#[derive(Clone, Debug, Default)]
pub(super) struct Bag(BTreeMap<c_int, Value>);

impl Bag {
    /// Returns the bag behind the program's pointer.
    ///
    /// # Safety
    /// The pointer is a bag that was not destroyed, and no other thread uses it.
    pub(super) unsafe fn of<'a>(handle: *mut c_void) -> Result<&'a mut Self, Fail> {
        // SAFETY: by this function's contract.
        unsafe { handle.cast::<Self>().as_mut() }.ok_or(Errno::EINVAL.into())
    }

    pub(super) fn number(&self, option: c_int) -> Option<u64> {
        match self.0.get(&option) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    fn text(&self, option: c_int) -> Option<&str> {
        match self.0.get(&option) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) fn set_number(&mut self, option: c_int, number: u64) {
        self.0.insert(option, Value::Number(number));
    }

    /// Whether the copy or clone is to have its parent's data.
    pub(super) fn flatten(&self) -> bool {
        self.number(FLATTEN).is_some_and(|number| number > 0)
    }

    pub(super) fn set_features(&mut self, features: u64) {
        self.set_number(FEATURES, features);
    }

    /// Sets the object size, unless it is 0, the default.
    pub(super) fn set_order(&mut self, order: c_int) -> Result<(), Fail> {
        if order != 0 {
            self.set_number(ORDER, u64::try_from(order).map_err(|_| Errno::EDOM)?);
        }
        Ok(())
    }

    pub(super) fn set_striping(&mut self, unit: u64, count: u64) {
        self.set_number(STRIPE_UNIT, unit);
        self.set_number(STRIPE_COUNT, count);
    }

    /// The object size that is asked for, as a power of two.
    ///
    /// # Errors
    /// EDOM if images cannot have it.
    fn order(&self) -> Result<Option<u8>, Fail> {
        match self.number(ORDER) {
            None | Some(0) => Ok(None),
            Some(order) if ORDERS.contains(&order) => Ok(Some(order.saturating_as::<u8>())),
            Some(_) => Err(Errno::EDOM.into()),
        }
    }

    /// Stripe unit and count that are asked for.
    ///
    /// # Errors
    /// EINVAL if only one is.
    fn striping(&self) -> Result<Option<(u64, u64)>, Fail> {
        let number = |option| self.number(option).filter(|number| *number > 0);
        match (number(STRIPE_UNIT), number(STRIPE_COUNT)) {
            (None, None) => Ok(None),
            (Some(unit), Some(count)) => Ok(Some((unit, count))),
            _ => Err(Errno::EINVAL.into()),
        }
    }

    /// How a clone is to refer to its parent.
    fn clone_format(&self) -> Result<Option<CloneFormat>, Fail> {
        match self.number(CLONE_FORMAT) {
            Some(1) => Ok(Some(CloneFormat::First)),
            Some(2) => Ok(Some(CloneFormat::Second)),
            Some(_) => Err(Errno::EINVAL.into()),
            None => Ok(None),
        }
    }

    async fn data_pool(&self, io: &IoCtx) -> Result<Option<loligo_rados::PoolId>, Fail> {
        match self.text(DATA_POOL) {
            None | Some("") => Ok(None),
            Some(name) => Ok(Some(io.rados().pool_id(name).await?)),
        }
    }

    fn features(&self, default: u64) -> u64 {
        let asked = self.number(FEATURES).unwrap_or(default);
        (asked | self.number(FEATURES_SET).unwrap_or(0)) & !self.number(FEATURES_CLEAR).unwrap_or(0)
    }

    /// Checks that nothing is asked for that would have no effect.
    ///
    /// # Errors
    /// EOPNOTSUPP for options of journals and of mirroring.
    fn check(&self) -> Result<(), Fail> {
        let is_asked = |option: &c_int| self.0.get(option).is_some_and(|value| !value.is_default());
        let unknown = [JOURNAL_ORDER, JOURNAL_SPLAY_WIDTH, JOURNAL_POOL, MIRROR_IMAGE_MODE];
        if unknown.iter().any(is_asked) { Err(Errno::EOPNOTSUPP.into()) } else { Ok(()) }
    }

    /// The properties of a new image.
    pub(super) fn new_image(&self, client: &Client, io: &IoCtx, size: u64) -> Result<NewImage, Fail> {
        let defaults = Defaults::of(client);
        self.check()?;
        let order = self.order()?.unwrap_or(defaults.order);
        if !ORDERS.contains(&u64::from(order)) {
            return Err(Errno::EDOM.into());
        }
        Ok(NewImage {
            size,
            order,
            features: self.features(defaults.features),
            striping: match self.striping()? {
                None if self.features(defaults.features) & STRIPINGV2 != 0 => defaults.striping()?,
                striping => striping,
            },
            data_pool: wait(self.data_pool(io))?,
            pool_unchecked: false,
        })
    }

    /// The properties of a clone.
    pub(super) fn new_clone(&self, client: &Client, io: &IoCtx) -> Result<NewClone, Fail> {
        self.check()?;
        let format = match self.clone_format()? {
            Some(format) => format,
            None => match client.conf().text("rbd_default_clone_format").as_deref() {
                Some("1") => CloneFormat::First,
                Some("2") => CloneFormat::Second,
                _ => CloneFormat::Auto,
            },
        };
        let features = Some(self.features(Defaults::of(client).features));
        Ok(NewClone {
            order: self.order()?,
            features,
            striping: self.striping()?,
            data_pool: wait(self.data_pool(io))?,
            format,
            ..NewClone::default()
        })
    }

    /// The properties of a copy.
    pub(super) fn new_copy(&self, io: &IoCtx, sparse_bytes: usize) -> Result<NewCopy, Fail> {
        self.check()?;
        let mut copy = NewCopy {
            order: self.order()?,
            features: self.number(FEATURES),
            striping: self.striping()?,
            data_pool: wait(self.data_pool(io))?,
            clone_format: self.clone_format()?.unwrap_or(CloneFormat::Auto),
            ..NewCopy::default()
        };
        if sparse_bytes > 0 {
            copy.sparse_bytes = sparse_bytes;
        }
        Ok(copy)
    }
}

/// The properties that new images have by configuration (`rbd_default_*`).
pub(super) struct Defaults {
    pub(super) features: u64,
    pub(super) order: u8,
    stripe_unit: u64,
    stripe_count: u64,
    pub(super) format: u64,
}

impl Defaults {
    pub(super) fn of(client: &Client) -> Self {
        let conf = client.conf();
        let number = |option: &str, default| conf.u64(option, default).unwrap_or(default);
        let named = conf.text("rbd_default_features").and_then(|text| super::features::read(&text));
        Self {
            features: named.unwrap_or(features::DEFAULT),
            order: u8::try_from(number("rbd_default_order", 22)).unwrap_or(22),
            stripe_unit: number("rbd_default_stripe_unit", 0),
            stripe_count: number("rbd_default_stripe_count", 0),
            format: number("rbd_default_format", 2),
        }
    }
}

impl Defaults {
    /// Stripe unit and count.
    ///
    /// # Errors
    /// EINVAL if only one is set.
    fn striping(&self) -> Result<Option<(u64, u64)>, Fail> {
        match (self.stripe_unit, self.stripe_count) {
            (0, 0) => Ok(None),
            (0, _) | (_, 0) => Err(Errno::EINVAL.into()),
            both => Ok(Some(both)),
        }
    }
}

/// Whether an option's value is a text.
fn is_text(option: c_int) -> Result<bool, Fail> {
    match option {
        FORMAT..=MIRROR_IMAGE_MODE => Ok(matches!(option, JOURNAL_POOL | DATA_POOL)),
        _ => Err(Errno::EINVAL.into()),
    }
}

calls! {
    /// Sets an option to a text; a number may be written as one.
    fn rbd_image_options_set_string(bag: *mut c_void, option: c_int, value: *const c_char) -> c_int {
        let value = text(value)?;
        let value = if is_text(option)? {
            Value::Text(value.to_owned())
        } else {
            Value::Number(value.parse().map_err(|_| Errno::EINVAL)?)
        };
        Bag::of(bag)?.0.insert(option, value);
        Ok(0)
    }

    /// Sets an option to a number.
    fn rbd_image_options_set_uint64(bag: *mut c_void, option: c_int, value: u64) -> c_int {
        if is_text(option)? {
            return Err(Errno::EINVAL.into());
        }
        Bag::of(bag)?.set_number(option, value);
        Ok(0)
    }

    /// Copies a text.
    fn rbd_image_options_get_string(
        bag: *mut c_void, option: c_int, to: *mut c_char, room: usize,
    ) -> c_int {
        if !is_text(option)? {
            return Err(Errno::EINVAL.into());
        }
        let value = Bag::of(bag)?.text(option).ok_or(Errno::ENOENT)?;
        fill_text(to, room, value.as_bytes()).map_err(|_| Errno::E2BIG)?;
        Ok(0)
    }

    /// Reads a number.
    fn rbd_image_options_get_uint64(bag: *mut c_void, option: c_int, value: *mut u64) -> c_int {
        if is_text(option)? {
            return Err(Errno::EINVAL.into());
        }
        put(value, Bag::of(bag)?.number(option).ok_or(Errno::ENOENT)?);
        Ok(0)
    }

    /// Whether an option was set.
    fn rbd_image_options_is_set(bag: *mut c_void, option: c_int, is_set: *mut bool) -> c_int {
        is_text(option)?;
        put(is_set, Bag::of(bag)?.0.contains_key(&option));
        Ok(0)
    }

    /// Takes an option out.
    fn rbd_image_options_unset(bag: *mut c_void, option: c_int) -> c_int {
        is_text(option)?;
        Bag::of(bag)?.0.remove(&option).ok_or(Errno::ENOENT)?;
        Ok(0)
    }

    /// Whether no option was set.
    fn rbd_image_options_is_empty(bag: *mut c_void) -> c_int {
        Ok(Bag::of(bag)?.0.is_empty().into())
    }
}

plain! {
    /// Creates an empty bag.
    fn rbd_image_options_create(to: *mut *mut c_void) -> () {
        put(to, Box::into_raw(Box::<Bag>::default()).cast());
    }

    /// Frees a bag.
    fn rbd_image_options_destroy(bag: *mut c_void) -> () {
        if !bag.is_null() {
            drop(Box::from_raw(bag.cast::<Bag>()));
        }
    }

    /// Takes all options out.
    fn rbd_image_options_clear(bag: *mut c_void) -> () {
        if let Ok(bag) = Bag::of(bag) {
            bag.0.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_without_effect_are_refused() {
        for option in [JOURNAL_ORDER, JOURNAL_SPLAY_WIDTH, MIRROR_IMAGE_MODE] {
            let mut bag = Bag::default();
            bag.set_number(option, 0);
            assert_eq!(bag.check(), Ok(()), "option {option} at its default");
            bag.set_number(option, 1);
            assert_eq!(bag.check(), Err(Errno::EOPNOTSUPP.into()), "option {option}");
        }
        let mut bag = Bag::default();
        bag.set_number(ORDER, 20);
        assert_eq!(bag.check(), Ok(()));
    }
}
