//! Values of options.

/// Parses a number of bytes: `4096`, `4K`, `16M`, `1G`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    loligo_types::parse_size(text)
        .map_err(|why| format!("'{text}' is not a size such as 4096, 4K, 16M or 1G: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_is_none_is_refused_with_examples() {
        assert_eq!(size("2M"), Ok(2 << 20));
        let why = size("2X").expect_err("no unit");
        assert!(why.starts_with("'2X' is not a size such as 4096, ") && why.contains("unit"), "{why}");
    }
}
