//! What a new image, clone or copy is to be, as a program says it.

use crate::error::Failure;
use crate::pool::Pool;
use loligo_rados::{IoCtx, PoolId};
use loligo_rbd::{CloneFormat, NewClone, NewCopy, NewImage, features};
use loligo_wire::Errno;
use pyo3::prelude::*;

/// What a new image, clone or copy is to be; what is not given is by configuration.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct NewOptions {
    order: Option<i64>,
    features: Option<u64>,
    stripe_unit: Option<u64>,
    stripe_count: Option<u64>,
    data_pool: Option<String>,
    pub(crate) old_format: Option<bool>,
    clone_format: Option<u8>,
}

impl NewOptions {
    /// The object size that is asked for, as a power of two.
    pub(crate) fn order(&self) -> Result<Option<u8>, Failure> {
        match self.order {
            None | Some(0) => Ok(None),
            Some(order) => match u8::try_from(order) {
                Ok(order @ 12..=25) => Ok(Some(order)),
                _ => Err(Failure::new(Errno::EDOM, "the order of an image is 12 to 25")),
            },
        }
    }

    pub(crate) fn striping(&self) -> Result<Option<(u64, u64)>, Failure> {
        let given = |number: Option<u64>| number.filter(|number| *number > 0);
        match (given(self.stripe_unit), given(self.stripe_count)) {
            (None, None) => Ok(None),
            (Some(unit), Some(count)) => Ok(Some((unit, count))),
            _ => Err(Failure::new(Errno::EINVAL, "stripe unit and stripe count belong together")),
        }
    }

    pub(crate) async fn data_pool(&self, io: &IoCtx) -> Result<Option<PoolId>, Failure> {
        match self.data_pool.as_deref() {
            None | Some("") => Ok(None),
            Some(name) => Ok(Some(io.rados().pool_id(name).await?)),
        }
    }

    pub(crate) async fn image(&self, pool: &Target, size: u64) -> Result<NewImage, Failure> {
        let defaults = &pool.defaults;
        Ok(NewImage {
            size,
            order: match self.order()? {
                Some(order) => order,
                None => defaults.order()?,
            },
            features: self.features.unwrap_or(defaults.features),
            striping: match self.striping()? {
                Some(striping) => Some(striping),
                None => defaults.striping()?,
            },
            data_pool: match self.data_pool(&pool.io).await? {
                Some(pool) => Some(pool),
                None => defaults.data_pool(&pool.io).await?,
            },
            pool_unchecked: false,
        })
    }

    pub(crate) async fn clone(&self, pool: &Target) -> Result<NewClone, Failure> {
        Ok(NewClone {
            order: self.order()?,
            features: Some(self.features.unwrap_or(pool.defaults.features)),
            striping: self.striping()?,
            data_pool: self.data_pool(&pool.io).await?,
            format: match self.clone_format.map(u64::from).or(pool.defaults.clone_format) {
                Some(1) => CloneFormat::First,
                Some(2) => CloneFormat::Second,
                _ => CloneFormat::Auto,
            },
            ..NewClone::default()
        })
    }

    /// What a copy in this pool is to be.
    pub(crate) async fn copy(&self, io: &IoCtx) -> Result<NewCopy, Failure> {
        Ok(NewCopy {
            order: self.order()?,
            features: self.features,
            striping: self.striping()?,
            data_pool: self.data_pool(io).await?,
            ..NewCopy::default()
        })
    }
}

/// Where new images are made, and what they are by configuration (`rbd_default_*`).
pub(crate) struct Target {
    pub(crate) io: IoCtx,
    pub(crate) defaults: Defaults,
}

pub(crate) struct Defaults {
    features: u64,
    order: u64,
    stripe_unit: u64,
    stripe_count: u64,
    data_pool: Option<String>,
    pub(crate) old_format: bool,
    clone_format: Option<u64>,
}

impl Target {
    pub(crate) fn of(pool: &Pool) -> Self {
        let conf = pool.settings.conf();
        let number = |option: &str, default| conf.u64(option, default).unwrap_or(default);
        let features = conf.text("rbd_default_features").and_then(|text| features_of(&text));
        let defaults = Defaults {
            features: features.unwrap_or(features::DEFAULT),
            order: number("rbd_default_order", 22),
            stripe_unit: number("rbd_default_stripe_unit", 0),
            stripe_count: number("rbd_default_stripe_count", 0),
            data_pool: conf.text("rbd_default_data_pool").filter(|name| !name.is_empty()),
            old_format: number("rbd_default_format", 2) == 1,
            clone_format: conf.u64("rbd_default_clone_format", 0).ok(),
        };
        Self { io: IoCtx::clone(&pool.io), defaults }
    }
}

impl Defaults {
    fn order(&self) -> Result<u8, Failure> {
        match u8::try_from(self.order) {
            Ok(order @ 12..=25) => Ok(order),
            _ => Err(Failure::new(Errno::EDOM, "rbd_default_order is not within 12 to 25")),
        }
    }

    fn striping(&self) -> Result<Option<(u64, u64)>, Failure> {
        if self.features & features::by_name("striping").unwrap_or(2) == 0 {
            return Ok(None);
        }
        match (self.stripe_unit, self.stripe_count) {
            (0, 0) => Ok(None),
            (0, _) | (_, 0) => {
                Err(Failure::new(Errno::EINVAL, "rbd_default_stripe_unit and _count belong together"))
            }
            striping => Ok(Some(striping)),
        }
    }

    async fn data_pool(&self, io: &IoCtx) -> Result<Option<PoolId>, Failure> {
        match &self.data_pool {
            None => Ok(None),
            Some(name) => Ok(Some(io.rados().pool_id(name).await?)),
        }
    }
}

/// Reads features: a number, or names with commas or plus signs.
pub(crate) fn features_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let named = || {
        let mut names = text.split([',', '+']);
        names.try_fold(0, |bits, name| features::by_name(name.trim()).map(|feature| bits | feature))
    };
    text.parse().ok().or_else(named)
}
