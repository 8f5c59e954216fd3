"""The images of a pool."""

import datetime
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from loligo import _native
from loligo.rbd import constants
from loligo.rbd.completion import Completion, absent
from loligo.rbd.errors import ImageNotFound, InvalidArgument, OperationNotSupported
from loligo.rbd.image import Image, Progress, _utc, new_options

_SOURCES = {0: "USER", 1: "MIRRORING", 2: "MIGRATION", 3: "REMOVING", 4: "USER_PARENT"}
_MIGRATION_STATES = {
    "error": constants.RBD_IMAGE_MIGRATION_STATE_ERROR,
    "preparing": constants.RBD_IMAGE_MIGRATION_STATE_PREPARING,
    "prepared": constants.RBD_IMAGE_MIGRATION_STATE_PREPARED,
    "executing": constants.RBD_IMAGE_MIGRATION_STATE_EXECUTING,
    "executed": constants.RBD_IMAGE_MIGRATION_STATE_EXECUTED,
    "aborting": constants.RBD_IMAGE_MIGRATION_STATE_ABORTING,
}


class RBD:
    """Operations on the images of a pool. ``ioctx`` is the pool, a ``loligo.rados.Ioctx``."""

    def version(self) -> Tuple[int, int, int]:
        """Returns the version of librbd's interface."""
        return (1, 20, 0)

    def create(
        self,
        ioctx: Any,
        name: str,
        size: int,
        order: Optional[int] = None,
        old_format: bool = False,
        features: Optional[int] = None,
        stripe_unit: Optional[int] = None,
        stripe_count: Optional[int] = None,
        data_pool: Optional[str] = None,
    ) -> None:
        """Creates an image."""
        if old_format and any((features, stripe_unit, stripe_count, data_pool)):
            raise InvalidArgument("format 1 images do not support feature masks, striping or data pools", 22)
        options = new_options(order, features, stripe_unit, stripe_count, data_pool, old_format)
        _native.create_image(ioctx._open(), name, size, options)

    def clone(
        self,
        p_ioctx: Any,
        p_name: str,
        p_snapname: str,
        c_ioctx: Any,
        c_name: str,
        features: Optional[int] = None,
        order: Optional[int] = None,
        stripe_unit: Optional[int] = None,
        stripe_count: Optional[int] = None,
        data_pool: Optional[str] = None,
        clone_format: Optional[int] = None,
    ) -> None:
        """Clones a snapshot."""
        options = new_options(order, features, stripe_unit, stripe_count, data_pool, None, clone_format)
        _native.clone_image(p_ioctx._open(), p_name, p_snapname, c_ioctx._open(), c_name, options)

    def list(self, ioctx: Any) -> List[str]:
        """Lists the names."""
        return [name for name, _ in _native.list_images(ioctx._open())]

    def list2(self, ioctx: Any) -> Iterator[Dict[str, str]]:
        """Lists names and ids."""
        found = _native.list_images(ioctx._open())
        return iter([{"id": image_id, "name": name} for name, image_id in found])

    def remove(self, ioctx: Any, name: str, on_progress: Progress = None) -> None:
        """Removes an image."""
        _native.remove_image(ioctx._open(), name, on_progress)

    def rename(self, ioctx: Any, src: str, dest: str) -> None:
        """Renames an image."""
        _native.rename_image(ioctx._open(), src, dest)

    def aio_open_image(
        self,
        oncomplete: Callable[[Completion, Optional[Image]], Any],
        ioctx: Any,
        name: Optional[str] = None,
        snapshot: Optional[str] = None,
        read_only: bool = False,
        image_id: Optional[str] = None,
    ) -> Completion:
        """Opens an image in the background: ``oncomplete(completion, image)``; ``None`` if it failed."""
        if (name is None) == (image_id is None):
            raise InvalidArgument("either a name or an id is needed", 22)

        def give(opened: Any, error: Optional[BaseException]) -> tuple:
            if error is not None:
                return (None,)
            return (Image(ioctx, name, snapshot, read_only, image_id, _opened=opened),)

        completion, io = Completion(oncomplete, give), ioctx._open()
        _native.open_image(io, name, image_id, snapshot, read_only, done=completion._done())
        return completion

    # The trash.

    def trash_move(self, ioctx: Any, name: str, delay: int = 0) -> None:
        """Puts an image into the trash, which keeps it for so many seconds."""
        _native.trash_put(ioctx._open(), name, delay)

    def trash_list(self, ioctx: Any) -> Iterator[Dict[str, Any]]:
        """Lists the images in the trash."""
        return iter([self._trashed(found) for found in _native.trash_list(ioctx._open())])

    @staticmethod
    def _trashed(found: Tuple[Any, ...]) -> Dict[str, Any]:
        image_id, name, source, deleted, until = found
        return {
            "id": image_id,
            "name": name,
            "source": _SOURCES.get(source, "UNKNOWN"),
            "deletion_time": _utc(deleted),
            "deferment_end_time": _utc(until),
        }

    def trash_get(self, ioctx: Any, image_id: str) -> Dict[str, Any]:
        """Returns what the trash tells of an image."""
        for image in self.trash_list(ioctx):
            if image["id"] == image_id:
                return image
        raise ImageNotFound("no image '{0}' in the trash".format(image_id), 2)

    def trash_remove(
        self, ioctx: Any, image_id: str, force: bool = False, on_progress: Progress = None
    ) -> None:
        """Removes an image from the trash for good; with ``force`` before its time."""
        _native.trash_remove(ioctx._open(), image_id, force, on_progress)

    def trash_restore(self, ioctx: Any, image_id: str, name: str) -> None:
        """Takes an image out of the trash."""
        _native.trash_restore(ioctx._open(), image_id, name)

    def trash_purge(
        self, ioctx: Any, expire_ts: Optional[datetime.datetime] = None, threshold: float = -1
    ) -> None:
        """Removes the images whose time is over, now or at a time (UTC)."""
        if threshold >= 0:
            raise OperationNotSupported("the space that images use is not known to this client", 95)
        if expire_ts is None:
            expire_ts = datetime.datetime.now(datetime.timezone.utc)
        elif expire_ts.tzinfo is None:
            expire_ts = expire_ts.replace(tzinfo=datetime.timezone.utc)
        _native.trash_purge(ioctx._open(), expire_ts.timestamp())

    # Migrations.

    def migration_prepare(
        self,
        ioctx: Any,
        image_name: str,
        dest_ioctx: Any,
        dest_image_name: str,
        features: Optional[int] = None,
        order: Optional[int] = None,
        stripe_unit: Optional[int] = None,
        stripe_count: Optional[int] = None,
        data_pool: Optional[str] = None,
        clone_format: Optional[int] = None,
        flatten: bool = False,
    ) -> None:
        """Begins to move an image."""
        options = new_options(order, features, stripe_unit, stripe_count, data_pool, None, clone_format)
        io, to = ioctx._open(), dest_ioctx._open()
        _native.migration_prepare(io, image_name, to, dest_image_name, options, flatten)

    def migration_execute(self, ioctx: Any, image_name: str, on_progress: Progress = None) -> None:
        """Copies the data of an image that moves."""
        _native.migration_step(ioctx._open(), image_name, "execute", on_progress)

    def migration_commit(self, ioctx: Any, image_name: str, on_progress: Progress = None) -> None:
        """Ends a migration."""
        _native.migration_step(ioctx._open(), image_name, "commit", on_progress)

    def migration_abort(self, ioctx: Any, image_name: str, on_progress: Progress = None) -> None:
        """Takes a migration back."""
        _native.migration_step(ioctx._open(), image_name, "abort", on_progress)

    def migration_status(self, ioctx: Any, image_name: str) -> Dict[str, Any]:
        """Returns how far a migration is."""
        found = _native.migration_status(ioctx._open(), image_name)
        if found is None:
            raise ImageNotFound("image '{0}' does not migrate".format(image_name), 2)
        source, dest, state, description = found
        keys = ("pool_id", "pool_namespace", "image_name", "image_id")
        status = {"source_" + key: value for key, value in zip(keys, source)}
        status.update({"dest_" + key: value for key, value in zip(keys, dest)})
        unknown = constants.RBD_IMAGE_MIGRATION_STATE_UNKNOWN
        return dict(status, state=_MIGRATION_STATES.get(state, unknown), state_description=description)

    # The pool.

    def pool_init(self, ioctx: Any, force: bool) -> None:
        """Makes a pool one for images."""
        _native.init_pool(ioctx._open(), force)

    def pool_stats_get(self, ioctx: Any) -> Dict[str, int]:
        """Returns sums. The largest sizes that images had are not kept: they are those of now."""
        images, trash = _native.pool_sums(ioctx._open())
        stats = {}
        for kind, (count, snaps, provisioned) in (("image", images), ("trash", trash)):
            stats[kind + "_count"] = count
            stats[kind + "_provisioned_bytes"] = provisioned
            stats[kind + "_max_provisioned_bytes"] = provisioned
            stats[kind + "_snap_count"] = snaps
        return stats

    def pool_metadata_get(self, ioctx: Any, key: str) -> str:
        """Returns the value of a key."""
        found = dict(_native.pool_metadata(ioctx._open()))
        if key not in found:
            raise KeyError("no metadata {0}".format(key))
        return found[key].decode("utf-8")

    def pool_metadata_set(self, ioctx: Any, key: str, value: str) -> None:
        """Sets a key."""
        _native.set_pool_metadata(ioctx._open(), key, value.encode("utf-8"))

    def pool_metadata_remove(self, ioctx: Any, key: str) -> None:
        """Removes a key."""
        if key not in dict(_native.pool_metadata(ioctx._open())):
            raise KeyError("no metadata {0}".format(key))
        _native.remove_pool_metadata(ioctx._open(), key)

    def pool_metadata_list(self, ioctx: Any) -> Iterator[Tuple[str, str]]:
        """Lists keys and values."""
        found = _native.pool_metadata(ioctx._open())
        return iter([(key, value.decode("utf-8")) for key, value in found])

    def config_get(self, ioctx: Any, key: str) -> str:
        """Returns the value of an option of the pool's own."""
        return self.pool_metadata_get(ioctx, "conf_" + key)

    def config_set(self, ioctx: Any, key: str, value: str) -> None:
        """Sets an option of the pool's own."""
        self.pool_metadata_set(ioctx, "conf_" + key, value)

    def config_remove(self, ioctx: Any, key: str) -> None:
        """Removes an option of the pool's own."""
        self.pool_metadata_remove(ioctx, "conf_" + key)

    # Namespaces and groups.

    def namespace_create(self, ioctx: Any, name: str) -> None:
        """Creates a namespace for images."""
        _native.namespace_change(ioctx._open(), name, True)

    def namespace_remove(self, ioctx: Any, name: str) -> None:
        """Removes a namespace without images."""
        _native.namespace_change(ioctx._open(), name, False)

    def namespace_exists(self, ioctx: Any, name: str) -> bool:
        """Whether there is a namespace for images of this name."""
        return name in self.namespace_list(ioctx)

    def namespace_list(self, ioctx: Any) -> List[str]:
        """Lists the namespaces for images."""
        return _native.namespace_list(ioctx._open())

    def group_create(self, ioctx: Any, name: str) -> None:
        """Creates a group."""
        _native.group_change(ioctx._open(), "create", name)

    def group_remove(self, ioctx: Any, name: str) -> None:
        """Removes a group; its images stay."""
        _native.group_change(ioctx._open(), "remove", name)

    def group_list(self, ioctx: Any) -> List[str]:
        """Lists the groups."""
        return _native.group_list(ioctx._open())

    def group_rename(self, ioctx: Any, src: str, dest: str) -> None:
        """Renames a group."""
        _native.group_change(ioctx._open(), "rename", src, new_name=dest)

    # Features.

    def features_to_string(self, features: int) -> str:
        """Returns the names of features, with commas."""
        if features & ~(2 * constants.RBD_FEATURE_NON_PRIMARY - 1):
            raise InvalidArgument("no such features: {0}".format(features), 22)
        return _native.feature_names(features)

    def features_from_string(self, str_features: str) -> int:
        """Reads features: a number, or names with commas."""
        return _native.feature_bits(str_features)

    # What this library does not have.

    config_list = absent("list the options of pools")
    migration_prepare_import = absent("move images from outside the cluster")
    mirror_site_name_get = mirror_site_name_set = absent("mirror images")
    mirror_mode_get = mirror_mode_set = mirror_uuid_get = absent("mirror images")
    mirror_peer_bootstrap_create = mirror_peer_bootstrap_import = absent("mirror images")
    mirror_peer_add = mirror_peer_remove = mirror_peer_list = absent("mirror images")
    mirror_peer_set_client = mirror_peer_set_name = mirror_peer_set_cluster = absent("mirror images")
    mirror_peer_get_attributes = mirror_peer_set_attributes = absent("mirror images")
    mirror_image_status_list = mirror_image_status_summary = absent("mirror images")
    mirror_image_instance_id_list = mirror_image_info_list = absent("mirror images")
