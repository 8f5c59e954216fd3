//! The functions of `librados.h`, by topic.

mod aio;
mod application;
mod client;
mod command;
mod conf;
mod info;
mod io;
mod ioctx;
mod iterators;
mod lifecycle;
mod list;
mod lock;
mod log;
mod pool;
mod read_op;
mod service;
mod snap;
mod versioned;
mod watch;
mod watch_info;
mod write_op;
mod xattr;

pub(crate) use aio::{submit, submit_write};
pub(crate) use client::Client;
pub(crate) use conf::value_of as option_of;
pub(crate) use io::{give_output, input_of, read, write};
pub(crate) use ioctx::Pool;
pub(crate) use iterators::{Xattrs, rados_getxattrs_end, rados_getxattrs_next};
pub(crate) use lock::{client_of, give_holders};
pub(crate) use pool::name_of;
pub(crate) use xattr::op as xattr_op;
