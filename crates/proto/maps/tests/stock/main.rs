//! Compares this crate with stock Ceph. Goal: all placements are equal, and each side decodes what the
//! other encodes.
//!
//! Method: random maps are encoded here and passed to `crushtool` and `osdmaptool`, whose output is
//! compared with this crate's. The tools installed on the machine are required. Tools of further
//! releases are also used, if each release is installed in a directory under `$STOCK_CEPH_ROOTS` and the
//! test may `chroot`.
//!
//! A failure prints the seed of the map:
//! `LOLIGO_SEED=… cargo test -p loligo-maps --test stock -- --ignored` starts with that seed.

mod crush;
mod live;
mod monmap;
mod osdmap;
mod random;
mod rng;
mod tools;
