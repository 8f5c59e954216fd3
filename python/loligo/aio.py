"""Objects and images for asyncio: what is a method of ``loligo.rados`` or ``loligo.rbd`` is awaited here.

::

    async with loligo.aio.connect(conffile="ceph.conf") as cluster:
        pool = await cluster.open_ioctx("p")
        await pool.write_full("greeting", b"hello")
        assert await pool.read("greeting") == b"hello"
        async for name in pool.list_objects():
            print(name)

An operation begins when its method is called, not when it is awaited: operations on one object are done in
the order of the calls. A task that is cancelled waits no longer; the operation goes on.
"""

import asyncio
import collections
import inspect
import weakref
from typing import (
    Any,
    AsyncIterator,
    Awaitable,
    Callable,
    Deque,
    Dict,
    Generator,
    List,
    Optional,
    Sequence,
    Tuple,
)

from loligo import _native, rados
from loligo.rados import _names
from loligo.rados.objects import _shown
from loligo.rados.ops import ReadOp, WriteOp
from loligo.rbd.image import new_options

__all__ = ["Cluster", "Image", "Ioctx", "Watch", "connect"]


class _Landing:
    """Results that arrive on a thread of the library, for one loop. All that have arrived land at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._arrived: Deque[Tuple["asyncio.Future[Any]", Any, Any]] = collections.deque()
        self._is_called = False

    def arrive(self, future: "asyncio.Future[Any]", value: Any, error: Any) -> None:
        self._arrived.append((future, value, error))
        loop = self._loop()
        if self._is_called or loop is None:
            return
        self._is_called = True
        try:
            loop.call_soon_threadsafe(self._land)
        except RuntimeError:
            # The loop was closed: nothing waits any more.
            self._arrived.clear()

    def _land(self) -> None:
        # What arrives from now on calls again.
        self._is_called = False
        while self._arrived:
            future, value, error = self._arrived.popleft()
            if future.done():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)


_landings: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Landing]" = weakref.WeakKeyDictionary()


def _start(function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
    """Starts an operation of the library."""
    loop = asyncio.get_running_loop()
    landing = _landings.get(loop)
    if landing is None:
        landing = _landings[loop] = _Landing(loop)
    future = loop.create_future()
    arrive = landing.arrive
    function(*arguments, done=lambda value, error: arrive(future, value, error))
    return future


class _Connecting:
    """``await`` it, or use it with ``async with``."""

    def __init__(self, arguments: Dict[str, Any]) -> None:
        self._arguments = arguments
        self._cluster: Optional[Cluster] = None

    async def _connect(self) -> "Cluster":
        client = rados.Rados(**self._arguments)
        await _start(client._client.connect)
        client.state = "connected"
        return Cluster(client)

    def __await__(self) -> Generator[Any, None, "Cluster"]:
        return self._connect().__await__()

    async def __aenter__(self) -> "Cluster":
        self._cluster = await self._connect()
        return self._cluster

    async def __aexit__(self, type_: Any, value: Any, traceback: Any) -> None:
        if self._cluster is not None:
            await self._cluster.shutdown()


def connect(conffile: Any = "", **arguments: Any) -> _Connecting:
    """Connects to a cluster. The arguments are those of ``loligo.rados.Rados``; by default the usual
    configuration files are read."""
    return _Connecting(dict(arguments, conffile=conffile))


class Cluster:
    """A connected client. ``rados`` is the blocking form of the same client."""

    def __init__(self, client: rados.Rados) -> None:
        self.rados = client

    async def shutdown(self) -> None:
        """Ends the client. Operations under way fail."""
        await _start(self.rados._client.shutdown)
        self.rados.state = "shutdown"

    def get_fsid(self) -> str:
        """Returns the cluster's id."""
        return self.rados.get_fsid()

    def list_pools(self) -> List[str]:
        """Lists the pools."""
        return self.rados.list_pools()

    async def create_pool(self, pool_name: str) -> None:
        """Creates a pool."""
        await _start(self.rados._connected().create_pool, pool_name)

    async def delete_pool(self, pool_name: str) -> None:
        """Removes a pool and all its objects."""
        await _start(self.rados._connected().delete_pool, pool_name)

    async def pool_lookup(self, pool_name: str) -> int:
        """Returns the id of a pool."""
        return await _start(self.rados._connected().pool_id, pool_name)

    async def open_ioctx(self, ioctx_name: str) -> "Ioctx":
        """Opens a pool."""
        io = await _start(self.rados._connected().open, ioctx_name)
        return Ioctx(rados.Ioctx(self.rados, ioctx_name, io))

    async def get_cluster_stats(self) -> Dict[str, int]:
        """Returns the cluster's space, in KiB, and the number of objects."""
        found = await _start(self.rados._connected().statfs)
        return dict(zip(("kb", "kb_used", "kb_avail", "num_objects"), found))

    async def mon_command(self, cmd: str, inbuf: bytes = b"") -> Tuple[int, bytes, str]:
        """Sends the monitors a command in JSON; returns result, output and status text."""
        return await _start(self.rados._connected().command, "mon", cmd, inbuf)

    async def mgr_command(self, cmd: str, inbuf: bytes = b"") -> Tuple[int, bytes, str]:
        """Sends the active manager a command in JSON; returns result, output and status text."""
        return await _start(self.rados._connected().command, "mgr", cmd, inbuf)

    async def osd_command(self, osdid: int, cmd: str, inbuf: bytes = b"") -> Tuple[int, bytes, str]:
        """Sends an OSD a command in JSON; returns result, output and status text."""
        return await _start(self.rados._connected().command, "osd.{0}".format(osdid), cmd, inbuf)


