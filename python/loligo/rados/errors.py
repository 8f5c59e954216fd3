"""Exceptions of operations on clusters, pools and objects."""

import errno as _errno
from typing import Dict, Optional, Type

from loligo import _native

#: The largest errno; what lies beyond tells where a comparison of data found a difference.
MAX_ERRNO = 4095


class Error(Exception):
    """An operation failed; ``errno`` tells why."""

    def __init__(self, message: str, errno: Optional[int] = None) -> None:
        super().__init__(message)
        self.errno = errno

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.errno is None else "[errno {0}] {1}".format(self.errno, text)

    def __reduce__(self):
        return (type(self), (self.args[0], self.errno))


class InvalidArgumentError(Error):
    """EINVAL"""


class ExtendMismatch(Error):
    """A comparison of data found a difference, at ``offset``."""

    def __init__(self, message: str, errno: int, offset: int) -> None:
        super().__init__(message, errno)
        self.offset = offset

    def __reduce__(self):
        return (type(self), (self.args[0], self.errno, self.offset))


class OSError(Error):
    """An errno without a class of its own, and the base of those that are of the system."""


class InterruptedOrTimeoutError(OSError):
    """EINTR"""


class PermissionError(OSError):
    """EPERM"""


class PermissionDeniedError(OSError):
    """EACCES"""


class ObjectNotFound(OSError):
    """ENOENT: there is no such object, pool, snapshot, or key."""


class NoData(OSError):
    """ENODATA: there is no such attribute."""


class ObjectExists(OSError):
    """EEXIST"""


class ObjectBusy(OSError):
    """EBUSY"""


class IOError(OSError):
    """EIO"""


class NoSpace(OSError):
    """ENOSPC"""


class NotConnected(OSError):
    """ENOTCONN"""


class ConnectionShutdown(OSError):
    """ESHUTDOWN: the client was ended, or is on the blocklist."""


class TimedOut(OSError):
    """ETIMEDOUT"""


class InProgress(Error):
    """EINPROGRESS"""


class IsConnected(Error):
    """EISCONN"""


class RadosStateError(Error):
    """The client is not in the state that a method needs."""


class IoctxStateError(Error):
    """The pool was closed."""


class ObjectStateError(Error):
    """The object was removed."""


class LogicError(Error):
    """A method was called in a way that makes no sense."""


_CLASSES: Dict[int, Type[Error]] = {
    _errno.EPERM: PermissionError,
    _errno.ENOENT: ObjectNotFound,
    _errno.EIO: IOError,
    _errno.ENOSPC: NoSpace,
    _errno.EEXIST: ObjectExists,
    _errno.EBUSY: ObjectBusy,
    _errno.ENODATA: NoData,
    _errno.EINTR: InterruptedOrTimeoutError,
    _errno.ETIMEDOUT: TimedOut,
    _errno.EACCES: PermissionDeniedError,
    _errno.EINPROGRESS: InProgress,
    _errno.EISCONN: IsConnected,
    _errno.EINVAL: InvalidArgumentError,
    _errno.ENOTCONN: NotConnected,
    _errno.ESHUTDOWN: ConnectionShutdown,
}


def make_error(errno: int, message: str) -> Error:
    """Makes the exception of an errno."""
    if errno > MAX_ERRNO:
        return ExtendMismatch(message, errno, errno - MAX_ERRNO)
    return _CLASSES.get(errno, OSError)(message, errno)


_native.set_errors("rados", make_error)
