//! Names of images.

/// `[POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) pool: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) image: String,
    pub(super) snap: Option<String>,
}

impl Spec {
    /// `None` if it is no such name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (place, snap) = match text.split_once('@') {
            Some((place, snap)) => (place, Some(snap)),
            None => (text, None),
        };
        let parts: Vec<&str> = place.split('/').collect();
        let (pool, namespace, image) = match parts[..] {
            [image] => (None, None, image),
            [pool, image] => (Some(pool), None, image),
            [pool, namespace, image] => (Some(pool), Some(namespace), image),
            _ => return None,
        };
        if image.is_empty()
            || pool == Some("")
            || snap.is_some_and(|snap| snap.is_empty() || snap.contains('@'))
        {
            return None;
        }
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Some(Self {
            pool: owned(pool),
            namespace: owned(namespace),
            image: image.to_owned(),
            snap: owned(snap),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let parts = |text| {
            Spec::parse(text)
                .map(|s| [s.pool, s.namespace, Some(s.image), s.snap].map(Option::unwrap_or_default))
        };
        assert_eq!(parts("i"), Some(["", "", "i", ""].map(str::to_owned)));
        assert_eq!(parts("p/i@s"), Some(["p", "", "i", "s"].map(str::to_owned)));
        assert_eq!(parts("p/n/i@s"), Some(["p", "n", "i", "s"].map(str::to_owned)));
        for wrong in ["", "p/", "/i", "a/b/c/d", "i@", "i@s@t"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }
}
