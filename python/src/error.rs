//! Failures of operations, and the exceptions that Python programs get.

use std::fmt;

use loligo_wire::{DecodeError, Errno};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::value::shown;

/// The functions that make exceptions of errno and text: those of `loligo.rados`, and of `loligo.rbd`.
static RADOS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static RBD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Whose exceptions an operation raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rados,
    Rbd,
}

/// Why an operation failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// A positive errno, or a number beyond them that tells where a comparison found a difference.
    errno: i32,
    text: String,
}

impl Failure {
    pub(crate) fn new(errno: Errno, text: impl Into<String>) -> Self {
        Self { errno: errno.0, text: text.into() }
    }

    /// The failure of a reply whose result is negative.
    pub(crate) fn of_result(result: i32) -> Self {
        match Errno::from_result(result) {
            Some(errno) => Self::from(errno),
            None => Self { errno: result.saturating_neg(), text: "the data differ".to_owned() },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::new(errno, errno.to_string())
    }
}

impl From<loligo_rados::Error> for Failure {
    fn from(error: loligo_rados::Error) -> Self {
        Self::new(error.errno(), error.to_string())
    }
}

impl From<loligo_rbd::Error> for Failure {
    fn from(error: loligo_rbd::Error) -> Self {
        Self::new(error.errno(), error.to_string())
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::new(Errno::from(error), error.to_string())
    }
}

impl From<loligo_conf::ConfError> for Failure {
    fn from(error: loligo_conf::ConfError) -> Self {
        let errno = match &error {
            loligo_conf::ConfError::Io { source, .. } => source.raw_os_error().map(Errno),
            _ => None,
        };
        Self::new(errno.unwrap_or(Errno::EINVAL), error.to_string())
    }
}

/// What an operation does, and to what: the beginning of its errors' texts.
pub(crate) struct What {
    kind: Kind,
    verb: &'static str,
    subject: Vec<u8>,
}

impl What {
    /// An operation on an object, a pool or a cluster.
    pub(crate) fn rados(verb: &'static str, subject: &[u8]) -> Self {
        Self { kind: Kind::Rados, verb, subject: subject.to_vec() }
    }

    /// An operation on an image, or on the images of a pool.
    pub(crate) fn rbd(verb: &'static str, subject: &[u8]) -> Self {
        Self { kind: Kind::Rbd, verb, subject: subject.to_vec() }
    }

    /// Makes the exception of a failure.
    pub(crate) fn error(&self, py: Python<'_>, failure: Failure) -> PyErr {
        let text = format!("{self}: {}", failure.text);
        let make = match self.kind {
            Kind::Rados => &RADOS,
            Kind::Rbd => &RBD,
        };
        let Some(make) = make.get(py) else { return PyOSError::new_err((failure.errno, text)) };
        match make.bind(py).call1((failure.errno, text)) {
            Ok(exception) => PyErr::from_value(exception),
            Err(error) => error,
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.subject.as_slice() {
            [] => write!(f, "cannot {}", self.verb),
            subject => write!(f, "cannot {} '{}'", self.verb, shown(subject)),
        }
    }
}

/// Sets the functions that make exceptions: `make(errno, text)` returns one. Called by the package.
#[pyfunction]
pub(crate) fn set_errors(py: Python<'_>, kind: &str, make: Py<PyAny>) {
    let place = if kind == "rbd" { &RBD } else { &RADOS };
    // The package is loaded once; a second interpreter of the process keeps the first one's.
    let _ = place.set(py, make);
}
