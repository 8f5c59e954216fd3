//! Object classes: methods that an OSD runs at its objects, called by name (CALL).
//!
//! An OSD finds a method by name ([`method`]), checks the caller's permissions ([`needs`]), and runs it
//! ([`Method::run`]) on anything that implements [`Object`]. A method accesses its object only through
//! operations, as a client does. It reads the object's state from before the request, and all its
//! changes happen together with the request's other changes, or not at all.
//!
//! A class is a file with a table of methods; `registry.rs` lists all classes.
//!
//! The crate knows neither stores nor sockets. No input causes a panic: the input comes from a client,
//! and what the object holds was written by clients.
// Numbers from peers must not be truncated or change sign silently. Intended conversions are written
// explicitly (crate `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

mod class;
mod handle;
mod hello;
mod lock;
mod log;
mod numops;
mod object;
mod rbd;
mod refcount;
mod registry;
mod typed;
mod user;
mod version;

pub use class::{Method, Outcome};
pub use object::Object;
#[cfg(feature = "fuzzing")]
pub use registry::nth;
pub use registry::{has_filter, method, needs};
