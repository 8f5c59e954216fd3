//! Locks that measure themselves.
