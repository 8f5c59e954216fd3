//! What keeps blocks from being used again.

/// Held by views, and by clones of which parts were not copied yet: what was freed while one of them lives is
/// not used again before it is gone.
#[derive(Debug, Default)]
pub(super) struct Guard;
