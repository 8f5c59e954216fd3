//! Random maps.

mod crush;
mod osdmap;

pub(crate) use crush::{Shape, class_map, crush_map, crush_text};
pub(crate) use osdmap::{details, osd_map};
