//! Operations that a program in another language starts and is told of later, in the order of their answers.
//!
//! Tasks of a runtime with several workers overtake each other: of two writes that are answered one after
//! the other, the second could be told of first. So the operations of a handle share a [`Driver`]: a wake-up
//! queues the operation, and one task at a time takes the queued operations their next step.
//!
//! ```
//! # let runtime = tokio::runtime::Runtime::new()?;
//! let driver = loligo_flight::Driver::new(runtime.handle().clone());
//! let (told, tells) = std::sync::mpsc::channel();
//! driver.start(async { 7 }, move |number| told.send(number).expect("somebody listens"));
//! assert_eq!(tells.recv(), Ok(7));
//! # Ok::<(), std::io::Error>(())
//! ```
#![cfg(not(loom))]

mod driver;
mod sync;
mod told;
mod word;

pub use driver::{Driver, Flight};
