//! Object stores.
