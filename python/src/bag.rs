//! Requests of several operations on one object.

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};
use loligo_rados::{
    Answer, CmpOp, IoCtx, OpCode, OpFlags, OsdOp, ReadFrom, ReadOp, SnapId, WhenFull, WriteOp, WriteOptions,
};
use loligo_wire::Errno;
use loligo_wire::message::osd::{AllocHint, Extent, XattrArgs};
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::Failure;
use crate::value::{Data, Text};

static BAG: Class = Class::new("python.bag");

/// A comparison of data with what the object has.
pub(crate) fn compare(offset: u64, data: Bytes) -> OsdOp {
    let extent = Extent { offset, length: data.len() as u64, ..Extent::default() };
    OsdOp::with_extent(OpCode::CMPEXT, extent, data)
}

/// A write of a pattern over `len` bytes.
pub(crate) fn write_same(offset: u64, len: u64, data: Bytes) -> Result<OsdOp, Failure> {
    if data.is_empty() || !len.is_multiple_of(data.len() as u64) {
        return Err(Failure::new(Errno::EINVAL, "the length is no multiple of the data's"));
    }
    Ok(OsdOp::write_same(offset, len, data))
}

/// A call of a method of an object class.
pub(crate) fn call(class: &str, method: &str, input: &[u8]) -> Result<OsdOp, Failure> {
    if class.len().max(method.len()) > usize::from(u8::MAX) {
        return Err(Failure::new(Errno::EINVAL, "the name of a class or method is too long"));
    }
    Ok(OsdOp::call(class, method, input))
}

/// An operation on one attribute.
pub(crate) fn xattr(code: OpCode, name: &[u8], value: &[u8]) -> OsdOp {
    OsdOp::xattr(code, name, value, 0, 0)
}

fn comparison(code: u8) -> PyResult<CmpOp> {
    CmpOp::from_code(code).ok_or_else(|| PyValueError::new_err("no such comparison"))
}

fn wrong(failure: Failure) -> PyErr {
    PyValueError::new_err(failure.to_string())
}

/// What a write does if there is no room (`LIBRADOS_OPERATION_FULL_*`).
fn when_full(flags: i32, default: WhenFull) -> WhenFull {
    const FULL_TRY: i32 = 64;
    const FULL_FORCE: i32 = 128;
    match () {
        () if flags & FULL_FORCE != 0 => WhenFull::Force,
        () if flags & FULL_TRY != 0 => WhenFull::Try,
        () => default,
    }
}

/// Changes of one object. They are done all or none.
#[pyclass(frozen, module = "loligo._native")]
pub(crate) struct WriteBag {
    ops: Mutex<Vec<OsdOp>>,
}

impl WriteBag {
    fn push(&self, op: OsdOp) {
        self.ops.lock().push(op);
    }

    /// Takes the operations out: like a request of librados, a bag is executed once and empty then.
    pub(crate) fn take(&self) -> Vec<OsdOp> {
        std::mem::take(&mut *self.ops.lock())
    }
}

#[pymethods]
impl WriteBag {
    #[new]
    fn new() -> Self {
        Self { ops: Mutex::new(&BAG, Vec::new()) }
    }

    fn __len__(&self) -> usize {
        self.ops.lock().len()
    }

    /// Adds flags (`LIBRADOS_OP_FLAG_*`) to the operation added last.
    fn set_flags(&self, flags: u32) {
        if let Some(last) = self.ops.lock().last_mut() {
            last.flags |= OpFlags::from_bits_retain(flags);
        }
    }

    fn assert_exists(&self) {
        self.push(OsdOp::new(OpCode::STAT));
    }

    fn assert_version(&self, version: u64) {
        self.push(OsdOp::assert_ver(version));
    }

    fn cmpext(&self, data: Data, offset: u64) {
        self.push(compare(offset, data.0));
    }

    fn cmpxattr(&self, name: Text, op: u8, value: Data) -> PyResult<()> {
        let code = comparison(op)?.code();
        let (name, value) = (&name.0, &value.0);
        self.push(OsdOp::xattr(OpCode::CMPXATTR, name, value, code, XattrArgs::MODE_STRING));
        Ok(())
    }

    fn omap_cmp(&self, key: Text, op: u8, value: Data) -> PyResult<()> {
        self.push(OsdOp::omap_compare([(key.0.as_slice(), comparison(op)?, value.0)]));
        Ok(())
    }

    fn create(&self, exclusive: bool) {
        self.push(OsdOp::create(exclusive));
    }

