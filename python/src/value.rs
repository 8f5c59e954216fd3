//! Values that cross the border: names, data, lists.

use std::borrow::Cow;
use std::convert::Infallible;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};

/// A name: `str`, which is UTF-8 on the wire, or `bytes`.
pub(crate) struct Text(pub(crate) Vec<u8>);

impl<'py> FromPyObject<'_, 'py> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Self(text.to_cow()?.as_bytes().to_vec()));
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self(bytes.as_bytes().to_vec()));
        }
        Err(PyTypeError::new_err(format!("str or bytes expected, not {}", object.get_type())))
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Data to be written: `bytes` is not copied; `bytearray` and `memoryview` are.
pub(crate) struct Data(pub(crate) Bytes);

impl<'py> FromPyObject<'_, 'py> for Data {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let given = object.cast::<PyBytes>().is_ok() || object.cast::<PyByteArray>().is_ok();
        if given {
            return Ok(Self(Bytes::from_owner(object.extract::<PyBackedBytes>()?)));
        }
        if object.cast::<PyMemoryView>().is_ok() {
            let copy = object.call_method0("tobytes")?;
            return Ok(Self(Bytes::from_owner(copy.extract::<PyBackedBytes>()?)));
        }
        Err(PyTypeError::new_err(format!("bytes expected, not {}", object.get_type())))
    }
}

impl<'py> IntoPyObject<'py> for Data {
    type Target = PyBytes;
    type Output = Bound<'py, PyBytes>;
    type Error = Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Infallible> {
        Ok(PyBytes::new(py, &self.0))
    }
}

impl From<&[u8]> for Data {
    fn from(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64()
}

/// A name for people.
pub(crate) fn shown(name: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(name)
}
