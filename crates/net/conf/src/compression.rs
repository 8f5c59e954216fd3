//! The configuration of compression.

use az::SaturatingAs as _;
use loligo_msgr_proto::{Compression, Method};

use crate::{Conf, ConfError};

impl Conf {
    /// Returns the compression of connections: none unless `ms_osd_compress_mode` is `force`, as in
    /// Ceph. Unknown methods are ignored.
    pub fn compression(&self) -> Result<Option<Compression>, ConfError> {
        if self.text("ms_osd_compress_mode").is_none_or(|mode| mode != "force") {
            return Ok(None);
        }
        let names = self
            .list("ms_osd_compression_algorithm")
            .unwrap_or_else(|| vec![Method::Snappy.name().to_owned()]);
        let methods: Vec<_> = names.iter().filter_map(|name| Method::by_name(name)).collect();
        let frame_len_min = self.size("ms_osd_compress_min_size", Compression::FRAME_LEN_MIN as u64)?;
        let secure = self.bool("ms_compress_secure", false)?;
        let wanted = Compression { methods, frame_len_min: frame_len_min.saturating_as::<usize>(), secure };
        Ok((!wanted.methods.is_empty()).then_some(wanted))
    }
}

#[cfg(test)]
mod tests {
    use loligo_wire::EntityName;

    use super::*;
    use crate::Environment;

    #[test]
    fn it_is_configured_as_in_ceph() {
        let of = |text: &str| {
            let conf =
                Conf::parse(&format!("[global]\n{text}"), EntityName::client("a"), Environment::default());
            conf.expect("a conf").compression().expect("fine values")
        };
        assert_eq!(of("ms osd compression algorithm = lz4\n"), None);
        assert_eq!(of("ms osd compress mode = none\n"), None);
        let plain = of("ms osd compress mode = force\n").expect("wanted");
        assert_eq!(plain, Compression { methods: vec![Method::Snappy], frame_len_min: 1024, secure: false });
        let text = "ms osd compress mode = force\nms osd compression algorithm = brotli, zstd lz4\n\
                    ms osd compress min size = 4K\nms compress secure = true\n";
        let all = of(text).expect("wanted");
        let methods = vec![Method::Zstd, Method::Lz4];
        assert_eq!(all, Compression { methods, frame_len_min: 4096, secure: true });
        assert_eq!(of("ms osd compress mode = force\nms osd compression algorithm = brotli\n"), None);
    }
}
