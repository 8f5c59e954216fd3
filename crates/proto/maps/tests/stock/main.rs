//! The maps against stock Ceph: not one placement may differ, and what one side writes the other must read.
//!
//! Random maps are encoded here and given to `crushtool` and `osdmaptool`, whose answers are compared with
//! ours one by one. The machine's own tools are required; those of further releases are used too if each is
//! installed in a directory under `$STOCK_CEPH_ROOTS` and we may `chroot`.
//!
//! A failure names the seed of the map: `LOLIGO_SEED=… cargo test -p loligo-maps --test stock -- --ignored`
//! starts there.

mod crush;
mod live;
mod monmap;
mod osdmap;
mod random;
mod rng;
mod tools;
