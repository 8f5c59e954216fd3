"""Images, by the names of python3-rbd."""

import datetime
import unittest

from ground import PoolCase
from loligo import rbd

MIB = 1 << 20


class Images(PoolCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with cls.cluster.open_ioctx(cls.pool_name) as pool:
            rbd.RBD().pool_init(pool, True)

    def setUp(self):
        super().setUp()
        self.rbd = rbd.RBD()

    def made(self, name, size=8 * MIB, **options):
        self.rbd.create(self.pool, name, size, **options)
        return rbd.Image(self.pool, name)

    def test_create_and_list(self):
        self.assertEqual(self.rbd.list(self.pool), [])
        with self.made("listed", order=20, features=rbd.RBD_FEATURE_LAYERING) as image:
            info = image.stat()
            self.assertEqual((info["size"], info["order"], info["num_objs"]), (8 * MIB, 20, 8))
            self.assertEqual((image.features(), image.stripe_count()), (1, 1))
            self.assertFalse(image.old_format())
            number = image.id()
            now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
            self.assertLess(abs((image.create_timestamp() - now).total_seconds()), 3600)
        self.assertEqual(list(self.rbd.list2(self.pool)), [{"id": number, "name": "listed"}])
        with self.assertRaises(rbd.ImageExists):
            self.rbd.create(self.pool, "listed", MIB)
        with rbd.Image(self.pool, image_id=number) as image:
            self.assertEqual(image.get_name(), "listed")
        self.rbd.rename(self.pool, "listed", "renamed")
        told = []
        self.rbd.remove(self.pool, "renamed", on_progress=lambda done, total: told.append(total))
        self.assertTrue(told)
        with self.assertRaises(rbd.ImageNotFound):
            rbd.Image(self.pool, "renamed")
        with self.assertRaises(rbd.ArgumentOutOfRange):
            self.rbd.create(self.pool, "wrong", MIB, order=11)
        with self.assertRaises(rbd.InvalidArgument):
            self.rbd.create(self.pool, "wrong", MIB, features=3, stripe_unit=4096)
        self.assertEqual(self.rbd.features_from_string("layering,exclusive-lock"), 5)
        self.assertEqual(self.rbd.features_to_string(5), "exclusive-lock,layering")

    def test_data(self):
        with self.made("data") as image:
            self.assertEqual(image.write(b"x" * 100, 50), 100)
            self.assertEqual(image.read(49, 3), b"\0xx")
            self.assertEqual(image.write(b"end", 8 * MIB - 2), 2)
            self.assertEqual(image.read(8 * MIB - 2, 100), b"en")
            with self.assertRaises(rbd.InvalidArgument):
                image.read(8 * MIB, 1)
            self.assertEqual(image.discard(60, 10), 10)
            self.assertEqual(image.write_zeroes(0, 55), 55)
            self.assertEqual(image.read(0, 56), b"\0" * 55 + b"x")
            image.flush()
            image.resize(4 * MIB)
            self.assertEqual(image.size(), 4 * MIB)
            self.assertEqual(image.flags(), 0)
        with rbd.Image(self.pool, "data", read_only=True) as image:
            with self.assertRaises(rbd.ReadOnlyImage):
                image.write(b"x", 0)
        with self.assertRaises(rbd.InvalidArgument):
            image.size()
        self.rbd.remove(self.pool, "data")

    def test_in_the_background(self):
        opened = []
        with self.made("behind"):
            pass
        done = self.rbd.aio_open_image(lambda completion, image: opened.append(image), self.pool, "behind")
        done.wait_for_complete_and_cb()
        (image,) = opened
        told = []
        writes = [image.aio_write(bytes([n]) * 512, 512 * n, told.append) for n in range(64)]
        for write in writes:
            write.wait_for_complete_and_cb()
        self.assertEqual(sorted(map(id, told)), sorted(map(id, writes)))
        read = []
        done = image.aio_read(512 * 7, 512, lambda completion, data: read.append(data))
        done.wait_for_complete_and_cb()
        self.assertEqual((read, done.get_return_value()), ([bytes([7]) * 512], 512))
        done = image.aio_read(8 * MIB, 1, lambda completion, data: read.append(data))
        done.wait_for_complete_and_cb()
        self.assertIsNone(read[-1])
        self.assertLess(done.get_return_value(), 0)

        def fail(completion):
            raise KeyError("on purpose")

        with self.assertRaises(KeyError):
            image.aio_flush(fail).wait_for_complete_and_cb()
        closed = []
        image.aio_close(closed.append).wait_for_complete_and_cb()
        self.assertEqual(len(closed), 1)
        self.rbd.remove(self.pool, "behind")

    def test_snapshots(self):
        with self.made("snapped") as image:
            image.write(b"one", 0)
            image.create_snap("a")
            image.write(b"two", 0)
            image.protect_snap("a")
            self.assertTrue(image.is_protected_snap("a"))
            (snap,) = image.list_snaps()
            self.assertEqual((snap["name"], snap["namespace"]), ("a", rbd.RBD_SNAP_NAMESPACE_TYPE_USER))
            self.assertEqual(image.snap_get_id("a"), snap["id"])
            image.set_snap("a")
            self.assertEqual(image.read(0, 3), b"one")
            image.set_snap(None)
            self.assertEqual(image.read(0, 3), b"two")
            changed = []
            image.diff_iterate(0, 8 * MIB, "a", lambda *change: changed.append(change))
            self.assertEqual(changed[0][0], 0)
            self.assertTrue(changed[0][2])
            with self.assertRaises(TypeError):
                image.diff_iterate(0, 1, 1.0, None)
            image.rollback_to_snap("a")
            self.assertEqual(image.read(0, 3), b"one")
            with self.assertRaises(rbd.ImageBusy):
                image.remove_snap("a")
            image.remove_snap2("a", rbd.RBD_SNAP_REMOVE_UNPROTECT)
            self.assertFalse(image.snap_exists("a"))
            image.set_snap_limit(1)
            self.assertEqual(image.get_snap_limit(), 1)
            image.create_snap("b")
            with self.assertRaises(rbd.DiskQuotaExceeded):
                image.create_snap("c")
            image.remove_snap_limit()
            image.remove_snap("b")
        self.rbd.remove(self.pool, "snapped")

    def test_clones(self):
        with self.made("parent") as image:
            image.write(b"inherited", 0)
            image.create_snap("a")
            image.protect_snap("a")
            self.rbd.clone(self.pool, "parent", "a", self.pool, "child")
            with rbd.Image(self.pool, "child") as child:
                self.assertEqual(child.parent_info(), (self.pool_name, "parent", "a"))
                self.assertEqual(child.read(0, 9), b"inherited")
                self.assertEqual(image.list_children(), [(self.pool_name, "child")])
                (found,) = image.list_descendants()
                self.assertEqual((found["image"], found["id"]), ("child", child.id()))
                child.flatten()
                with self.assertRaises(rbd.ImageNotFound):
                    child.parent_info()
                child.copy(self.pool, "copy")
            with rbd.Image(self.pool, "copy") as copy:
                self.assertEqual(copy.read(0, 9), b"inherited")
            image.unprotect_snap("a")
            image.remove_snap("a")
        for name in ("child", "copy", "parent"):
            self.rbd.remove(self.pool, name)

    def test_metadata_locks_and_watchers(self):
        with self.made("told") as image:
            image.metadata_set("key", "value")
            self.assertEqual(list(image.metadata_list()), [("key", "value")])
            image.metadata_remove("key")
            with self.assertRaises(KeyError):
                image.metadata_get("key")
            self.assertEqual(image.list_lockers(), [])
            image.write(b"x", 0)
            self.assertTrue(image.is_exclusive_lock_owner())
            self.assertEqual(len(list(image.watchers_list())), 1)
            self.assertEqual(image.group(), {"pool": -1, "name": ""})
        self.rbd.remove(self.pool, "told")

    def test_trash_groups_and_namespaces(self):
        with self.made("thrown") as image:
            number = image.id()
        self.rbd.trash_move(self.pool, "thrown", 3600)
        (trashed,) = self.rbd.trash_list(self.pool)
        self.assertEqual((trashed["id"], trashed["source"]), (number, "USER"))
        with self.assertRaises(rbd.PermissionError):
            self.rbd.trash_remove(self.pool, number)
        self.rbd.trash_restore(self.pool, number, "back")
        self.rbd.group_create(self.pool, "group")
        group = rbd.Group(self.pool, "group")
        group.add_image(self.pool, "back")
        self.assertEqual([image["name"] for image in group.list_images()], ["back"])
        group.create_snap("both")
        with rbd.Image(self.pool, "back") as image:
            (snap,) = image.list_snaps()
            found = snap["group"]
            self.assertEqual((found["group_name"], found["group_snap_name"]), ("group", "both"))
        group.remove_snap("both")
        self.rbd.group_remove(self.pool, "group")
        self.rbd.namespace_create(self.pool, "space")
        self.assertTrue(self.rbd.namespace_exists(self.pool, "space"))
        self.pool.set_namespace("space")
        with self.made("within"):
            pass
        self.assertEqual(self.rbd.list(self.pool), ["within"])
        self.rbd.remove(self.pool, "within")
        self.pool.set_namespace("")
        self.rbd.namespace_remove(self.pool, "space")
        self.rbd.remove(self.pool, "back")

    def test_progress_can_end_a_change(self):
        self.made("ended", size=64 * MIB).close()
        with self.assertRaises(rbd.OperationCanceled):
            self.rbd.remove(self.pool, "ended", on_progress=lambda done, total: -rbd.ECANCELED)
        self.rbd.remove(self.pool, "ended")

    def test_what_is_not_here_says_so(self):
        with self.assertRaises(rbd.FunctionNotSupported) as caught:
            self.rbd.mirror_mode_get(self.pool)
        self.assertIn("mirror", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
