//! Values of options.

/// Parses a number of bytes: `4096`, `4K`, `16M`, `1G`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let unit_at = upper.find(|c: char| !c.is_ascii_digit()).unwrap_or(upper.len());
    let (number, unit) = upper.split_at(unit_at);
    let shift = match unit {
        "" | "B" => Some(0),
        _ => {
            let power = unit.chars().next().and_then(|letter| "KMGT".find(letter));
            let is_whole = matches!(unit.get(1..), Some("" | "B" | "IB"));
            power.filter(|_| is_whole).map(|power| 10 * (power + 1))
        }
    };
    let bytes = number.parse::<u64>().ok().zip(shift).and_then(|(n, shift)| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("'{text}' is not a size such as 4096, 4K, 16M or 1G"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4K", 4096),
            ("4kib", 4096),
            ("2MB", 2 << 20),
            ("7b", 7),
            ("3G", 3 << 30),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "4X", "-1", "+4K", "1.5M", "4IB", "4KI", "4KBB", "4KIIB", "4 K", "99999999T"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
