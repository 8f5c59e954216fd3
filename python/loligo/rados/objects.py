"""Objects as files, and iterators over objects, attributes and snapshots."""

import datetime
import time
from typing import TYPE_CHECKING, Iterator, Optional, Tuple

from loligo.rados.errors import ObjectStateError

if TYPE_CHECKING:
    from loligo.rados.ioctx import Ioctx


class Object:
    """An object that is used like a file."""

    def __init__(
        self, ioctx: "Ioctx", key: str, locator_key: Optional[str] = None, nspace: Optional[str] = None
    ) -> None:
        self.key = key
        self.ioctx = ioctx
        self.offset = 0
        self.state = "exists"
        self.locator_key = "" if locator_key is None else locator_key
        self.nspace = "" if nspace is None else nspace

    def __str__(self) -> str:
        return "rados.Object(ioctx={0},key={1},nspace={2},locator={3})".format(
            self.ioctx, self.key, self.nspace, self.locator_key
        )

    def require_object_exists(self) -> None:
        """Fails if the object was removed by this one."""
        if self.state != "exists":
            raise ObjectStateError("The object is {0}".format(self.state))

    def _place(self) -> "Ioctx":
        """The pool, seen so that this object is found."""
        self.require_object_exists()
        place = self.ioctx.dup()
        place.set_namespace(self.nspace)
        place.set_locator_key(self.locator_key)
        return place

    def read(self, length: int = 1024 * 1024) -> bytes:
        """Reads on."""
        found = self._place().read(self.key, length, self.offset)
        self.offset += len(found)
        return found

    def write(self, string_to_write: bytes) -> int:
        """Writes on; returns 0."""
        self._place().write(self.key, string_to_write, self.offset)
        self.offset += len(string_to_write)
        return 0

    def remove(self) -> None:
        """Removes the object."""
        self._place().remove_object(self.key)
        self.state = "removed"

    def stat(self) -> Tuple[int, time.struct_time]:
        """Returns size and time."""
        return self._place().stat(self.key)

    def seek(self, position: int) -> None:
        """Goes on from there."""
        self.require_object_exists()
        self.offset = position

    def get_xattr(self, xattr_name: str) -> bytes:
        """Reads an attribute."""
        return self._place().get_xattr(self.key, xattr_name)

    def get_xattrs(self) -> "XattrIterator":
        """Reads all attributes."""
        return self._place().get_xattrs(self.key)

    def set_xattr(self, xattr_name: str, xattr_value: bytes) -> bool:
        """Sets an attribute."""
        return self._place().set_xattr(self.key, xattr_name, xattr_value)

    def rm_xattr(self, xattr_name: str) -> bool:
        """Removes an attribute."""
        return self._place().rm_xattr(self.key, xattr_name)


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


class ObjectIterator:
    """The objects of a pool."""

    def __init__(self, ioctx: "Ioctx") -> None:
        self.ioctx = ioctx
        self._list = ioctx._list()
        self._batch: Iterator[Tuple[bytes, bytes, bytes]] = iter(())

    def __iter__(self) -> "ObjectIterator":
        return self

    def __next__(self) -> Object:
        found = next(self._batch, None)
        if found is None:
            self._batch = iter(self._list.next_batch())
            found = next(self._batch)
        name, locator, nspace = found
        return Object(self.ioctx, _shown(name), _shown(locator), _shown(nspace))


class XattrIterator:
    """The attributes of an object."""

    def __init__(self, ioctx: "Ioctx", oid: str) -> None:
        self.ioctx = ioctx
        self.oid = oid
        self._pairs = iter(ioctx._io.xattrs(oid))

    def __iter__(self) -> "XattrIterator":
        return self

    def __next__(self) -> Tuple[str, bytes]:
        name, value = next(self._pairs)
        return _shown(name), value


class Snap:
    """A snapshot of a pool."""

    def __init__(self, ioctx: "Ioctx", name: str, snap_id: int, taken: float) -> None:
        self.ioctx = ioctx
        self.name = name
        self.snap_id = snap_id
        self._taken = taken

    def __str__(self) -> str:
        return "rados.Snap(ioctx={0},name={1},snap_id={2})".format(self.ioctx, self.name, self.snap_id)

    def get_timestamp(self) -> datetime.datetime:
        """When it was taken."""
        return datetime.datetime.fromtimestamp(self._taken)


class SnapIterator:
    """The snapshots of a pool, in the order of their ids."""

    def __init__(self, ioctx: "Ioctx") -> None:
        self.ioctx = ioctx
        self._snaps = iter(sorted(ioctx._io.snaps()))

    def __iter__(self) -> "SnapIterator":
        return self

    def __next__(self) -> Snap:
        snap_id, name, taken = next(self._snaps)
        return Snap(self.ioctx, _shown(name), snap_id, taken)
