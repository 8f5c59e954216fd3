"""Images."""

import datetime
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

from loligo import _native
from loligo.rados.constants import LIBRADOS_SNAP_HEAD
from loligo.rbd.completion import Completion, absent
from loligo.rbd.constants import (
    RBD_LOCK_MODE_EXCLUSIVE,
    RBD_SNAP_NAMESPACE_TYPE_GROUP,
    RBD_SNAP_NAMESPACE_TYPE_TRASH,
    RBD_SNAP_REMOVE_FLATTEN,
    RBD_SNAP_REMOVE_UNPROTECT,
    RBD_WRITE_ZEROES_FLAG_THICK_PROVISION,
)
from loligo.rbd.errors import (
    ImageBusy,
    ImageNotFound,
    InvalidArgument,
    OperationNotSupported,
    ReadOnlyImage,
    make_error,
    not_here,
)
from loligo.rbd.group import check_quiesce

Progress = Optional[Callable[[int, int], Any]]
SnapRef = Union[str, int, None]

#: No limit of the number of snapshots.
NO_LIMIT = 2**64 - 1


def new_options(
    order: Optional[int] = None,
    features: Optional[int] = None,
    stripe_unit: Optional[int] = None,
    stripe_count: Optional[int] = None,
    data_pool: Optional[str] = None,
    old_format: Optional[bool] = None,
    clone_format: Optional[int] = None,
) -> Dict[str, Any]:
    """Puts together what a new image is to be; what is not given is by configuration."""
    return dict(
        order=order,
        features=features,
        stripe_unit=stripe_unit,
        stripe_count=stripe_count,
        data_pool=data_pool,
        old_format=old_format,
        clone_format=clone_format,
    )


def _utc(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).replace(tzinfo=None)


