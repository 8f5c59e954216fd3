//! Ceph authentication, keyrings and configuration files.
#![forbid(unsafe_code)]

pub mod handshake;
