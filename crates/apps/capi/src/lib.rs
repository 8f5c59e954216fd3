//! librados, librbd and libradosstriper as C libraries, for programs that exist: qemu, fio, libvirt,
//! python3-rados, the program `ceph`, and whatever else loads `librados.so.2`.
//!
//! One library, `librados.so.2`, contains the functions of all three, because they pass handles to each
//! other. `librbd.so.1` and `libradosstriper.so.1` contain nothing and need it. `cargo xtask dist --libs
//! DIR` builds the three.
//!
//! - `border` is what each function does on entry and return: a panic becomes an error, and a
//!   child after `fork` is refused.
//! - `runtime` has the process's threads: one runtime for all handles, and threads for callbacks.
//! - `rados` has the functions of `librados.h`, `rbd` those of `librbd.h`, `striper` those of
//!   `libradosstriper.h`.
//! - `handle` has what all handles have in common.
//! - `absent` has the functions of features that this project does not have.
//!
//! Memory that a program frees comes from the C library's allocator. There are no destructors: at the end
//! of the process the kernel closes what is open.
// Unsafe code is this crate's purpose: it dereferences what C programs pass. Each function's block is made
// by one macro, with its reason (`border.rs`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![allow(clippy::missing_safety_doc)]

mod absent;
mod border;
mod completion;
mod handle;
mod memory;
mod rados;
mod rbd;
mod runtime;
mod strand;
mod striper;