class Image:
    """An open image, or one of its snapshots."""

    def __init__(
        self,
        ioctx: Any,
        name: Optional[str] = None,
        snapshot: SnapRef = None,
        read_only: bool = False,
        image_id: Optional[str] = None,
        _opened: Any = None,
    ) -> None:
        if (name is None) == (image_id is None):
            raise InvalidArgument("either a name or an id is needed", 22)
        self.ioctx = ioctx
        self.name = name
        self.closed = True
        self._io = ioctx._open()
        self._read_only = read_only
        self._selected: Any = None
        self._snapshot: Optional[str] = snapshot if isinstance(snapshot, str) else None
        if _opened is None:
            _opened = _native.open_image(self._io, name, image_id, self._snapshot, read_only)
        self._head = _opened
        self.closed = False
        if isinstance(snapshot, int):
            self.set_snap_by_id(snapshot)

    def __enter__(self) -> "Image":
        return self

    def __exit__(self, type_: Any, value: Any, traceback: Any) -> None:
        self.close()

    def require_not_closed(self) -> None:
        """Fails if it was closed."""
        if self.closed:
            raise InvalidArgument("image is closed", 22)

    def _open(self) -> Any:
        """The image, or the snapshot that was selected."""
        self.require_not_closed()
        return self._head if self._selected is None else self._selected

    def _whole(self) -> Any:
        """What was opened, whatever is selected: changes of snapshots go there."""
        self.require_not_closed()
        return self._head

    def close(self) -> None:
        """Closes the image when the operations under way have ended."""
        if self.closed:
            return
        self.closed = True
        if self._selected is not None:
            self._selected.close()
        self._head.close()

    def aio_close(self, oncomplete: Callable[[Completion], Any]) -> Completion:
        """Closes the image in the background: ``oncomplete(completion)``."""
        self.require_not_closed()
        self.closed = True
        if self._selected is not None:
            self._selected.close()
        completion = Completion(oncomplete)
        self._head.close(done=completion._done())
        return completion

    # What the image tells of itself.

    def _info(self, key: str) -> Any:
        return self._open().info()[key]

    def stat(self) -> Dict[str, Any]:
        """Returns size and layout."""
        info = self._open().info()
        keys = ("size", "obj_size", "num_objs", "order", "block_name_prefix")
        return dict({key: info[key] for key in keys}, parent_pool=-1, parent_name="")

    def get_name(self) -> str:
        """Returns the name."""
        return self._open().name

    def id(self) -> str:
        """Returns the id."""
        return self._info("id")

    def block_name_prefix(self) -> str:
        """Returns the prefix of the data objects' names."""
        return self._info("block_name_prefix")

    def data_pool_id(self) -> int:
        """Returns the id of the pool with the data."""
        return self._info("data_pool")

    def old_format(self) -> bool:
        """Whether the image is of format 1."""
        return self._info("old_format")

    def size(self) -> int:
        """Returns the size in bytes."""
        return self._info("size")

    def features(self) -> int:
        """Returns the features."""
        return self._info("features")

    def op_features(self) -> int:
        """Returns the features that operations have brought about."""
        return self._info("op_features")

    def flags(self) -> int:
        """Returns whether object map and fast diff are invalid."""
        return self._info("flags")

    def overlap(self) -> int:
        """Returns how many bytes of the parent show."""
        return self._info("overlap")

    def stripe_unit(self) -> int:
        """Returns the stripe unit in bytes."""
        return self._info("stripe_unit")

    def stripe_count(self) -> int:
        """Returns the number of objects in a stripe."""
        return self._info("stripe_count")

    def create_timestamp(self) -> datetime.datetime:
        """When the image was created."""
        return _utc(self._info("created"))

    def access_timestamp(self) -> datetime.datetime:
        """When the image was last read."""
        return _utc(self._info("accessed"))

    def modify_timestamp(self) -> datetime.datetime:
        """When the image was last changed."""
        return _utc(self._info("modified"))

    def update_features(self, features: int, enabled: bool) -> None:
        """Switches features on or off."""
        self._open().update_features(features, enabled)

    def group(self) -> Optional[Dict[str, Any]]:
        """Returns the group that the image is in: ``pool``, ``name``."""
        found = self._open().group()
        pool, name = found if found is not None else (-1, "")
        return {"pool": pool, "name": name}

    # Changes of the whole image.

    def resize(self, size: int, allow_shrink: bool = True) -> None:
        """Resizes the image."""
        self._open().resize(size, allow_shrink)

    def flatten(self, on_progress: Progress = None) -> None:
        """Detaches a clone from its parent."""
        if self._read_only:
            raise ReadOnlyImage("image '{0}' is open for reading".format(self.get_name()), 30)
        self._open().flatten(on_progress)

    def sparsify(self, sparse_size: int) -> None:
        """Releases blocks of zeros."""
        self._open().sparsify(sparse_size)

    def rebuild_object_map(self) -> None:
        """Makes the object map anew."""
        self._open().rebuild_object_map()

    def copy(
        self,
        dest_ioctx: Any,
        dest_name: str,
        features: Optional[int] = None,
        order: Optional[int] = None,
        stripe_unit: Optional[int] = None,
        stripe_count: Optional[int] = None,
        data_pool: Optional[str] = None,
    ) -> None:
        """Copies the data of the image."""
        options = new_options(order, features, stripe_unit, stripe_count, data_pool)
        self._open().copy(dest_ioctx._open(), dest_name, options, False, False)

    def deep_copy(
        self,
        dest_ioctx: Any,
        dest_name: str,
        features: Optional[int] = None,
        order: Optional[int] = None,
        stripe_unit: Optional[int] = None,
        stripe_count: Optional[int] = None,
        data_pool: Optional[str] = None,
        clone_format: Optional[int] = None,
        flatten: bool = False,
    ) -> None:
        """Copies the image with its snapshots."""
        options = new_options(order, features, stripe_unit, stripe_count, data_pool, None, clone_format)
        self._open().copy(dest_ioctx._open(), dest_name, options, True, flatten)

    # Data. Hints about how data are used have no meaning here, and are taken as they are in librbd.

    def read(self, offset: int, length: int, fadvise_flags: int = 0) -> bytes:
        """Reads data; less at the end."""
        return self._open().read(offset, length)

    def write(self, data: bytes, offset: int, fadvise_flags: int = 0) -> int:
        """Writes data; returns how many bytes."""
        return self._open().write(offset, data)

    def discard(self, offset: int, length: int) -> int:
        """Releases a range; returns how many bytes."""
        return self._open().discard(offset, length)

    def write_zeroes(self, offset: int, length: int, zero_flags: int = 0) -> int:
        """Zeroes a range; returns how many bytes."""
        return self._open().write_zeroes(offset, length, _is_thick(zero_flags))

    def flush(self) -> None:
        """Waits until the writes that have begun are safe."""
        self._open().flush()

    def invalidate_cache(self) -> None:
        """Nothing is cached."""
        self.require_not_closed()

    def aio_read(
        self,
        offset: int,
        length: int,
        oncomplete: Callable[[Completion, Optional[bytes]], Any],
        fadvise_flags: int = 0,
    ) -> Completion:
        """Reads in the background: ``oncomplete(completion, data)``; ``None`` if it failed."""

        def give(data: Any, error: Optional[BaseException]) -> tuple:
            return (None if error else data,)

        completion = Completion(oncomplete, give, len)
        self._open().read(offset, length, done=completion._done())
        return completion

    def aio_write(
        self, data: bytes, offset: int, oncomplete: Callable[[Completion], Any], fadvise_flags: int = 0
    ) -> Completion:
        """Writes in the background: ``oncomplete(completion)``."""
        completion = Completion(oncomplete)
        self._open().write(offset, data, done=completion._done())
        return completion

    def aio_discard(self, offset: int, length: int, oncomplete: Callable[[Completion], Any]) -> Completion:
        """Releases a range in the background: ``oncomplete(completion)``."""
        completion = Completion(oncomplete)
        self._open().discard(offset, length, done=completion._done())
        return completion

    def aio_write_zeroes(
        self, offset: int, length: int, oncomplete: Callable[[Completion], Any], zero_flags: int = 0
    ) -> Completion:
        """Zeroes a range in the background: ``oncomplete(completion)``."""
        completion = Completion(oncomplete)
        self._open().write_zeroes(offset, length, _is_thick(zero_flags), done=completion._done())
        return completion

    def aio_flush(self, oncomplete: Callable[[Completion], Any]) -> Completion:
        """Flushes in the background: ``oncomplete(completion)``."""
        completion = Completion(oncomplete)
        self._open().flush(done=completion._done())
        return completion

    def diff_iterate(
        self,
        offset: int,
        length: int,
        from_snapshot: SnapRef,
        iterate_cb: Callable[[int, int, bool], Any],
        include_parent: bool = True,
        whole_object: bool = False,
    ) -> None:
        """Calls ``iterate_cb(offset, length, exists)`` for each difference of a range from a snapshot, or
        from nothing."""
        if from_snapshot is not None and not isinstance(from_snapshot, (str, int)):
            raise TypeError("from_snapshot must be a string or an integer")
        if not include_parent and self._open().parent() is not None:
            raise not_here("leave a parent's data out of the differences")
        if isinstance(from_snapshot, int):
            from_snapshot = self.snap_get_name(from_snapshot) if from_snapshot else None
        for start, size, exists in self._open().diff(offset, length, from_snapshot, whole_object):
            said = iterate_cb(start, size, exists)
            if isinstance(said, int) and said < 0:
                raise make_error(-said, "the callback ended it")

    # Snapshots.

    def _snaps(self) -> List[Dict[str, Any]]:
        return self._whole().snaps()

    def _snap(self, which: Union[str, int]) -> Dict[str, Any]:
        key = "name" if isinstance(which, str) else "id"
        for snap in self._snaps():
            if snap[key] == which and (key == "id" or snap["namespace"] == 0):
                return snap
        raise ImageNotFound("image '{0}' has no snapshot {1!r}".format(self.get_name(), which), 2)

    def list_snaps(self) -> Iterator[Dict[str, Any]]:
        """Lists the snapshots."""
        return iter([self._shown(snap) for snap in self._snaps()])

    def _shown(self, snap: Dict[str, Any]) -> Dict[str, Any]:
        shown = {key: snap[key] for key in ("id", "size", "name", "namespace")}
        if snap["namespace"] == RBD_SNAP_NAMESPACE_TYPE_GROUP:
            shown["group"] = self._group_of(snap)
        if snap["namespace"] == RBD_SNAP_NAMESPACE_TYPE_TRASH:
            shown["trash"] = {"original_name": snap["original_name"]}
        return shown

    @staticmethod
    def _group_of(snap: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        if snap["group"] is None:
            return None
        pool, group, snapshot = snap["group"]
        return {"pool": pool, "name": group, "snap_name": snapshot,
                "group_name": group, "group_snap_name": snapshot}

    def create_snap(self, name: str, flags: int = 0, on_progress: Progress = None) -> None:
        """Takes a snapshot. The flags are about watchers that quiesce, which this library has none of."""
        check_quiesce(flags)
        self._whole().create_snap(name)
        if on_progress is not None:
            on_progress(1, 1)

    def rename_snap(self, srcname: str, dstname: str) -> None:
        """Renames a snapshot."""
        self._whole().rename_snap(srcname, dstname)

    def remove_snap(self, name: str) -> None:
        """Removes a snapshot."""
        self._whole().remove_snap(name)

    def remove_snap2(self, name: str, flags: int) -> None:
        """Removes a snapshot, also a protected one if that is asked for."""
        if flags & RBD_SNAP_REMOVE_FLATTEN:
            raise OperationNotSupported("the clones of a snapshot are to be flattened first", 95)
        if flags & RBD_SNAP_REMOVE_UNPROTECT and self._snap(name)["protected"]:
            self.unprotect_snap(name)
        self._whole().remove_snap(name)

    def remove_snap_by_id(self, snap_id: int) -> None:
        """Removes a snapshot by its id."""
        self._whole().remove_snap(self._snap(snap_id)["name"])

    def rollback_to_snap(self, name: str) -> None:
        """Restores the image's state at a snapshot."""
        self._whole().roll_back(name)

    def protect_snap(self, name: str) -> None:
        """Protects a snapshot from removal."""
        self._whole().protect_snap(name, True)

    def unprotect_snap(self, name: str) -> None:
        """Allows a snapshot's removal again."""
        self._whole().protect_snap(name, False)

    def is_protected_snap(self, name: str) -> bool:
        """Whether a snapshot is protected."""
        return self._snap(name)["protected"]

    def snap_exists(self, name: str) -> bool:
        """Whether there is a snapshot of this name."""
        return any(snap["name"] == name and snap["namespace"] == 0 for snap in self._snaps())

    def get_snap_limit(self) -> int:
        """Returns the largest number of snapshots."""
        return self._whole().snap_limit()

    def set_snap_limit(self, limit: int) -> None:
        """Limits the number of snapshots."""
        self._whole().limit_snaps(None if limit == NO_LIMIT else limit)

    def remove_snap_limit(self) -> None:
        """Removes the limit of the number of snapshots."""
        self._whole().limit_snaps(None)

    def get_snap_timestamp(self, snap_id: int) -> datetime.datetime:
        """When a snapshot was taken."""
        return _utc(self._snap(snap_id)["taken"])

    def snap_get_name(self, snap_id: int) -> str:
        """Returns a snapshot's name."""
        return self._snap(snap_id)["name"]

    def snap_get_id(self, snap_name: str) -> int:
        """Returns a snapshot's id."""
        return self._snap(snap_name)["id"]

    def snap_get_namespace_type(self, snap_id: int) -> int:
        """Returns what made a snapshot."""
        return self._snap(snap_id)["namespace"]

    def snap_get_group_namespace(self, snap_id: int) -> Optional[Dict[str, Any]]:
        """Returns the group and the group's snapshot that a snapshot belongs to."""
        return self._group_of(self._snap(snap_id))

    def snap_get_trash_namespace(self, snap_id: int) -> Optional[Dict[str, Any]]:
        """Returns the name that a snapshot had before it was put into the trash."""
        snap = self._snap(snap_id)
        if snap["original_name"] is None:
            return None
        return {"original_name": snap["original_name"]}

    def set_snap(self, name: Optional[str]) -> None:
        """Reads see this snapshot from now on; ``None`` is the image itself."""
        self.require_not_closed()
        selected = None
        if name:
            selected = _native.open_image(self._io, self._head.name, None, name, True)
        before, self._selected, self._snapshot = self._selected, selected, name or None
        if before is not None:
            before.close()

    def set_snap_by_id(self, snap_id: Optional[int]) -> None:
        """Reads see this snapshot from now on; ``None`` is the image itself."""
        is_head = snap_id is None or snap_id == LIBRADOS_SNAP_HEAD
        self.set_snap(None if is_head else self._snap(snap_id)["name"])  # type: ignore[arg-type]

    # Parents and clones.

    def _parent(self) -> Tuple[Any, ...]:
        found = self._open().parent()
        if found is None:
            raise ImageNotFound("image '{0}' has no parent".format(self.get_name()), 2)
        return found

    def parent_info(self) -> Tuple[str, str, str]:
        """Returns pool, image and snapshot of the parent."""
        _, pool, (_, name, _, snapshot), _, _, _ = self._parent()
        return pool, name, snapshot

    def parent_id(self) -> str:
        """Returns the parent's id."""
        return self._parent()[2][2]

    def get_parent_image_spec(self) -> Dict[str, Any]:
        """Returns what tells about the parent."""
        _, pool, (namespace, name, image_id, snapshot), snap_id, _, trash = self._parent()
        return {
            "pool_name": pool,
            "pool_namespace": namespace,
            "image_name": name,
            "image_id": image_id,
            "trash": trash,
            "snap_namespace_type": 0,
            "snap_name": snapshot,
            "snap_id": snap_id,
        }

    def _children(self, descendants: bool) -> List[Tuple[Any, ...]]:
        return self._open().children(self._snapshot, descendants)

    def list_children(self) -> List[Tuple[str, str]]:
        """Lists the clones of the snapshot that is open, or of all: pool and name."""
        found = self._children(False)
        return [(pool, name) for _, pool, _, name, _, in_trash in found if not in_trash]

    @staticmethod
    def _child(found: Tuple[Any, ...]) -> Dict[str, Any]:
        _, pool, namespace, name, image_id, in_trash = found
        return {"pool": pool, "pool_namespace": namespace, "image": name, "id": image_id, "trash": in_trash}

    def list_children2(self) -> Iterator[Dict[str, Any]]:
        """Lists the clones of the snapshot that is open, or of all."""
        return iter([self._child(found) for found in self._children(False)])

    def list_descendants(self) -> Iterator[Dict[str, Any]]:
        """Lists the clones, their clones, and so on."""
        return iter([self._child(found) for found in self._children(True)])

    # Locks and watchers.

    def is_exclusive_lock_owner(self) -> bool:
        """Whether this client has the exclusive lock."""
        return self._info("owns_lock")

    def lock_acquire(self, lock_mode: int) -> None:
        """Takes the exclusive lock."""
        if lock_mode != RBD_LOCK_MODE_EXCLUSIVE:
            raise OperationNotSupported("the lock is exclusive", 95)
        self._open().acquire_lock()

    def lock_get_owners(self) -> Iterator[Dict[str, Any]]:
        """Returns the owner of the exclusive lock: ``mode``, ``owner``."""
        _, _, holders = self._open().lockers()
        return iter([{"mode": RBD_LOCK_MODE_EXCLUSIVE, "owner": addr} for _, _, addr in holders[:1]])

    def lock_break(self, lock_mode: int, lock_owner: str) -> None:
        """Takes the exclusive lock away from its owner, and puts the owner on the blocklist."""
        if lock_mode != RBD_LOCK_MODE_EXCLUSIVE:
            raise OperationNotSupported("the lock is exclusive", 95)
        _, _, holders = self._open().lockers()
        for client, cookie, addr in holders:
            if addr == lock_owner:
                self._open().break_lock(client, cookie)
                return
        raise ImageBusy("{0} does not own the lock".format(lock_owner), 16)

    def list_lockers(self) -> Union[List[Any], Dict[str, Any]]:
        """Lists who has locked the image: ``tag``, ``exclusive``, ``lockers``; an empty list for nobody."""
        exclusive, tag, holders = self._open().lockers()
        if not holders:
            return []
        return {"tag": tag, "exclusive": exclusive, "lockers": [tuple(holder) for holder in holders]}

    def lock_exclusive(self, cookie: str) -> None:
        """Locks the image for this client alone."""
        self._open().lock(cookie, None)

    def lock_shared(self, cookie: str, tag: str) -> None:
        """Locks the image together with others that give the same tag."""
        self._open().lock(cookie, tag)

    def unlock(self, cookie: str) -> None:
        """Unlocks the image."""
        self._open().unlock(cookie)

    def break_lock(self, client: str, cookie: str) -> None:
        """Takes a lock away from another client."""
        self._open().break_lock(client, cookie)

    def watchers_list(self) -> Iterator[Dict[str, Any]]:
        """Lists the clients that have the image open."""
        found = self._open().watchers()
        return iter([{"addr": addr, "id": client, "cookie": cookie} for addr, client, cookie in found])

    # Metadata. An image's own options are metadata as well.

    def metadata_get(self, key: str) -> str:
        """Returns the value of a key."""
        found = dict(self._open().metadata())
        if key not in found:
            raise KeyError("no metadata {0} for image {1}".format(key, self.get_name()))
        return found[key].decode("utf-8")

    def metadata_set(self, key: str, value: str) -> None:
        """Sets a key."""
        self._open().set_metadata(key, value.encode("utf-8"))

    def metadata_remove(self, key: str) -> None:
        """Removes a key."""
        if key not in dict(self._open().metadata()):
            raise KeyError("no metadata {0} for image {1}".format(key, self.get_name()))
        self._open().remove_metadata(key)

    def metadata_list(self) -> Iterator[Tuple[str, str]]:
        """Lists keys and values."""
        return iter([(key, value.decode("utf-8")) for key, value in self._open().metadata()])

    def config_get(self, key: str) -> str:
        """Returns the value of an option of the image's own."""
        return self.metadata_get("conf_" + key)

    def config_set(self, key: str, value: str) -> None:
        """Sets an option of the image's own."""
        self.metadata_set("conf_" + key, value)

    def config_remove(self, key: str) -> None:
        """Removes an option of the image's own."""
        self.metadata_remove("conf_" + key)

    # What this library does not have.

    lock_release = absent("give the exclusive lock back before another client asks for it")
    config_list = absent("list the options of images")
    encryption_format = encryption_load = encryption_load2 = absent("encrypt images")
    migration_source_spec = absent("show the source of a migration from outside the cluster")
    snap_get_mirror_namespace = absent("mirror images")
    mirror_image_enable = mirror_image_disable = absent("mirror images")
    mirror_image_promote = mirror_image_demote = mirror_image_resync = absent("mirror images")
    mirror_image_create_snapshot = aio_mirror_image_create_snapshot = absent("mirror images")
    mirror_image_get_info = aio_mirror_image_get_info = absent("mirror images")
    mirror_image_get_mode = aio_mirror_image_get_mode = absent("mirror images")
    mirror_image_get_status = mirror_image_get_instance_id = absent("mirror images")


def _is_thick(zero_flags: int) -> bool:
    if zero_flags & ~RBD_WRITE_ZEROES_FLAG_THICK_PROVISION:
        raise InvalidArgument("no such flags: {0}".format(zero_flags), 22)
    return bool(zero_flags)
