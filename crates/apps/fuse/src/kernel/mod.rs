//! The kernel's side of the mount: requests and answers as bytes, the device that carries them, and what is
//! told to the kernel without being asked.

mod answer;
mod device;
mod notify;
mod numbers;
mod request;

pub(crate) use self::answer::{Answer, DirPage, Entry, Sizes};
pub(crate) use self::device::{Device, Inbox};
pub(crate) use self::notify::Kernel;
pub(crate) use self::request::{Form, Head, LockWish, Op, SetAttr, Time, parse};
