//! Ceph authentication, keyrings and configuration files.
