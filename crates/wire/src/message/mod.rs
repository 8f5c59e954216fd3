//! Message bodies.
