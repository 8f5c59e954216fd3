//! The space that images use.

mod allocation;
mod sparse;
mod sparsify;
mod usage;

pub use self::allocation::Allocation;
pub use self::sparse::nonzero_runs;
pub use self::usage::Usage;
