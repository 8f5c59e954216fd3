//! The layout of striped files: which byte of a file lies in which object, and the names of the objects.
//! Pure arithmetic, exactly as Ceph lays out striped files, images and CephFS.
//!
//! ```
//! use loligo_layout::{Layout, ObjectExtent, ObjectNames, ObjectNo};
//!
//! // Units of 1 MiB, dealt out to 4 objects of 4 MiB each in turn.
//! let layout = Layout::new(1 << 20, 4, 4 << 20)?;
//! assert_eq!(layout.locate(5 << 20), (ObjectNo(1), 1 << 20));
//! assert_eq!(layout.file_offset(ObjectNo(1), 1 << 20), Some(5 << 20));
//! let extents: Vec<_> = layout.extents(5 << 20, 100).collect();
//! assert_eq!(extents, [ObjectExtent { object: ObjectNo(1), offset: 1 << 20, len: 100 }]);
//! assert_eq!(ObjectNames::CephFs(0x1000).name(ObjectNo(1)), b"1000.00000001");
//! # Ok::<(), loligo_layout::LayoutError>(())
//! ```
//!
//! - [`Layout`] maps a range of a file to extents of objects ([`Layout::extents`]) and back
//!   ([`Layout::pieces`]).
//! - [`ObjectNames`] names the objects of a file as libradosstriper or CephFS does; [`striped_file`]
//!   finds the file of an object.
//!
//! This crate does no I/O: it sends nothing and reads nothing.
#![forbid(unsafe_code)]

mod layout;
mod names;

pub use layout::{Layout, LayoutError, ObjectExtent, ObjectNo, Piece, UNIT_BYTES_MIN};
pub use names::{ObjectNames, striped_file};
