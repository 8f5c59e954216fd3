//! An image's header: size, features, flags, striping, timestamps.

use bytes::Bytes;
use loligo_wire::{Encode, Errno, Reader, SnapId, UTime};

use super::Answer;
use super::types::{Parent, Snap};
use super::{feature, op_feature, require_feature, set_op_features, snap_key};
use crate::handle::Handle;

pub(super) fn create(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (size, order, features, prefix) = (r.u64()?, r.u8()?, r.u64()?, r.get::<String>()?);
    let data_pool = if r.is_empty() { -1 } else { r.i64()? };
    if features & !feature::ALL != 0 {
        return Err(Errno::ENOSYS);
    }
    if prefix.is_empty() {
        return Err(Errno::EINVAL);
    }
    if object.has("object_prefix")? {
        return Err(Errno::EEXIST);
    }
    let has_data_pool = features & feature::DATA_POOL != 0;
    if features & feature::OPERATIONS != 0 || has_data_pool != (data_pool != -1) {
        return Err(Errno::EINVAL);
    }
    let now = UTime::now().to_bytes();
    let mut header = vec![
        ("size", size.to_bytes()),
        ("order", order.to_bytes()),
        ("features", features.to_bytes()),
        ("object_prefix", prefix.to_bytes()),
        ("snap_seq", 0u64.to_bytes()),
        ("create_timestamp", now.clone()),
        ("access_timestamp", now.clone()),
        ("modify_timestamp", now),
    ];
    if has_data_pool {
        header.push(("data_pool_id", data_pool.to_bytes()));
    }
    let header: Vec<(Bytes, Bytes)> =
        header.into_iter().map(|(key, value)| (Bytes::from_static(key.as_bytes()), value)).collect();
    object.set_all(&header)?;
    Ok(Bytes::new())
}

pub(super) fn get_all_features(_object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    Ok(feature::ALL.to_bytes())
}

pub(super) fn get_features(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    // A snapshot id, which is ignored: since release 14 a snapshot has the features of its image.
    r.u64()?;
    let read_only = !r.is_empty() && r.bool()?;
    let features: u64 = object.get("features")?;
    let incompatible = if read_only { feature::INCOMPATIBLE } else { feature::RW_INCOMPATIBLE };
    Ok((features, features & incompatible).to_bytes())
}

pub(super) fn set_features(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let (features, mask): (u64, u64) = Reader::new(input).get()?;
    let before: u64 = object.find("features")?.unwrap_or(0);
    // Newer clients may clear features unknown here.
    let known = mask & feature::ALL;
    let (enabled, disabled) = (features & known, !features & known);
    let allowed = mask & feature::INTERNAL == 0
        && enabled & !feature::MUTABLE == 0
        && disabled & !(feature::MUTABLE | feature::DISABLE_ONLY) == 0;
    if !allowed {
        return Err(Errno::EINVAL);
    }
    object.set("features", &((before & !known) | enabled))?;
    Ok(Bytes::new())
}

pub(super) fn op_features_get(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    Ok(object.find::<u64>("op_features")?.unwrap_or(0).to_bytes())
}

pub(super) fn op_features_set(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let (op_features, mask): (u64, u64) = Reader::new(input).get()?;
    if mask & !op_feature::ALL != 0 {
        return Err(Errno::EINVAL);
    }
    set_op_features(object, op_features, mask)?;
    Ok(Bytes::new())
}

pub(super) fn get_size(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let snap = SnapId(Reader::new(input).u64()?);
    let order: u8 = object.get("order")?;
    let size: u64 = match snap {
        SnapId::HEAD => object.get("size")?,
        snap => object.get::<Snap>(snap_key(snap))?.size,
    };
    Ok((order, size).to_bytes())
}

pub(super) fn set_size(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let size = Reader::new(input).u64()?;
    let before: u64 = object.get("size")?;
    object.set("size", &size)?;
    if size < before
        && let Some(mut parent) = object.find::<Parent>("parent")?
        && parent.exists()
        && parent.overlap.is_some_and(|overlap| overlap > size)
    {
        parent.overlap = Some(size);
        object.set("parent", &parent)?;
    }
    Ok(Bytes::new())
}

pub(super) fn get_flags(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let flags = match SnapId(Reader::new(input).u64()?) {
        SnapId::HEAD => object.find::<u64>("flags")?.unwrap_or(0),
        snap => object.get::<Snap>(snap_key(snap))?.flags,
    };
    Ok(flags.to_bytes())
}

pub(super) fn set_flags(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (flags, mask) = (r.u64()?, r.u64()?);
    let snap = if r.is_empty() { SnapId::HEAD } else { SnapId(r.u64()?) };
    let after = |before: u64| (before & !mask) | (flags & mask);
    if snap == SnapId::HEAD {
        let before = object.find::<u64>("flags")?.unwrap_or(0);
        object.set("flags", &after(before))?;
    } else {
        let mut snap: Snap = object.get(snap_key(snap))?;
        snap.flags = after(snap.flags);
        object.set(snap_key(snap.id), &snap)?;
    }
    Ok(Bytes::new())
}

pub(super) fn get_object_prefix(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    Ok(object.get::<String>("object_prefix")?.to_bytes())
}

pub(super) fn get_data_pool(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    Ok(object.find::<i64>("data_pool_id")?.unwrap_or(-1).to_bytes())
}

pub(super) fn get_stripe_unit_count(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    object.must_exist()?;
    require_feature(object, feature::STRIPINGV2)?;
    let unit = match object.find::<u64>("stripe_unit")? {
        Some(unit) => unit,
        None => object_bytes(object)?,
    };
    let count = object.find::<u64>("stripe_count")?.unwrap_or(1);
    Ok((unit, count).to_bytes())
}

/// The size of a data object in bytes.
fn object_bytes(object: &mut Handle<'_>) -> Result<u64, Errno> {
    let order: u8 = object.get("order")?;
    1u64.checked_shl(u32::from(order)).ok_or(Errno::EIO)
}

pub(super) fn set_stripe_unit_count(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let (unit, count): (u64, u64) = Reader::new(input).get()?;
    if unit == 0 || count == 0 {
        return Err(Errno::EINVAL);
    }
    object.must_exist()?;
    require_feature(object, feature::STRIPINGV2)?;
    if !object_bytes(object)?.is_multiple_of(unit) {
        return Err(Errno::EINVAL);
    }
    object.set("stripe_unit", &unit)?;
    object.set("stripe_count", &count)?;
    Ok(Bytes::new())
}

pub(super) fn get_create_timestamp(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    time(object, "create_timestamp")
}

pub(super) fn get_access_timestamp(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    time(object, "access_timestamp")
}

pub(super) fn get_modify_timestamp(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    time(object, "modify_timestamp")
}

/// A timestamp of the header; zero if it has none.
fn time(object: &mut Handle<'_>, key: &str) -> Answer {
    Ok(object.find::<UTime>(key)?.unwrap_or_default().to_bytes())
}

pub(super) fn set_access_timestamp(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    set_time(object, "access_timestamp")
}

pub(super) fn set_modify_timestamp(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    set_time(object, "modify_timestamp")
}

fn set_time(object: &mut Handle<'_>, key: &str) -> Answer {
    object.must_exist()?;
    object.set(key, &UTime::now())?;
    Ok(Bytes::new())
}
