"""Objects, by the names of python3-rados."""

import errno
import json
import os
import subprocess
import sys
import threading
import time
import unittest

from ground import PoolCase, conf
from loligo import rados


class Clients(unittest.TestCase):
    def test_states(self):
        cluster = rados.Rados(conffile=conf())
        self.assertEqual(cluster.state, "configuring")
        with self.assertRaises(rados.RadosStateError):
            cluster.list_pools()
        with cluster:
            self.assertEqual(cluster.state, "connected")
            self.assertEqual(len(cluster.get_fsid()), 36)
            with self.assertRaises(rados.RadosStateError):
                cluster.connect()
        self.assertEqual(cluster.state, "shutdown")
        cluster.shutdown()
        with self.assertRaises(rados.RadosStateError):
            cluster.conf_get("fsid")

    def test_names_and_options(self):
        with self.assertRaises(rados.Error):
            rados.Rados(rados_id="a", name="client.a")
        with self.assertRaises(rados.Error):
            rados.Rados(name="nonsense")
        with self.assertRaises(rados.ObjectNotFound):
            rados.Rados(conffile="/no/such/file")
        cluster = rados.Rados(conf={"rbd_default_order": "20"})
        self.assertEqual(cluster.conf_get("rbd_default_order"), "20")
        self.assertIsNone(cluster.conf_get("no_such_option"))
        with self.assertRaises(rados.ObjectNotFound):
            cluster.conf_set("no_such_option", "1")
        words = ["osd", "", "--rbd-default-order", "21", "--yes"]
        self.assertEqual(cluster.conf_parse_argv(words), ["osd", "", "--yes"])
        self.assertEqual(cluster.conf_get("rbd_default_order"), "21")

    def test_a_wrong_key_is_refused(self):
        cluster = rados.Rados(name="client.nobody", conffile=conf(), conf={"client_mount_timeout": "20"})
        cluster.conf_set("key", "AQAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAA==")
        with self.assertRaises(rados.Error) as caught:
            cluster.connect()
        self.assertIn(caught.exception.errno, (errno.EACCES, errno.EPERM, errno.ENOENT))

    def test_pools_and_commands(self):
        with rados.Rados(conffile=conf()) as cluster:
            name = "python-made-{0}".format(os.getpid())
            cluster.create_pool(name)
            with self.assertRaises(rados.ObjectExists):
                cluster.create_pool(name)
            self.assertTrue(cluster.pool_exists(name))
            number = cluster.pool_lookup(name)
            self.assertEqual(cluster.pool_reverse_lookup(number), name)
            self.assertEqual(cluster.open_ioctx2(number).get_pool_name(), name)
            cluster.delete_pool(name)
            self.assertFalse(cluster.pool_exists(name))
            with self.assertRaises(rados.ObjectNotFound):
                cluster.open_ioctx(name)
            with self.assertRaises(TypeError):
                cluster.create_pool(3)
            result, output, _ = cluster.mon_command(json.dumps({"prefix": "mon dump", "format": "json"}), b"")
            self.assertEqual(result, 0)
            monitor = json.loads(output)["mons"][0]["name"]
            self.assertIn("health", json.loads(cluster.ping_monitor(monitor)))
            result, output, status = cluster.mon_command(json.dumps({"prefix": "no such"}), b"")
            self.assertEqual(result, -errno.EINVAL)
            self.assertEqual(output, b"")
            self.assertTrue(status)
            self.assertGreater(cluster.get_cluster_stats()["kb"], 0)


