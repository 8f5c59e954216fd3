//! The RADOS client: targeting, sending, resending.
