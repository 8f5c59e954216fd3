//! A server within the process, for tests.

use std::path::PathBuf;

use loligo_lockstat::{Class, Mutex};
use loligo_server::{Auth, Handle, OsdCount};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

static SERVER: Class = Class::new("python.server");

/// A running server. Its threads are its own, and never wait for the interpreter.
#[pyclass(frozen, module = "loligo._native")]
pub(crate) struct Server {
    handle: Mutex<Option<Handle>>,
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
            handle: Mutex::new(&SERVER, Some(handle)),
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

    /// Stops the server and waits for its end. A stopped one, and one of the parent of this process, is left
    /// alone.
    fn stop(&self, py: Python<'_>) {
        let handle = self.handle.lock().take();
        self.end(py, handle);
    }
}

impl Server {
    fn end(&self, py: Python<'_>, handle: Option<Handle>) {
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