class Objects(PoolCase):
    def test_data(self):
        pool = self.pool
        pool.write("data", b"hello")
        pool.write("data", bytearray(b"HE"), 0)
        pool.append("data", memoryview(b" world"))
        self.assertEqual(pool.read("data"), b"HEllo world")
        self.assertEqual(pool.read("data", 3, 8), b"rld")
        self.assertEqual(pool.read("data", 0), b"")
        pool.trunc("data", 2)
        size, changed = pool.stat("data")
        self.assertEqual(size, 2)
        self.assertLess(abs(time.mktime(changed) - time.time()), 3600)
        pool.writesame("data", b"ab", 6)
        self.assertEqual(pool.read("data"), b"ababab")
        self.assertEqual(pool.cmpext("data", b"ab"), 0)
        self.assertEqual(pool.cmpext("data", b"aX"), -rados.MAX_ERRNO - 1)
        self.assertGreater(pool.get_last_version(), 0)
        self.assertTrue(pool.remove_object("data"))
        with self.assertRaises(rados.ObjectNotFound) as caught:
            pool.read("data")
        self.assertEqual(caught.exception.errno, errno.ENOENT)
        self.assertIn("data", str(caught.exception))
        for wrong in ("text", 7, None):
            with self.assertRaises(TypeError):
                pool.write("data", wrong)

    def test_attributes(self):
        self.pool.write_full("attributes", b"")
        self.pool.set_xattr("attributes", "one", b"1\0")
        self.assertEqual(self.pool.get_xattr("attributes", "one"), b"1\0")
        self.assertEqual(dict(self.pool.get_xattrs("attributes")), {"one": b"1\0"})
        self.pool.rm_xattr("attributes", "one")
        with self.assertRaises(rados.NoData):
            self.pool.get_xattr("attributes", "one")
        self.pool.remove_object("attributes")

    def test_lists_and_namespaces(self):
        for space in ("", "x", "y"):
            self.pool.set_namespace(space)
            self.pool.write_full("in-" + space, b"1")
        self.pool.set_namespace("x")
        self.assertEqual([found.key for found in self.pool.list_objects()], ["in-x"])
        self.pool.set_namespace(rados.LIBRADOS_ALL_NSPACES)
        found = sorted((found.nspace, found.key) for found in self.pool.list_objects())
        self.assertEqual(found, [("", "in-"), ("x", "in-x"), ("y", "in-y")])
        for one in list(self.pool.list_objects()):
            self.assertEqual(one.read(), b"1")
            one.remove()
        self.assertEqual(list(self.pool.list_objects()), [])

    def test_omaps(self):
        with rados.WriteOpCtx() as op:
            op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
            self.pool.set_omap(op, ("a", "b", b"\xff"), (b"1", "2", b"3"))
            self.pool.operate_write_op(op, "omap")
        with rados.ReadOpCtx() as op:
            values, result = self.pool.get_omap_vals(op, "", "", 10, omap_key_type=bytes)
            keys, _ = self.pool.get_omap_keys(op, "a", 1)
            some, _ = self.pool.get_omap_vals_by_keys(op, ("b", "z"))
            self.pool.operate_read_op(op, "omap")
            self.assertEqual(result, 0)
            self.assertEqual(list(values), [(b"a", b"1"), (b"b", b"2"), (b"\xff", b"3")])
            self.assertEqual(list(keys), [("b", None)])
            self.assertEqual(list(some), [("b", b"2")])
        with rados.WriteOpCtx() as op:
            op.omap_cmp("a", "2")
            self.pool.clear_omap(op)
            with self.assertRaises(rados.OSError) as caught:
                self.pool.operate_write_op(op, "omap")
            self.assertEqual(caught.exception.errno, errno.ECANCELED)
        self.pool.remove_object("omap")

    def test_requests_compare(self):
        with rados.WriteOpCtx() as op:
            op.write_full(b"12345")
            op.set_xattr("a", b"1")
            self.pool.operate_write_op(op, "compared", mtime=1000)
        self.assertEqual(time.mktime(self.pool.stat("compared")[1]), 1000)
        with rados.WriteOpCtx() as op:
            op.cmpext(b"12x", 0)
            op.remove()
            with self.assertRaises(rados.ExtendMismatch) as caught:
                self.pool.operate_write_op(op, "compared")
            self.assertEqual(caught.exception.offset, 2)
        self.assertEqual(self.pool.read("compared"), b"12345")
        self.pool.remove_object("compared")

    def test_in_the_background(self):
        told = []
        first = self.pool.aio_write("behind", b"a" * 10, 0, told.append, told.append)
        more = [self.pool.aio_append("behind", str(number).encode(), told.append) for number in range(300)]
        self.pool.aio_flush()
        self.assertTrue(all(one.is_complete() for one in [first] + more))
        wanted = b"a" * 10 + b"".join(str(number).encode() for number in range(300))
        self.assertEqual(self.pool.read("behind", 4096), wanted)
        more[-1].wait_for_complete_and_cb()
        self.assertEqual(told, [first, first] + more)
        read = []
        done = self.pool.aio_read("behind", 3, 8, lambda completion, data: read.append(data))
        done.wait_for_complete_and_cb()
        self.assertEqual((read, done.get_return_value()), ([b"aa0"], 3))
        gone = self.pool.aio_remove("behind")
        gone.wait_for_complete()
        sized = []
        done = self.pool.aio_stat("behind", lambda completion, size, changed: sized.append(size))
        done.wait_for_complete_and_cb()
        self.assertEqual((sized, done.get_return_value()), ([None], -errno.ENOENT))

    def test_callbacks_may_use_the_library(self):
        found = []

        def tell(completion):
            found.append(self.pool.read("within"))

        self.pool.aio_write_full("within", b"x", tell).wait_for_complete_and_cb()
        self.assertEqual(found, [b"x"])
        self.pool.remove_object("within")

    def test_snapshots(self):
        pool = self.pool
        pool.write_full("kept", b"old")
        pool.create_snap("first")
        pool.write_full("kept", b"new")
        self.assertEqual([snap.name for snap in pool.list_snaps()], ["first"])
        snap = pool.lookup_snap("first")
        self.assertLess(abs(time.time() - snap.get_timestamp().timestamp()), 3600)
        pool.set_read(snap.snap_id)
        self.assertEqual(pool.read("kept"), b"old")
        pool.set_read(rados.LIBRADOS_SNAP_HEAD)
        pool.snap_rollback("kept", "first")
        self.assertEqual(pool.read("kept"), b"old")
        pool.remove_snap("first")
        with self.assertRaises(rados.ObjectNotFound):
            pool.lookup_snap("first")
        pool.remove_object("kept")

    def test_locks(self):
        self.pool.lock_exclusive("locked", "lock", "mine", "a test", 100)
        with self.assertRaises(rados.ObjectExists):
            self.pool.lock_exclusive("locked", "lock", "mine")
        with self.assertRaises(rados.ObjectBusy):
            self.pool.lock_shared("locked", "lock", "other", "tag")
        self.pool.unlock("locked", "lock", "mine")
        with self.assertRaises(rados.ObjectNotFound):
            self.pool.unlock("locked", "lock", "mine")
        self.pool.remove_object("locked")

    def test_watches(self):
        self.pool.write_full("watched", b"")
        told, broken = [], threading.Event()
        watch = self.pool.watch(
            "watched",
            lambda notify, notifier, cookie, data: told.append(data) or b"answer to " + data,
            lambda cookie, error: broken.set(),
        )
        self.assertGreaterEqual(watch.check().total_seconds(), 0)
        self.assertTrue(self.pool.notify("watched", "one"))
        answered = []
        done = self.pool.aio_notify("watched", lambda *arguments: answered.append(arguments[1:]), "two")
        done.wait_for_complete_and_cb()
        ((result, answers, missing),) = answered
        self.assertEqual((result, missing), (0, []))
        self.assertEqual([data for _, _, data in answers], [b"answer to two"])
        self.assertEqual(told, [b"one", b"two"])
        self.pool.remove_object("watched")
        self.assertTrue(broken.wait(100))
        with self.assertRaises(rados.NotConnected):
            watch.check()
        watch.close()

    def test_threads_do_not_wait_for_each_other(self):
        # While one thread waits for a lock that another client must give back, the others work.
        self.pool.write_full("free", b"1")
        stop, counts = threading.Event(), []

        def read():
            count = 0
            while not stop.is_set():
                count += self.pool.read("free") == b"1"
            counts.append(count)

        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for number in range(200):
            self.pool.write_full("other", str(number).encode())
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(len([count for count in counts if count > 0]), 8)
        self.pool.remove_object("free")
        self.pool.remove_object("other")

    def test_a_child_gets_an_error_and_connects_anew(self):
        if not hasattr(os, "fork"):
            self.skipTest("this system has no fork")
        self.pool.write_full("parent", b"1")
        script = """
import os, sys
from loligo import rados
with rados.Rados(conffile=sys.argv[1]) as cluster, cluster.open_ioctx(sys.argv[2]) as pool:
    child = os.fork()
    if child == 0:
        try:
            pool.read("parent")
        except rados.NotConnected:
            with rados.Rados(conffile=sys.argv[1]) as own, own.open_ioctx(sys.argv[2]) as other:
                ok = other.read("parent") == b"1"
        del pool, cluster
        os._exit(0 if ok else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    assert pool.read("parent") == b"1"
"""
        command = [sys.executable, "-c", script, conf(), self.pool_name]
        subprocess.run(command, check=True, timeout=100)
        self.pool.remove_object("parent")

    def test_a_signal_ends_a_wait(self):
        # The watcher sleeps for longer than the test waits, so only the signal ends the notification.
        script = """
import os, signal, sys, threading, time
from loligo import rados
with rados.Rados(conffile=sys.argv[1]) as cluster, cluster.open_ioctx(sys.argv[2]) as pool:
    pool.write_full("waits", b"")
    watch = pool.watch("waits", lambda *arguments: time.sleep(60))
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        pool.notify("waits", "x", 50000)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        os._exit(0)
"""
        command = [sys.executable, "-c", script, conf(), self.pool_name]
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=100)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, b"interrupted"))
        self.pool.remove_object("waits")

    def test_a_closed_pool_fails(self):
        pool = self.cluster.open_ioctx(self.pool_name)
        pool.close()
        with self.assertRaises(rados.IoctxStateError):
            pool.read("x")


if __name__ == "__main__":
    unittest.main()
