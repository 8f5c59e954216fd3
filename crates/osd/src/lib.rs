//! Execution of object operations.
