//! A server within the process, for tests.

use std::path::PathBuf;
use std::sync::Arc;

use loligo_lockstat::{Class, Mutex};
use loligo_server::{Auth, Handle, OsdCount, SnapshotError};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::border::Home;

static SERVER: Class = Class::new("python.server");

/// A running server. Its threads are its own, and never wait for the interpreter.
#[pyclass(frozen, module = "loligo._native")]
pub(crate) struct Server {
    /// `None` once it is stopped. A call that is under way has it, too.
    handle: Mutex<Option<Arc<Handle>>>,
    process: u32,
    conf: PathBuf,
    mon: String,
    startup: f64,
}

#[pymethods]
impl Server {
    /// Starts a server; returns when clients can connect.
    #[new]
    #[pyo3(signature = (pools, data_dir=None, on_disk=false, auth=true, osds=None, pg_num=None))]
    fn start(
        py: Python<'_>,
        pools: Vec<String>,
        data_dir: Option<PathBuf>,
        on_disk: bool,
        auth: bool,
        osds: Option<usize>,
        pg_num: Option<u32>,
    ) -> PyResult<Self> {
        let mut builder = match (data_dir, on_disk) {
            (Some(dir), true) => loligo_server::Server::disk(dir),
            (None, true) => return Err(PyValueError::new_err("a store on disk needs a folder: data_dir")),
            (Some(dir), false) => loligo_server::Server::memory().data_dir(dir),
            (None, false) => loligo_server::Server::memory(),
        };
        builder = builder.auth(if auth { Auth::Cephx } else { Auth::None });
        if let Some(osds) = osds {
            let count = OsdCount::new(osds);
            builder = builder.osds(count.ok_or_else(|| PyValueError::new_err("no such number of OSDs"))?);
        }
        if let Some(pg_num) = pg_num {
            builder = builder.pg_num(pg_num);
        }
        builder = pools.into_iter().fold(builder, loligo_server::Builder::pool);
        let handle = py.detach(|| builder.start());
        let handle = handle.map_err(|error| PyRuntimeError::new_err(format!("no server: {error}")))?;
        Ok(Self {
            process: std::process::id(),
            conf: handle.conf().to_owned(),
            mon: handle.mon_addr().to_string(),
            startup: handle.startup().as_secs_f64(),
            handle: Mutex::new(&SERVER, Some(Arc::new(handle))),
        })
    }

    /// The configuration file for clients.
    #[getter]
    fn conf(&self) -> PathBuf {
        self.conf.clone()
    }

    /// The monitor's address.
    #[getter]
    fn mon_addr(&self) -> &str {
        &self.mon
    }

    /// How many seconds the start took.
    #[getter]
    fn startup(&self) -> f64 {
        self.startup
    }

    /// Makes the present state the one that `reset` returns to.
    fn mark(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.running()?;
        done(py, async move { handle.mark().await })
    }

    /// Returns to the state after the start, or after `mark`.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.running()?;
        done(py, async move { handle.reset().await })
    }

    /// Writes the whole state to a file.
    fn dump(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let handle = self.running()?;
        done(py, async move { handle.dump(path).await })
    }

    /// Returns to the state of a file that `dump` has written.
    fn restore(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let handle = self.running()?;
        done(py, async move { handle.restore(path).await })
    }

    /// Stops the server and waits for its end; if another thread's call is under way, that call's end ends
    /// the server. A stopped one, and one of the parent of this process, is left alone.
    fn stop(&self, py: Python<'_>) {
        let handle = self.handle.lock().take();
        self.end(py, handle);
    }
}

impl Server {
    fn running(&self) -> PyResult<Arc<Handle>> {
        let handle = self.handle.lock().clone();
        let is_here = self.process == std::process::id();
        handle.filter(|_| is_here).ok_or_else(|| PyRuntimeError::new_err("the server does not run"))
    }

    fn end(&self, py: Python<'_>, handle: Option<Arc<Handle>>) {
        if self.process == std::process::id() {
            py.detach(|| drop(handle));
        } else {
            // The threads that it would wait for are not in this process.
            std::mem::forget(handle);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // In the process that started it the handle ends the server by itself.
        if self.process != std::process::id() {
            std::mem::forget(self.handle.get_mut().take());
        }
    }
}

/// Waits for a change of the server's state.
fn done(py: Python<'_>, change: impl Future<Output = Result<(), SnapshotError>> + Send) -> PyResult<()> {
    let changed = Home::get()?.wait(py, change)?;
    changed.map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
