//! The client and the server for Python: the extension module `loligo._native`.
//!
//! The package `loligo` (the folder beside) gives it the names of python3-rados and python3-rbd, a form for
//! asyncio, and servers for tests. Everything that a user sees is written there, in Python. This crate has
//! what Python cannot do: it runs the operations of the client's crates, without the interpreter's lock.
//!
//! Each operation has two forms. Called without `done` it runs on the caller's thread and returns its
//! result. Called with `done` it starts and returns at once; `done(value, error)` is called when it is
//! complete, on a thread for callbacks, in the order of completion (`border.rs`).

mod bag;
mod border;
mod cluster;
mod error;
mod image;
mod new_options;
mod pool;
mod pool_images;
mod progress;
mod server;
mod settings;
mod value;
mod watch;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(error::set_errors, module)?)?;
    module.add_class::<cluster::Client>()?;
    module.add_class::<pool::Pool>()?;
    module.add_class::<pool::Objects>()?;
    module.add_class::<bag::WriteBag>()?;
    module.add_class::<bag::ReadBag>()?;
    module.add_class::<watch::Watch>()?;
    module.add_class::<image::Image>()?;
    module.add_class::<server::Server>()?;
    let end = wrap_pyfunction!(border::end_callbacks, module)?;
    module.py().import("atexit")?.call_method1("register", (end,))?;
    pool_images::add_to(module)
}
