"""Requests of several operations on one object."""

from typing import Any, Generic, Iterator, List, Optional, Tuple, TypeVar, Union

from loligo import _native
from loligo.rados import _names
from loligo.rados.constants import LIBRADOS_CMPXATTR_OP_EQ, LIBRADOS_OPERATION_NOFLAG


class WriteOp:
    """Changes of one object, which are done all or none. Executed by ``Ioctx.operate_write_op``."""

    def __init__(self) -> None:
        self._bag = _native.WriteBag()

    def create(self) -> "WriteOp":
        """Begins anew."""
        self._bag = _native.WriteBag()
        return self

    def release(self) -> None:
        """Forgets the operations."""
        self._bag = _native.WriteBag()

    def new(self, exclusive: Optional[int] = None) -> None:
        """Creates the object; with ``LIBRADOS_CREATE_EXCLUSIVE`` it must not exist."""
        self._bag.create(bool(exclusive))

    def remove(self) -> None:
        """Removes the object."""
        self._bag.remove()

    def set_flags(self, flags: int = LIBRADOS_OPERATION_NOFLAG) -> None:
        """Adds flags to the operation added last."""
        self._bag.set_flags(flags)

    def set_xattr(self, xattr_name: str, xattr_value: bytes) -> None:
        """Sets an attribute."""
        self._bag.set_xattr(xattr_name, _names.data(xattr_value, "xattr_value"))

    def rm_xattr(self, xattr_name: str) -> None:
        """Removes an attribute."""
        self._bag.rm_xattr(xattr_name)

    def append(self, to_write: bytes) -> None:
        """Appends data."""
        self._bag.append(to_write)

    def write_full(self, to_write: bytes) -> None:
        """Replaces the object's data."""
        self._bag.write_full(to_write)

    def write(self, to_write: bytes, offset: int = 0) -> None:
        """Writes data."""
        self._bag.write(to_write, offset)

    def assert_version(self, version: int) -> None:
        """The object must have this version."""
        self._bag.assert_version(version)

    def zero(self, offset: int, length: int) -> None:
        """Zeroes a range."""
        self._bag.zero(offset, length)

    def truncate(self, offset: int) -> None:
        """Sets the object's size."""
        self._bag.truncate(offset)

    def execute(self, cls: str, method: str, data: bytes) -> None:
        """Calls a method of an object class."""
        self._bag.execute(cls, method, data)

    def writesame(self, to_write: bytes, write_len: int, offset: int = 0) -> None:
        """Writes a pattern over ``write_len`` bytes."""
        self._bag.writesame(to_write, write_len, offset)

    def cmpext(self, cmp_buf: bytes, offset: int = 0) -> None:
        """The object must have this data."""
        self._bag.cmpext(cmp_buf, offset)

    def omap_cmp(self, key: str, val: str, cmp_op: int = LIBRADOS_CMPXATTR_OP_EQ) -> None:
        """The key's value must compare so."""
        self._bag.omap_cmp(key, cmp_op, _names.data(val, "val"))


class ReadOp:
    """Reads of one state of one object. Executed by ``Ioctx.operate_read_op``."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._bag = _native.ReadBag()
        self._iterators: List[Tuple[int, "OmapIterator[Any]"]] = []

    def create(self) -> "ReadOp":
        """Begins anew."""
        self._begin()
        return self

    def release(self) -> None:
        """Forgets the operations."""
        self._begin()

    def cmpext(self, cmp_buf: bytes, offset: int = 0) -> None:
        """The object must have this data."""
        self._bag.cmpext(cmp_buf, offset)

    def set_flags(self, flags: int = LIBRADOS_OPERATION_NOFLAG) -> None:
        """Adds flags to the operation added last."""
        self._bag.set_flags(flags)

    def _take(self) -> Tuple[Any, List[Tuple[int, "OmapIterator[Any]"]]]:
        """Returns what is to be executed. It is executed once."""
        bag, iterators = self._bag, self._iterators
        self._begin()
        return bag, iterators


class OpCtx:
    """Makes an operation a context manager."""

    def __enter__(self) -> Any:
        return self.create()  # type: ignore[attr-defined]

    def __exit__(self, type: Any, msg: Any, traceback: Any) -> None:
        self.release()  # type: ignore[attr-defined]


class WriteOpCtx(WriteOp, OpCtx):
    """``with WriteOpCtx() as op:``"""


class ReadOpCtx(ReadOp, OpCtx):
    """``with ReadOpCtx() as op:``"""


Key = TypeVar("Key", str, bytes)


class OmapIterator(Generic[Key]):
    """Keys and values, which are there when the read was executed."""

    def __init__(self, ioctx: Any, key_type: type) -> None:
        self.ioctx = ioctx
        self._key_type = key_type
        self._pairs: Iterator[Tuple[Union[str, bytes], Optional[bytes]]] = iter(())

    def _fill(self, output: Any) -> None:
        if isinstance(output, tuple):
            output = output[0]
        pairs = [pair if isinstance(pair, tuple) else (pair, None) for pair in output]
        if self._key_type is str:
            pairs = [(key.decode("utf-8"), value) for key, value in pairs]
        self._pairs = iter(pairs)

    def __iter__(self) -> "OmapIterator[Key]":
        return self

    def __next__(self) -> Tuple[Key, Optional[bytes]]:
        return next(self._pairs)  # type: ignore[return-value]