class Watch:
    """A watch of an object."""

    def __init__(self, watch: Any) -> None:
        self._watch = watch

    async def __aenter__(self) -> "Watch":
        return self

    async def __aexit__(self, type_: Any, value: Any, traceback: Any) -> None:
        await self.close()

    def get_id(self) -> int:
        """Returns the number of the watch."""
        return self._watch.cookie

    async def close(self) -> None:
        """Ends the watch. One that has ended already is left alone."""
        try:
            await _start(self._watch.close)
        except (rados.NotConnected, rados.ObjectNotFound):
            pass


class Ioctx:
    """Objects of a pool. ``ioctx`` is the blocking form of the same pool, whose namespace and snapshot are
    those of this one."""

    def __init__(self, ioctx: rados.Ioctx) -> None:
        self.ioctx = ioctx

    @property
    def _io(self) -> Any:
        return self.ioctx._open()

    def set_namespace(self, nspace: str) -> None:
        """Objects are named in this namespace from now on."""
        self.ioctx.set_namespace(nspace)

    def set_locator_key(self, loc_key: str) -> None:
        """Objects are placed by this key from now on."""
        self.ioctx.set_locator_key(loc_key)

    def set_read(self, snap_id: int) -> None:
        """Reads see this snapshot from now on."""
        self.ioctx.set_read(snap_id)

    def close(self) -> None:
        """Closes it. Operations under way go on."""
        self.ioctx.close()

    # Data.

    def read(self, key: str, length: int = 8192, offset: int = 0) -> Awaitable[bytes]:
        """Reads data; less at the object's end. A length of 0 is all."""
        return _start(self._io.read, key, offset, length)

    def write(self, key: str, data: bytes, offset: int = 0) -> Awaitable[None]:
        """Writes data."""
        return _start(self._io.write, key, offset, data)

    def write_full(self, key: str, data: bytes) -> Awaitable[None]:
        """Replaces an object's data."""
        return _start(self._io.write_full, key, data)

    def append(self, key: str, data: bytes) -> Awaitable[None]:
        """Appends data."""
        return _start(self._io.append, key, data)

    def writesame(self, key: str, data: bytes, write_len: int, offset: int = 0) -> Awaitable[None]:
        """Writes a pattern over ``write_len`` bytes."""
        return _start(self._io.writesame, key, offset, write_len, data)

    def remove_object(self, key: str) -> Awaitable[None]:
        """Removes an object."""
        return _start(self._io.remove, key)

    def trunc(self, key: str, size: int) -> Awaitable[None]:
        """Sets an object's size."""
        return _start(self._io.truncate, key, size)

    def cmpext(self, key: str, cmp_buf: bytes, offset: int = 0) -> Awaitable[int]:
        """Compares data with an object's; returns 0, or ``-MAX_ERRNO`` − n if byte n differs."""
        return _start(self._io.cmpext, key, cmp_buf, offset)

    def stat(self, key: str) -> Awaitable[Tuple[int, float]]:
        """Returns the size, and the seconds since 1970 when the object was changed."""
        return _start(self._io.stat, key)

    def execute(self, key: str, cls: str, method: str, data: bytes) -> Awaitable[bytes]:
        """Calls a method of an object class; returns its output."""
        return _start(self._io.execute, key, cls, method, data)

    # Attributes and omaps.

    def get_xattr(self, key: str, xattr_name: str) -> Awaitable[bytes]:
        """Reads an attribute."""
        return _start(self._io.xattr, key, xattr_name)

    async def get_xattrs(self, oid: str) -> Dict[str, bytes]:
        """Reads all attributes."""
        return {_shown(name): value for name, value in await _start(self._io.xattrs, oid)}

    def set_xattr(self, key: str, xattr_name: str, xattr_value: bytes) -> Awaitable[None]:
        """Sets an attribute."""
        return _start(self._io.set_xattr, key, xattr_name, xattr_value)

    def rm_xattr(self, key: str, xattr_name: str) -> Awaitable[None]:
        """Removes an attribute."""
        return _start(self._io.rm_xattr, key, xattr_name)

    async def get_omap(self, key: str, prefix: str = "") -> Dict[str, bytes]:
        """Reads all keys, or those with a prefix, and their values."""
        found: Dict[str, bytes] = {}
        after = b""
        while True:
            bag = _native.ReadBag()
            bag.omap_vals(after, prefix, 1024)
            ((pairs, more),) = await _start(self._io.operate_read, key, bag)
            found.update((_shown(name), value) for name, value in pairs)
            if not more or not pairs:
                return found
            after = pairs[-1][0]

    def set_omap(self, key: str, values: Dict[str, bytes]) -> Awaitable[None]:
        """Sets keys."""
        bag = _native.WriteBag()
        bag.omap_set([(name, _names.data(value, "values")) for name, value in values.items()])
        return _start(self._io.operate, key, bag)

    def remove_omap_keys(self, key: str, keys: Sequence[str]) -> Awaitable[None]:
        """Removes keys."""
        bag = _native.WriteBag()
        bag.omap_rm_keys(list(keys))
        return _start(self._io.operate, key, bag)

    def operate_write_op(
        self, write_op: WriteOp, oid: str, mtime: int = 0, flags: int = 0
    ) -> Awaitable[None]:
        """Executes a request, once; it is empty then."""
        return _start(self._io.operate, oid, write_op._bag, flags, mtime or None)

    async def operate_read_op(self, read_op: ReadOp, oid: str, flag: int = 0) -> None:
        """Executes a request, once; it is empty then. Its iterators have what was read."""
        bag, iterators = read_op._take()
        outputs = await _start(self._io.operate_read, oid, bag, flag)
        for number, iterator in iterators:
            iterator._fill(outputs[number])

    # Lists, snapshots, locks.

    async def list_objects(self) -> AsyncIterator[str]:
        """Lists the names of the objects."""
        found = self.ioctx._list()
        while True:
            batch = await _start(found.next_batch)
            if not batch:
                return
            for name, _, _ in batch:
                yield _shown(name)

    def create_snap(self, snap_name: str) -> Awaitable[None]:
        """Takes a snapshot of the pool."""
        return _start(self._io.create_snap, snap_name)

    def remove_snap(self, snap_name: str) -> Awaitable[None]:
        """Removes a snapshot of the pool."""
        return _start(self._io.remove_snap, snap_name)

    def snap_rollback(self, oid: str, snap_name: str) -> Awaitable[None]:
        """Restores an object's state at a snapshot of the pool."""
        return _start(self._io.rollback, oid, self.ioctx.lookup_snap(snap_name).snap_id)

    def lock_exclusive(
        self, key: str, name: str, cookie: str, desc: str = "", duration: Optional[float] = None
    ) -> Awaitable[None]:
        """Locks an object for this client alone."""
        return _start(self._io.lock, key, name, cookie, False, "", desc, duration, False, False)

    def lock_shared(
        self, key: str, name: str, cookie: str, tag: str, desc: str = "", duration: Optional[float] = None
    ) -> Awaitable[None]:
        """Locks an object together with others that give the same tag."""
        return _start(self._io.lock, key, name, cookie, True, tag, desc, duration, False, False)

    def unlock(self, key: str, name: str, cookie: str) -> Awaitable[None]:
        """Gives a lock back."""
        return _start(self._io.unlock, key, name, cookie)

    # Watches.

    async def watch(self, obj: str, callback: Callable[[bytes], Any], timeout: int = 0) -> Watch:
        """Watches an object. ``callback(data)`` is called in the loop, and may be a coroutine function; the
        bytes that it returns are the answer."""
        loop = asyncio.get_running_loop()

        async def answer(data: bytes) -> Any:
            said = callback(data)
            return await said if inspect.isawaitable(said) else said

        def tell(notify_id: int, notifier_id: int, watch_id: int, data: bytes) -> Any:
            return asyncio.run_coroutine_threadsafe(answer(data), loop).result()

        return Watch(await _start(self._io.watch, obj, timeout, tell, None))

    async def notify(
        self, obj: str, msg: bytes = b"", timeout_ms: int = 5000
    ) -> List[Tuple[int, int, bytes]]:
        """Notifies an object's watchers; returns their answers: client, watch and data."""
        answers, missing = await _start(self._io.notify, obj, _names.data(msg, "msg"), timeout_ms // 1000)
        if missing:
            text = "{0} watchers of object '{1}' did not answer".format(len(missing), obj)
            raise rados.TimedOut(text, 110)
        return answers

    # Images.

    async def create_image(self, name: str, size: int, **options: Any) -> None:
        """Creates an image; the options are those of ``loligo.rbd.RBD.create``."""
        await _start(_native.create_image, self._io, name, size, new_options(**options))

    async def clone_image(
        self, name: str, snapshot: str, to: "Ioctx", clone: str, **options: Any
    ) -> None:
        """Clones a snapshot of an image; the options are those of ``loligo.rbd.RBD.clone``."""
        await _start(_native.clone_image, self._io, name, snapshot, to._io, clone, new_options(**options))

    async def list_images(self) -> List[str]:
        """Lists the names of the images."""
        return [name for name, _ in await _start(_native.list_images, self._io)]

    async def remove_image(self, name: str) -> None:
        """Removes an image."""
        await _start(_native.remove_image, self._io, name, None)

    async def rename_image(self, src: str, dest: str) -> None:
        """Renames an image."""
        await _start(_native.rename_image, self._io, src, dest)

    async def open_image(
        self, name: str, snapshot: Optional[str] = None, read_only: bool = False
    ) -> "Image":
        """Opens an image, or a snapshot of it."""
        return Image(await _start(_native.open_image, self._io, name, None, snapshot, read_only))


class Image:
    """An open image, or one of its snapshots."""

    def __init__(self, image: Any) -> None:
        self._image = image

    async def __aenter__(self) -> "Image":
        return self

    async def __aexit__(self, type_: Any, value: Any, traceback: Any) -> None:
        await self.close()

    def close(self) -> Awaitable[None]:
        """Closes the image when the operations under way have ended."""
        return _start(self._image.close)

    def stat(self) -> Awaitable[Dict[str, Any]]:
        """Returns what the image tells of itself."""
        return _start(self._image.info)

    async def size(self) -> int:
        """Returns the size in bytes."""
        return (await self.stat())["size"]

    def read(self, offset: int, length: int) -> Awaitable[bytes]:
        """Reads data; less at the end."""
        return _start(self._image.read, offset, length)

    def write(self, data: bytes, offset: int) -> Awaitable[int]:
        """Writes data; returns how many bytes."""
        return _start(self._image.write, offset, data)

    def discard(self, offset: int, length: int) -> Awaitable[int]:
        """Releases a range; returns how many bytes."""
        return _start(self._image.discard, offset, length)

    def write_zeroes(self, offset: int, length: int) -> Awaitable[int]:
        """Zeroes a range; returns how many bytes."""
        return _start(self._image.write_zeroes, offset, length, False)

    def flush(self) -> Awaitable[None]:
        """Waits until the writes that have begun are safe."""
        return _start(self._image.flush)

    def diff(
        self, offset: int, length: int, from_snapshot: Optional[str] = None, whole_object: bool = False
    ) -> Awaitable[List[Tuple[int, int, bool]]]:
        """Returns the differences of a range from a snapshot, or from nothing: offset, length, exists."""
        return _start(self._image.diff, offset, length, from_snapshot, whole_object)

    def resize(self, size: int, allow_shrink: bool = True) -> Awaitable[None]:
        """Resizes the image."""
        return _start(self._image.resize, size, allow_shrink, None)

    def flatten(self, on_progress: Optional[Callable[[int, int], Any]] = None) -> Awaitable[None]:
        """Detaches a clone from its parent. The callback runs on a thread of the library."""
        return _start(self._image.flatten, on_progress)

    def list_snaps(self) -> Awaitable[List[Dict[str, Any]]]:
        """Lists the snapshots."""
        return _start(self._image.snaps)

    def create_snap(self, name: str) -> Awaitable[None]:
        """Takes a snapshot."""
        return _start(self._image.create_snap, name)

    def remove_snap(self, name: str) -> Awaitable[None]:
        """Removes a snapshot."""
        return _start(self._image.remove_snap, name)

    def protect_snap(self, name: str) -> Awaitable[None]:
        """Protects a snapshot from removal."""
        return _start(self._image.protect_snap, name, True)

    def unprotect_snap(self, name: str) -> Awaitable[None]:
        """Allows a snapshot's removal again."""
        return _start(self._image.protect_snap, name, False)

    def rollback_to_snap(self, name: str) -> Awaitable[None]:
        """Restores the image's state at a snapshot."""
        return _start(self._image.roll_back, name, None)