    fn write(&self, data: Data, offset: u64) {
        self.push(OsdOp::write(offset, data.0));
    }

    fn write_full(&self, data: Data) {
        self.push(OsdOp::write_full(data.0));
    }

    fn append(&self, data: Data) {
        self.push(OsdOp::append(data.0));
    }

    fn writesame(&self, data: Data, len: u64, offset: u64) -> PyResult<()> {
        self.push(write_same(offset, len, data.0).map_err(wrong)?);
        Ok(())
    }

    fn remove(&self) {
        self.push(OsdOp::new(OpCode::DELETE));
    }

    fn truncate(&self, size: u64) {
        self.push(OsdOp::truncate(size));
    }

    fn zero(&self, offset: u64, len: u64) {
        self.push(OsdOp::zero(offset, len));
    }

    fn rollback(&self, snapshot: u64) {
        self.push(OsdOp::rollback(SnapId(snapshot)));
    }

    fn set_alloc_hint(&self, object_size: u64, write_size: u64, flags: u32) {
        self.push(OsdOp::set_alloc_hint(AllocHint {
            expected_object_size: object_size,
            expected_write_size: write_size,
            flags,
        }));
    }

    fn set_xattr(&self, name: Text, value: Data) {
        self.push(xattr(OpCode::SETXATTR, &name.0, &value.0));
    }

    fn rm_xattr(&self, name: Text) {
        self.push(xattr(OpCode::RMXATTR, &name.0, b""));
    }

    fn omap_set(&self, pairs: Vec<(Text, Data)>) {
        self.push(OsdOp::omap_set(pairs.into_iter().map(|(key, value)| (key, value.0))));
    }

    fn omap_rm_keys(&self, keys: Vec<Text>) {
        self.push(OsdOp::omap_remove(keys));
    }

    fn omap_rm_range(&self, from: Text, until: Text) {
        self.push(OsdOp::omap_remove_range(&from.0, &until.0));
    }

    fn omap_clear(&self) {
        self.push(OsdOp::new(OpCode::OMAPCLEAR));
    }

    fn execute(&self, class: &str, method: &str, input: Data) -> PyResult<()> {
        self.push(call(class, method, &input.0).map_err(wrong)?);
        Ok(())
    }
}

/// Executes changes; returns the object's version.
pub(crate) async fn write(
    io: IoCtx,
    oid: Vec<u8>,
    ops: Vec<OsdOp>,
    flags: i32,
    options: WriteOptions,
) -> Result<u64, Failure> {
    if ops.is_empty() {
        return Ok(0);
    }
    let when_full = when_full(flags, options.when_full);
    let op = ops.into_iter().fold(WriteOp::new(), WriteOp::op);
    let outcome = io.execute(oid, op, WriteOptions { when_full, ..options }).await?;
    if outcome.result < 0 {
        return Err(Failure::of_result(outcome.result));
    }
    Ok(outcome.version)
}

/// What an operation's output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Data,
    Stat,
    Map,
    Keys,
    Pairs,
}

/// Reads of one state of one object.
#[pyclass(frozen, module = "loligo._native")]
pub(crate) struct ReadBag {
    ops: Mutex<Vec<(OsdOp, Form)>>,
}

impl ReadBag {
    fn push(&self, op: OsdOp, form: Form) {
        self.ops.lock().push((op, form));
    }

    /// Takes the operations out.
    pub(crate) fn take(&self) -> Vec<(OsdOp, Form)> {
        std::mem::take(&mut *self.ops.lock())
    }
}

#[pymethods]
impl ReadBag {
    #[new]
    fn new() -> Self {
        Self { ops: Mutex::new(&BAG, Vec::new()) }
    }

    fn __len__(&self) -> usize {
        self.ops.lock().len()
    }

    /// Adds flags (`LIBRADOS_OP_FLAG_*`) to the operation added last.
    fn set_flags(&self, flags: u32) {
        if let Some((last, _)) = self.ops.lock().last_mut() {
            last.flags |= OpFlags::from_bits_retain(flags);
        }
    }

    fn assert_exists(&self) {
        self.push(OsdOp::new(OpCode::STAT), Form::Data);
    }

    fn assert_version(&self, version: u64) {
        self.push(OsdOp::assert_ver(version), Form::Data);
    }

    fn cmpext(&self, data: Data, offset: u64) {
        self.push(compare(offset, data.0), Form::Data);
    }

