"""Exceptions of operations on images."""

import errno as _errno
from typing import Dict, Optional, Type

from loligo import _native

ECANCELED = _errno.ECANCELED


class Error(Exception):
    """An operation failed."""


class OSError(Error):
    """An errno without a class of its own, and the base of those that have one; ``errno`` tells why."""

    def __init__(self, message: str, errno: Optional[int] = None) -> None:
        super().__init__(message)
        self.errno = errno

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.errno is None else "[errno {0}] {1}".format(self.errno, text)

    def __reduce__(self):
        return (type(self), (self.args[0], self.errno))


class PermissionError(OSError):
    """EPERM"""


class ObjectNotFound(OSError):
    """ENOENT: there is no such key, pool, or snapshot."""


class ImageNotFound(ObjectNotFound):
    """ENOENT: there is no such image."""


class ObjectExists(OSError):
    """EEXIST"""


class ImageExists(ObjectExists):
    """EEXIST: there is such an image."""


class IOError(OSError):
    """EIO"""


class NoSpace(OSError):
    """ENOSPC"""


class IncompleteWriteError(OSError):
    """Not all data were written."""


class InvalidArgument(OSError):
    """EINVAL"""


class OperationNotSupported(OSError):
    """EOPNOTSUPP"""


class LogicError(OSError):
    """A method was called in a way that makes no sense."""


class ReadOnlyImage(OSError):
    """EROFS: the image is open for reading."""


class ImageBusy(OSError):
    """EBUSY: the image is in use."""


class ImageHasSnapshots(OSError):
    """ENOTEMPTY"""


class FunctionNotSupported(OSError):
    """ENOSYS: this library does not do that."""


class ArgumentOutOfRange(OSError):
    """EDOM"""


class ConnectionShutdown(OSError):
    """ESHUTDOWN"""


class Timeout(OSError):
    """ETIMEDOUT"""


class DiskQuotaExceeded(OSError):
    """EDQUOT"""


class OperationCanceled(OSError):
    """ECANCELED"""


_CLASSES: Dict[int, Type[OSError]] = {
    _errno.EPERM: PermissionError,
    _errno.ENOENT: ImageNotFound,
    _errno.EIO: IOError,
    _errno.ENOSPC: NoSpace,
    _errno.EEXIST: ImageExists,
    _errno.EINVAL: InvalidArgument,
    _errno.EROFS: ReadOnlyImage,
    _errno.EBUSY: ImageBusy,
    _errno.ENOTEMPTY: ImageHasSnapshots,
    _errno.ENOSYS: FunctionNotSupported,
    _errno.EDOM: ArgumentOutOfRange,
    _errno.ESHUTDOWN: ConnectionShutdown,
    _errno.ETIMEDOUT: Timeout,
    _errno.EDQUOT: DiskQuotaExceeded,
    _errno.EOPNOTSUPP: OperationNotSupported,
    _errno.ECANCELED: OperationCanceled,
}


def make_error(errno: int, message: str) -> OSError:
    """Makes the exception of an errno."""
    return _CLASSES.get(errno, OSError)(message, errno)


def not_here(what: str) -> FunctionNotSupported:
    """Makes the exception of a function that this library does not have."""
    return FunctionNotSupported("this library does not {0}".format(what), _errno.ENOSYS)


_native.set_errors("rbd", make_error)
