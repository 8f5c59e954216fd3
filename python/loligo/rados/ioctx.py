"""Objects of a pool."""

import datetime
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

from loligo.rados import _names
from loligo.rados.completion import Completion
from loligo.rados.constants import LIBRADOS_ALL_NSPACES, LIBRADOS_OPERATION_NOFLAG
from loligo.rados.errors import Error, IoctxStateError, NotConnected, ObjectNotFound, TimedOut
from loligo.rados.objects import ObjectIterator, Snap, SnapIterator, XattrIterator, _shown
from loligo.rados.ops import OmapIterator, ReadOp, WriteOp

if TYPE_CHECKING:
    from loligo.rados.cluster import Rados

Callback = Optional[Callable[..., Any]]
OmapPairs = Tuple[OmapIterator[Any], int]


def _local(seconds: float) -> time.struct_time:
    return time.localtime(seconds)


class Watch:
    """A watch of an object."""

    def __init__(
        self,
        ioctx: "Ioctx",
        oid: str,
        callback: Callable[[int, int, int, bytes], Any],
        error_callback: Optional[Callable[[int, int], Any]],
        timeout: Optional[int],
    ) -> None:
        self._watch = ioctx._io.watch(oid, timeout or 0, callback, error_callback)

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, type_: Any, value: Any, traceback: Any) -> None:
        self.close()

    def get_id(self) -> int:
        """Returns the number that callbacks are given."""
        return self._watch.cookie

    def check(self) -> datetime.timedelta:
        """Returns how long ago the watch was confirmed."""
        return datetime.timedelta(seconds=self._watch.check())

    def close(self) -> None:
        """Ends the watch. One that has ended already is left alone."""
        try:
            self._watch.close()
        except (NotConnected, ObjectNotFound):
            pass


