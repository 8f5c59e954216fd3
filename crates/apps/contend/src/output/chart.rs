//! What other pictures share with these charts.

/// The style sheet: colours for light and dark.
pub const STYLE: &str = include_str!("page.css");

pub use super::format::{number, time};
pub use super::html::escaped;
