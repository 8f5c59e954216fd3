//! The functions of `libradosstriper.h`: striped files, as `rados --striper` has them.
//!
//! Each operation opens the file under its lock and closes it again, as libradosstriper does.

mod aio;
mod completion;
mod handle;
mod io;
mod xattr;
