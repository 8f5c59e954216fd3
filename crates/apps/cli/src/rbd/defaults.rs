//! The defaults of images from the options `rbd_default_…`. Like `rbd`, it reads them from the images'
//! pool, the command line, `CEPH_ARGS`, ceph.conf and the monitors.

use loligo_conf::Conf;
use loligo_rbd::{CloneFormat, NewImage, features};

use crate::failure::{Context, Failure};

/// Returns the pool of images whose names have none.
pub(super) fn pool(conf: &Conf) -> String {
    conf.text("rbd_default_pool").filter(|name| !name.is_empty()).unwrap_or_else(|| "rbd".to_owned())
}

/// Returns the pool of images' data, if it is a separate one.
pub(super) fn data_pool(conf: &Conf) -> Option<String> {
    conf.text("rbd_default_data_pool").filter(|name| !name.is_empty())
}

/// Returns the shape of a new image of this size.
pub(super) fn image(conf: &Conf, size: u64) -> Result<NewImage, Failure> {
    let what = || "new image".to_owned();
    if conf.u64("rbd_default_format", 2).context(what)? == 1 {
        let why = "is 1: no images of format 1 are made, as by stock programs; take it out, or say 2";
        return Err(Failure::new("rbd_default_format", why));
    }
    let new = NewImage::of_size(size);
    let order = conf.u64("rbd_default_order", new.order.into()).context(what)?;
    let unit = conf.size("rbd_default_stripe_unit", 0).context(what)?;
    let count = conf.u64("rbd_default_stripe_count", 0).context(what)?;
    if (unit == 0) != (count == 0) {
        let why = "are set only together: of one there is no default";
        return Err(Failure::new("rbd_default_stripe_unit and rbd_default_stripe_count", why));
    }
    Ok(NewImage {
        // A value that does not fit is refused as an invalid order.
        order: u8::try_from(order).unwrap_or(u8::MAX),
        features: features(conf)?.unwrap_or(new.features),
        striping: (unit != 0).then_some((unit, count)),
        pool_unchecked: pool_unchecked(conf)?,
        ..new
    })
}

/// Returns `true` if a pool is not checked for its ability to hold images before it gets its first one.
pub(super) fn pool_unchecked(conf: &Conf) -> Result<bool, Failure> {
    conf.bool("rbd_validate_pool", true).map(|validate| !validate).context(|| "new image".to_owned())
}

/// Parses the default features: a number, or names separated by commas.
fn features(conf: &Conf) -> Result<Option<u64>, Failure> {
    let Some(text) = conf.text("rbd_default_features").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    if let Ok(bits) = text.parse() {
        return Ok(Some(bits));
    }
    let named: Vec<_> = text.split(',').map(|name| name.trim().to_owned()).collect();
    wanted("rbd_default_features", &named)
}

/// Returns the features with these names, if there are any, for the command `what`.
pub(super) fn wanted(what: &str, named: &[String]) -> Result<Option<u64>, Failure> {
    let mut wanted = None;
    for name in named {
        let feature = features::by_name(name)
            .ok_or_else(|| Failure::new(what, format!("there is no feature '{name}'")))?;
        wanted = Some(wanted.unwrap_or(0) | feature);
    }
    Ok(wanted)
}

/// Returns the version of new clones.
pub(super) fn clone_format(conf: &Conf) -> Result<CloneFormat, Failure> {
    match conf.text("rbd_default_clone_format").as_deref() {
        None | Some("auto") => Ok(CloneFormat::Auto),
        Some("1") => Ok(CloneFormat::First),
        Some("2") => Ok(CloneFormat::Second),
        Some(other) => {
            Err(Failure::new("rbd_default_clone_format", format!("is '{other}', not 1, 2 or auto")))
        }
    }
}

#[cfg(test)]
mod tests {
    use loligo_conf::Environment;

    use super::*;

    fn conf(text: &str) -> Conf {
        Conf::parse(text, "client.a".parse().unwrap(), Environment::default()).unwrap()
    }

    /// Order, features and striping.
    type Shape = (u8, u64, Option<(u64, u64)>);

    fn shape(text: &str) -> Option<Shape> {
        image(&conf(text), 1).ok().map(|new| (new.order, new.features, new.striping))
    }

    #[test]
    fn images_are_as_configured() {
        // The shapes that `rbd create` of 16.2.15 creates or refuses.
        for (text, made) in [
            ("", Some((22, 61, None))),
            ("rbd default order = 20", Some((20, 61, None))),
            ("rbd_default_order = 300", Some((255, 61, None))),
            ("rbd default features = 5", Some((22, 5, None))),
            ("rbd default features = layering, exclusive-lock", Some((22, 5, None))),
            ("rbd default features = ", Some((22, 61, None))),
            ("rbd default stripe unit = 64K\nrbd default stripe count = 4", Some((22, 61, Some((65536, 4))))),
            ("rbd default stripe unit = 64K", None),
            ("rbd default stripe count = 2", None),
            ("rbd default format = 1", None),
        ] {
            assert_eq!(shape(text), made, "{text}");
        }
    }

    #[test]
    fn pools_are_as_configured() {
        let named = conf("rbd default pool = q\nrbd default data pool = d");
        assert_eq!((pool(&named).as_str(), data_pool(&named).as_deref()), ("q", Some("d")));
        for none in ["", "rbd default pool =\nrbd default data pool ="] {
            assert_eq!((pool(&conf(none)).as_str(), data_pool(&conf(none))), ("rbd", None));
        }
    }
}
