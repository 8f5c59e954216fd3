//! Parts of the charts that other pictures use.

/// The style sheet: colours for light and dark.
pub const STYLE: &str = include_str!("page.css");

pub use super::format::{number, time};

/// Escapes text for an element or a quoted attribute.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