class Ioctx:
    """Objects of a pool, in one namespace at a time."""

    def __init__(self, rados: "Rados", name: str, io: Any) -> None:
        self.rados = rados
        self.name = name
        self.state = "open"
        self.nspace = ""
        self.locator_key = ""
        self._io = io
        self._writes: Set[Any] = set()

    def __enter__(self) -> "Ioctx":
        return self

    def __exit__(self, type_: Any, value: Any, traceback: Any) -> None:
        self.close()

    def require_ioctx_open(self) -> None:
        """Fails if it was closed."""
        if self.state != "open":
            raise IoctxStateError("The pool is {0}".format(self.state))

    def _open(self) -> Any:
        self.require_ioctx_open()
        return self._io

    def close(self) -> None:
        """Closes it. Operations under way go on."""
        self.state = "closed"

    def dup(self) -> "Ioctx":
        """Returns another one of the same pool, with the same settings."""
        other = Ioctx(self.rados, self.name, self._open())
        other.nspace, other.locator_key = self.nspace, self.locator_key
        return other

    # Where and how.

    def set_locator_key(self, loc_key: str) -> None:
        """Objects are placed by this key from now on; an empty one is their names."""
        self.locator_key = _names.text(loc_key, "loc_key")
        self._io = self._open().with_locator(self.locator_key)

    def get_locator_key(self) -> str:
        """Returns the key that objects are placed by."""
        return self.locator_key

    def set_namespace(self, nspace: Optional[str]) -> None:
        """Objects are named in this namespace from now on; an empty one is the default."""
        self.nspace = "" if nspace is None else _names.text(nspace, "nspace")
        self._io = self._open().with_namespace(self.nspace)

    def get_namespace(self) -> str:
        """Returns the namespace."""
        return self.nspace

    def set_read(self, snap_id: int) -> None:
        """Reads see this snapshot from now on; ``LIBRADOS_SNAP_HEAD`` is no snapshot."""
        self._io = self._open().at_snapshot(_names.number(snap_id, "snap_id"))

    def set_osdmap_full_try(self) -> None:
        """Writes to a full pool fail from now on instead of waiting."""
        self._io = self._open().with_full_try(True)

    def unset_osdmap_full_try(self) -> None:
        """Writes to a full pool wait again."""
        self._io = self._open().with_full_try(False)

    def get_pool_id(self) -> int:
        """Returns the pool's id."""
        return self._open().id

    def get_pool_name(self) -> str:
        """Returns the pool's name."""
        return self.name

    def get_last_version(self) -> int:
        """Returns the version of the object that the last operation found."""
        return self._open().last_version

    def alignment(self) -> Optional[int]:
        """Returns the size whose multiples appends must have, ``None`` if any will do."""
        return self._open().alignment

    def get_stats(self) -> Dict[str, int]:
        """Returns the pool's statistics."""
        self.require_ioctx_open()
        stats = self.rados._client.pool_stats(self.name)
        return dict(stats, num_kb=-(-stats["num_bytes"] // 1024))

    # Data.

    def write(self, key: str, data: bytes, offset: int = 0) -> int:
        """Writes data; returns 0."""
        self._open().write(key, offset, data)
        return 0

    def write_full(self, key: str, data: bytes) -> int:
        """Replaces an object's data; returns 0."""
        self._open().write_full(key, data)
        return 0

    def writesame(self, key: str, data: bytes, write_len: int, offset: int = 0) -> None:
        """Writes a pattern over ``write_len`` bytes."""
        self._open().writesame(key, offset, write_len, data)

    def append(self, key: str, data: bytes) -> int:
        """Appends data; returns 0."""
        self._open().append(key, data)
        return 0

    def read(self, key: str, length: int = 8192, offset: int = 0) -> bytes:
        """Reads data; less at the object's end."""
        if length == 0:
            # A length of 0 is all on the wire.
            self._open().stat(key)
            return b""
        return self._open().read(key, offset, length)

    def execute(self, key: str, cls: str, method: str, data: bytes, length: int = 8192) -> Tuple[int, bytes]:
        """Calls a method of an object class; returns the length of its output, and the output."""
        output = self._open().execute(key, cls, method, data)[:length]
        return len(output), output

    def remove_object(self, key: str) -> bool:
        """Removes an object."""
        self._open().remove(key)
        return True

    def trunc(self, key: str, size: int) -> int:
        """Sets an object's size; returns 0."""
        self._open().truncate(key, size)
        return 0

    def cmpext(self, key: str, cmp_buf: bytes, offset: int = 0) -> int:
        """Compares data with an object's; returns 0, or ``-MAX_ERRNO`` − n if byte n differs."""
        return self._open().cmpext(key, cmp_buf, offset)

    def stat(self, key: str) -> Tuple[int, time.struct_time]:
        """Returns size and time."""
        size, changed = self._open().stat(key)
        return size, _local(changed)

    # Attributes.

    def get_xattr(self, key: str, xattr_name: str) -> bytes:
        """Reads an attribute."""
        return self._open().xattr(key, xattr_name)

    def get_xattrs(self, oid: str) -> XattrIterator:
        """Reads all attributes."""
        self.require_ioctx_open()
        return XattrIterator(self, oid)

    def set_xattr(self, key: str, xattr_name: str, xattr_value: bytes) -> bool:
        """Sets an attribute."""
        self._open().set_xattr(key, xattr_name, _names.data(xattr_value, "xattr_value"))
        return True

    def rm_xattr(self, key: str, xattr_name: str) -> bool:
        """Removes an attribute."""
        self._open().rm_xattr(key, xattr_name)
        return True

    # Lists and snapshots.

    def _list(self) -> Any:
        """The pool's objects, of all namespaces if that is what is set."""
        return self._open().objects(self.nspace == LIBRADOS_ALL_NSPACES)

    def list_objects(self) -> ObjectIterator:
        """Lists the objects."""
        self.require_ioctx_open()
        return ObjectIterator(self)

    def list_snaps(self) -> SnapIterator:
        """Lists the snapshots of the pool."""
        self.require_ioctx_open()
        return SnapIterator(self)

    def create_snap(self, snap_name: str) -> None:
        """Takes a snapshot of the pool."""
        self._open().create_snap(snap_name)

    def remove_snap(self, snap_name: str) -> None:
        """Removes a snapshot of the pool."""
        self._open().remove_snap(snap_name)

    def lookup_snap(self, snap_name: str) -> Snap:
        """Finds a snapshot of the pool."""
        wanted = _names.text(snap_name, "snap_name")
        for snap_id, name, taken in self._open().snaps():
            if _shown(name) == wanted:
                return Snap(self, wanted, snap_id, taken)
        raise ObjectNotFound("cannot find snapshot '{0}'".format(wanted), 2)

    def snap_rollback(self, oid: str, snap_name: str) -> None:
        """Restores an object's state at a snapshot of the pool."""
        self._open().rollback(oid, self.lookup_snap(snap_name).snap_id)

    def create_self_managed_snap(self) -> int:
        """Creates a snapshot that the program manages; returns its id."""
        return self._open().create_managed_snap()

    def remove_self_managed_snap(self, snap_id: int) -> None:
        """Removes a snapshot that the program manages."""
        self._open().remove_managed_snap(snap_id)

    def set_self_managed_snap_write(self, snaps: Sequence[Union[int, str]]) -> None:
        """Writes keep the state for these snapshots from now on."""
        newest_first = sorted((int(snap) for snap in snaps), reverse=True)
        newest = newest_first[0] if newest_first else 0
        self._io = self._open().with_snapshots(newest, newest_first)

    def rollback_self_managed_snap(self, oid: str, snap_id: int) -> None:
        """Restores an object's state at a snapshot that the program manages."""
        self._open().rollback(oid, snap_id)

    # Requests of several operations, and omaps.

    def create_write_op(self) -> WriteOp:
        """Returns a request without changes."""
        return WriteOp()

    def create_read_op(self) -> ReadOp:
        """Returns a request without reads."""
        return ReadOp()

    def release_write_op(self, write_op: WriteOp) -> None:
        """Forgets a request."""
        write_op.release()

    def release_read_op(self, read_op: ReadOp) -> None:
        """Forgets a request."""
        read_op.release()

    def set_omap(
        self, write_op: WriteOp, keys: Sequence[_names.Name], values: Sequence[Union[bytes, str]]
    ) -> None:
        """Sets values of the object's omap."""
        if len(keys) != len(values):
            raise Error("keys and values must have the same number of items")
        pairs = [(key, _names.data(value, "values")) for key, value in zip(keys, values)]
        write_op._bag.omap_set(pairs)

    def remove_omap_keys(self, write_op: WriteOp, keys: Sequence[_names.Name]) -> None:
        """Removes keys of the object's omap."""
        write_op._bag.omap_rm_keys(_names.names(keys, "keys"))

    def remove_omap_range2(self, write_op: WriteOp, key_begin: str, key_end: str) -> None:
        """Removes the keys from one to before another."""
        write_op._bag.omap_rm_range(key_begin, key_end)

    def clear_omap(self, write_op: WriteOp) -> None:
        """Removes all keys."""
        write_op._bag.omap_clear()

    def _added(self, read_op: ReadOp, key_type: type) -> OmapPairs:
        iterator: OmapIterator[Any] = OmapIterator(self, key_type)
        read_op._iterators.append((len(read_op._bag) - 1, iterator))
        return iterator, 0

    def get_omap_vals(
        self,
        read_op: ReadOp,
        start_after: _names.Name,
        filter_prefix: _names.Name,
        max_return: int,
        omap_key_type: type = str,
    ) -> OmapPairs:
        """Reads keys and values; the iterator has them when the request was executed."""
        read_op._bag.omap_vals(start_after, filter_prefix, max_return)
        return self._added(read_op, omap_key_type)

    def get_omap_keys(
        self, read_op: ReadOp, start_after: _names.Name, max_return: int, omap_key_type: type = str
    ) -> OmapPairs:
        """Reads keys; the iterator has them when the request was executed."""
        read_op._bag.omap_keys(start_after, max_return)
        return self._added(read_op, omap_key_type)

    def get_omap_vals_by_keys(
        self, read_op: ReadOp, keys: Sequence[_names.Name], omap_key_type: type = str
    ) -> OmapPairs:
        """Reads the values of these keys; the iterator has them when the request was executed."""
        read_op._bag.omap_vals_by_keys(_names.names(keys, "keys"))
        return self._added(read_op, omap_key_type)

    def operate_write_op(
        self, write_op: WriteOp, oid: str, mtime: int = 0, flags: int = LIBRADOS_OPERATION_NOFLAG
    ) -> None:
        """Executes a request, once; it is empty then."""
        self._open().operate(oid, write_op._bag, flags, mtime or None)

    def operate_read_op(self, read_op: ReadOp, oid: str, flag: int = LIBRADOS_OPERATION_NOFLAG) -> None:
        """Executes a request, once; it is empty then."""
        bag, iterators = read_op._take()
        outputs = self._open().operate_read(oid, bag, flag)
        for number, iterator in iterators:
            iterator._fill(outputs[number])

    # In the background.

    def _write_behind(self, completion: Completion) -> Callable[..., None]:
        """Counts a write for ``aio_flush``, until it is complete."""
        self._writes.add(completion._state)
        return completion._done()

    def operate_aio_write_op(
        self,
        write_op: WriteOp,
        oid: str,
        oncomplete: Callback = None,
        onsafe: Callback = None,
        mtime: int = 0,
        flags: int = LIBRADOS_OPERATION_NOFLAG,
    ) -> Completion:
        """Executes a request in the background."""
        io, completion = self._open(), Completion(self, oncomplete, onsafe)
        io.operate(oid, write_op._bag, flags, mtime or None, done=self._write_behind(completion))
        return completion

    def operate_aio_read_op(
        self,
        read_op: ReadOp,
        oid: str,
        oncomplete: Callback = None,
        onsafe: Callback = None,
        flag: int = LIBRADOS_OPERATION_NOFLAG,
    ) -> Completion:
        """Executes a request in the background."""
        bag, iterators = read_op._take()

        def give(outputs: Any, error: Optional[BaseException]) -> tuple:
            if error is None:
                for number, iterator in iterators:
                    iterator._fill(outputs[number])
            return ()

        io, completion = self._open(), Completion(self, oncomplete, onsafe, give)
        io.operate_read(oid, bag, flag, done=completion._done())
        return completion

    def aio_stat(
        self,
        object_name: str,
        oncomplete: Callable[[Completion, Optional[int], Optional[time.struct_time]], Any],
    ) -> Completion:
        """Finds size and time: ``oncomplete(completion, size, time)``."""

        def give(value: Any, error: Optional[BaseException]) -> tuple:
            return (None, None) if error else (value[0], _local(value[1]))

        io, completion = self._open(), Completion(self, oncomplete, give=give)
        io.stat(object_name, done=completion._done())
        return completion

    def aio_write(
        self,
        object_name: str,
        to_write: bytes,
        offset: int = 0,
        oncomplete: Callback = None,
        onsafe: Callback = None,
    ) -> Completion:
        """Writes data in the background: ``oncomplete(completion)``."""
        io, completion = self._open(), Completion(self, oncomplete, onsafe)
        io.write(object_name, offset, to_write, done=self._write_behind(completion))
        return completion

    def aio_write_full(
        self, object_name: str, to_write: bytes, oncomplete: Callback = None, onsafe: Callback = None
    ) -> Completion:
        """Replaces an object's data in the background."""
        io, completion = self._open(), Completion(self, oncomplete, onsafe)
        io.write_full(object_name, to_write, done=self._write_behind(completion))
        return completion

    def aio_writesame(
        self, object_name: str, to_write: bytes, write_len: int, offset: int = 0, oncomplete: Callback = None
    ) -> Completion:
        """Writes a pattern in the background."""
        io, completion = self._open(), Completion(self, oncomplete)
        io.writesame(object_name, offset, write_len, to_write, done=self._write_behind(completion))
        return completion

    def aio_append(
        self, object_name: str, to_append: bytes, oncomplete: Callback = None, onsafe: Callback = None
    ) -> Completion:
        """Appends data in the background."""
        io, completion = self._open(), Completion(self, oncomplete, onsafe)
        io.append(object_name, to_append, done=self._write_behind(completion))
        return completion

    def aio_remove(
        self, object_name: str, oncomplete: Callback = None, onsafe: Callback = None
    ) -> Completion:
        """Removes an object in the background."""
        io, completion = self._open(), Completion(self, oncomplete, onsafe)
        io.remove(object_name, done=self._write_behind(completion))
        return completion

    def aio_flush(self) -> None:
        """Waits until the writes that have begun are safe."""
        self.require_ioctx_open()
        for write in list(self._writes):
            write.complete.wait()

    def aio_cmpext(
        self, object_name: str, cmp_buf: bytes, offset: int = 0, oncomplete: Callback = None
    ) -> Completion:
        """Compares data in the background; the result is the completion's value."""
        io, completion = self._open(), Completion(self, oncomplete, count=int)
        io.cmpext(object_name, cmp_buf, offset, done=completion._done())
        return completion

    def aio_read(
        self, object_name: str, length: int, offset: int, oncomplete: Callback = None
    ) -> Completion:
        """Reads data in the background: ``oncomplete(completion, data)``; ``None`` if it failed."""

        def give(data: Any, error: Optional[BaseException]) -> tuple:
            return (None if error else data[:length],)

        io, completion = self._open(), Completion(self, oncomplete, give=give, count=len)
        io.read(object_name, offset, length, done=completion._done())
        return completion

    def aio_execute(
        self,
        object_name: str,
        cls: str,
        method: str,
        data: bytes,
        length: int = 8192,
        oncomplete: Callback = None,
        onsafe: Callback = None,
    ) -> Completion:
        """Calls a method of an object class in the background: ``oncomplete(completion, output)``."""

        def give(output: Any, error: Optional[BaseException]) -> tuple:
            return (None if error else output[:length],)

        io, completion = self._open(), Completion(self, oncomplete, onsafe, give, len)
        io.execute(object_name, cls, method, data, done=completion._done())
        return completion

    def aio_setxattr(
        self, object_name: str, xattr_name: str, xattr_value: bytes, oncomplete: Callback = None
    ) -> Completion:
        """Sets an attribute in the background."""
        io, completion = self._open(), Completion(self, oncomplete)
        io.set_xattr(object_name, xattr_name, xattr_value, done=self._write_behind(completion))
        return completion

    def aio_rmxattr(self, object_name: str, xattr_name: str, oncomplete: Callback = None) -> Completion:
        """Removes an attribute in the background."""
        io, completion = self._open(), Completion(self, oncomplete)
        io.rm_xattr(object_name, xattr_name, done=self._write_behind(completion))
        return completion

    # Watches.

    def watch(
        self,
        obj: str,
        callback: Callable[[int, int, int, bytes], Any],
        error_callback: Optional[Callable[[int, int], Any]] = None,
        timeout: Optional[int] = None,
    ) -> Watch:
        """Watches an object: ``callback(notify_id, notifier_id, watch_id, data)`` returns the answer, and
        ``error_callback(watch_id, error)`` is told when the watch breaks."""
        self.require_ioctx_open()
        return Watch(self, obj, callback, error_callback, timeout)

    def notify(self, obj: str, msg: str = "", timeout_ms: int = 5000) -> bool:
        """Notifies an object's watchers and waits for their answers."""
        _, missing = self._open().notify(obj, _names.data(msg, "msg"), timeout_ms // 1000)
        if missing:
            raise TimedOut("{0} watchers of object '{1}' did not answer".format(len(missing), obj), 110)
        return True

    def aio_notify(
        self,
        obj: str,
        oncomplete: Callable[[Completion, int, Optional[List], Optional[List]], Any],
        msg: str = "",
        timeout_ms: int = 5000,
    ) -> Completion:
        """Notifies watchers in the background: ``oncomplete(completion, result, answers, missing)``."""

        def give(value: Any, error: Optional[BaseException]) -> tuple:
            if error is not None:
                return -(getattr(error, "errno", None) or 5), None, None
            answers, missing = value
            return (-110 if missing else 0), answers, missing

        def count(value: Any) -> int:
            return -110 if value[1] else 0

        io, completion = self._open(), Completion(self, oncomplete, give=give, count=count)
        io.notify(obj, _names.data(msg, "msg"), timeout_ms // 1000, done=completion._done())
        return completion

    # Locks.

    def lock_exclusive(
        self,
        key: str,
        name: str,
        cookie: str,
        desc: str = "",
        duration: Optional[int] = None,
        flags: int = 0,
    ) -> None:
        """Locks an object for this client alone."""
        self._lock(key, name, cookie, None, desc, duration, flags)

    def lock_shared(
        self,
        key: str,
        name: str,
        cookie: str,
        tag: str,
        desc: str = "",
        duration: Optional[int] = None,
        flags: int = 0,
    ) -> None:
        """Locks an object together with others that give the same tag."""
        self._lock(key, name, cookie, tag, desc, duration, flags)

    def _lock(
        self,
        key: str,
        name: str,
        cookie: str,
        tag: Optional[str],
        desc: str,
        duration: Optional[int],
        flags: int,
    ) -> None:
        renew, must = bool(flags & 1), bool(flags & 2)
        shared, seconds = tag is not None, None if duration is None else float(duration)
        self._open().lock(key, name, cookie, shared, tag or "", desc, seconds, renew, must)

    def unlock(self, key: str, name: str, cookie: str) -> None:
        """Gives a lock back."""
        self._open().unlock(key, name, cookie)

    # Applications.

    def application_enable(self, app_name: str, force: bool = False) -> None:
        """Says that an application uses the pool."""
        self._open().application_enable(app_name, force)

    def application_list(self) -> List[str]:
        """Lists the applications that use the pool."""
        return self._open().applications()

    def application_metadata_get(self, app_name: str, key: str) -> str:
        """Returns the value of an application's key."""
        found = dict(self._open().application_metadata(app_name))
        if key not in found:
            raise ObjectNotFound("application '{0}' has no key '{1}'".format(app_name, key), 2)
        return found[key]

    def application_metadata_set(self, app_name: str, key: str, value: str) -> None:
        """Sets an application's key."""
        self._open().set_application_metadata(app_name, key, value)

    def application_metadata_remove(self, app_name: str, key: str) -> None:
        """Removes an application's key."""
        self._open().remove_application_metadata(app_name, key)

    def application_metadata_list(self, app_name: str) -> List[Tuple[str, str]]:
        """Lists an application's keys and values."""
        return self._open().application_metadata(app_name)


__all__ = ["Ioctx", "Watch"]
