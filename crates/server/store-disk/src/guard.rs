//! Guards against the reuse of blocks.

/// Held by views, and by clones with parts that are not copied yet. Blocks that were freed while a guard
/// exists are not reused before it is dropped.
#[derive(Debug, Default)]
pub(super) struct Guard;
