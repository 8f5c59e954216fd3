//! Output formats of results.

pub mod chart;
mod format;
mod html;
mod json;
mod svg;
mod table;

pub use html::to_html;
pub use json::to_json;
pub use table::to_table;
