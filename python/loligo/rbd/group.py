"""Groups of images."""

from typing import Any, Callable, Dict, Iterator, Optional

from loligo import _native
from loligo.rbd.constants import (
    RBD_GROUP_IMAGE_STATE_ATTACHED,
    RBD_GROUP_IMAGE_STATE_INCOMPLETE,
    RBD_GROUP_SNAP_STATE_COMPLETE,
    RBD_GROUP_SNAP_STATE_INCOMPLETE,
    RBD_SNAP_CREATE_IGNORE_QUIESCE_ERROR,
    RBD_SNAP_CREATE_SKIP_QUIESCE,
)
from loligo.rbd.errors import InvalidArgument


def check_quiesce(flags: int) -> None:
    """Checks flags about watchers that quiesce, which this library has none of."""
    both = RBD_SNAP_CREATE_SKIP_QUIESCE | RBD_SNAP_CREATE_IGNORE_QUIESCE_ERROR
    if flags & ~both or flags == both:
        raise InvalidArgument("no such flags: {0}".format(flags), 22)


class Group:
    """A group of images."""

    def __init__(self, ioctx: Any, name: str) -> None:
        self._io = ioctx._open()
        self._name = name

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, type_: Any, value: Any, traceback: Any) -> None:
        pass

    def add_image(self, image_ioctx: Any, image_name: str) -> None:
        """Adds an image."""
        _native.group_member(self._io, self._name, image_ioctx._open(), image_name, True)

    def remove_image(self, image_ioctx: Any, image_name: str) -> None:
        """Removes an image from the group."""
        _native.group_member(self._io, self._name, image_ioctx._open(), image_name, False)

    def list_images(self) -> Iterator[Dict[str, Any]]:
        """Lists the images: ``name``, ``pool``, ``state``."""
        states = (RBD_GROUP_IMAGE_STATE_INCOMPLETE, RBD_GROUP_IMAGE_STATE_ATTACHED)
        members = _native.group_members(self._io, self._name)
        return iter([
            {"name": name, "pool": pool, "state": states[attached]} for pool, _, name, attached in members
        ])

    def create_snap(self, snap_name: str, flags: int = 0) -> None:
        """Takes a snapshot of all images."""
        check_quiesce(flags)
        _native.group_change(self._io, "create_snap", self._name, snap_name)

    def remove_snap(self, snap_name: str) -> None:
        """Removes a snapshot."""
        _native.group_change(self._io, "remove_snap", self._name, snap_name)

    def rename_snap(self, old_snap_name: str, new_snap_name: str) -> None:
        """Renames a snapshot."""
        _native.group_change(self._io, "rename_snap", self._name, old_snap_name, new_snap_name)

    def list_snaps(self) -> Iterator[Dict[str, Any]]:
        """Lists the snapshots: ``name``, ``state``."""
        states = (RBD_GROUP_SNAP_STATE_INCOMPLETE, RBD_GROUP_SNAP_STATE_COMPLETE)
        snaps = _native.group_snaps(self._io, self._name)
        return iter([{"name": name, "state": states[complete]} for _, name, complete in snaps])

    def rollback_to_snap(self, name: str, on_progress: Optional[Callable[[int, int], Any]] = None) -> None:
        """Restores the images' state at a snapshot."""
        _native.group_roll_back(self._io, self._name, name, on_progress)