    fn omap_cmp(&self, key: Text, op: u8, value: Data) -> PyResult<()> {
        self.push(OsdOp::omap_compare([(key.0.as_slice(), comparison(op)?, value.0)]), Form::Data);
        Ok(())
    }

    fn read(&self, offset: u64, len: u64) {
        self.push(OsdOp::read(offset, len), Form::Data);
    }

    fn stat(&self) {
        self.push(OsdOp::new(OpCode::STAT), Form::Stat);
    }

    fn xattr(&self, name: Text) {
        self.push(xattr(OpCode::GETXATTR, &name.0, b""), Form::Data);
    }

    fn xattrs(&self) {
        self.push(OsdOp::new(OpCode::GETXATTRS), Form::Map);
    }

    fn omap_vals(&self, after: Text, prefix: Text, max: u64) {
        self.push(OsdOp::omap_values(&after.0, max, &prefix.0), Form::Pairs);
    }

    fn omap_keys(&self, after: Text, max: u64) {
        self.push(OsdOp::omap_keys(&after.0, max), Form::Keys);
    }

    fn omap_vals_by_keys(&self, keys: Vec<Text>) {
        self.push(OsdOp::omap_values_by_keys(keys), Form::Map);
    }

    fn execute(&self, class: &str, method: &str, input: Data) -> PyResult<()> {
        self.push(call(class, method, &input.0).map_err(wrong)?, Form::Data);
        Ok(())
    }
}

/// An operation's output as Python sees it.
pub(crate) enum Output {
    Data(Bytes),
    /// Size, and seconds since 1970.
    Stat(u64, f64),
    Map(Vec<(Data, Data)>),
    /// Keys, and whether there are more.
    Keys(Vec<Data>, bool),
    /// Pairs, and whether there are more.
    Pairs(Vec<(Data, Data)>, bool),
}

impl Output {
    fn of(answer: Answer, form: Form) -> Result<Self, Failure> {
        let pair = |(key, value)| (Data(key), Data(value));
        Ok(match form {
            Form::Data => Self::Data(answer.data),
            Form::Stat => {
                let stat = answer.stat()?;
                Self::Stat(stat.size, crate::value::seconds(stat.mtime))
            }
            Form::Map => Self::Map(answer.map()?.into_iter().map(pair).collect()),
            Form::Keys => {
                let found = answer.omap_keys()?;
                Self::Keys(found.keys.into_iter().map(Data).collect(), found.more)
            }
            Form::Pairs => {
                let found = answer.omap()?;
                Self::Pairs(found.pairs.into_iter().map(pair).collect(), found.more)
            }
        })
    }
}

impl<'py> IntoPyObject<'py> for Output {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Data(data) => Data(data).into_bound_py_any(py),
            Self::Stat(size, time) => (size, time).into_bound_py_any(py),
            Self::Map(pairs) => pairs.into_bound_py_any(py),
            Self::Keys(keys, more) => (keys, more).into_bound_py_any(py),
            Self::Pairs(pairs, more) => (pairs, more).into_bound_py_any(py),
        }
    }
}

/// The copy that reads go to (`LIBRADOS_OPERATION_*_READS`).
fn read_from(flags: i32) -> ReadFrom {
    const BALANCE_READS: i32 = 1;
    const LOCALIZE_READS: i32 = 2;
    match () {
        () if flags & BALANCE_READS != 0 => ReadFrom::Balanced,
        () if flags & LOCALIZE_READS != 0 => ReadFrom::Nearest,
        () => ReadFrom::Primary,
    }
}

/// Executes reads; returns their outputs and the object's version.
pub(crate) async fn read(
    io: IoCtx,
    oid: Vec<u8>,
    ops: Vec<(OsdOp, Form)>,
    flags: i32,
) -> Result<(Vec<Output>, u64), Failure> {
    if ops.is_empty() {
        return Ok((Vec::new(), 0));
    }
    let (ops, forms): (Vec<_>, Vec<_>) = ops.into_iter().unzip();
    let op = ops.into_iter().fold(ReadOp::new(), ReadOp::op);
    let outcome = io.reading_from(read_from(flags)).execute_read(oid, op).await?;
    if outcome.result < 0 {
        return Err(Failure::of_result(outcome.result));
    }
    let outputs = outcome.answers.into_iter().zip(forms).map(|(answer, form)| {
        if answer.result < 0 { Ok(Output::Data(Bytes::new())) } else { Output::of(answer, form) }
    });
    Ok((outputs.collect::<Result<_, _>>()?, outcome.version))
}
