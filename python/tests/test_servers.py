"""Clusters for tests: `loligo.testing`."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

from loligo import rados, testing


class Servers(unittest.TestCase):
    def test_a_server_in_a_with_statement(self):
        with testing.Server(pools=["one", "two"]) as server:
            self.assertTrue(os.path.exists(server.conf))
            self.assertEqual(server.env, {"CEPH_CONF": server.conf})
            self.assertGreater(server.startup, 0)
            with server.rados() as cluster, cluster.open_ioctx("two") as pool:
                self.assertTrue({"one", "two"} <= set(cluster.list_pools()))
                pool.write_full("a", b"1")
                self.assertEqual(pool.read("a"), b"1")
            conf = server.conf
        self.assertFalse(os.path.exists(conf))
        with self.assertRaises(RuntimeError):
            server.conf

    def test_two_servers_are_two_clusters(self):
        with testing.Server() as one, testing.Server() as other:
            with one.rados() as first, other.rados() as second:
                self.assertNotEqual(first.get_fsid(), second.get_fsid())

    def test_a_server_on_disk_keeps_objects(self):
        with tempfile.TemporaryDirectory() as folder:
            for number in range(2):
                with testing.Server(store="disk", data_dir=folder) as server, server.rados() as cluster:
                    with cluster.open_ioctx("pool") as pool:
                        if number == 0:
                            pool.write_full("kept", b"1")
                        self.assertEqual(pool.read("kept"), b"1")

    def test_each_test_has_a_world_of_its_own(self):
        with testing.Server(pools=["pool"]) as server, server.rados() as cluster:
            with cluster.open_ioctx("pool") as pool:
                pool.write_full("first", b"1")
                server.mark()
                pool.write_full("first", b"2")
                pool.write_full("second", b"2")
                cluster.create_pool("later")
                server.reset()
                self.assertEqual(pool.read("first"), b"1")
                self.assertEqual([found.key for found in pool.list_objects()], ["first"])
            self.assertNotIn("later", cluster.list_pools())
        with self.assertRaises(RuntimeError):
            server.reset()

    def test_a_server_begins_where_another_one_was(self):
        with tempfile.TemporaryDirectory() as folder:
            state = os.path.join(folder, "state")
            with testing.Server() as server, server.rados() as cluster, cluster.open_ioctx("pool") as pool:
                pool.write_full("kept", b"1")
                server.dump(state)
            self.assertEqual(os.stat(state).st_mode & 0o777, 0o600)
            with testing.Server() as server:
                server.restore(state)
                with server.rados() as cluster, cluster.open_ioctx("pool") as pool:
                    self.assertEqual(pool.read("kept"), b"1")
                with self.assertRaises(RuntimeError):
                    server.restore(os.path.join(folder, "nothing"))
            with testing.Server(store="disk", data_dir=folder) as server, self.assertRaises(RuntimeError):
                server.reset()

    def test_wrong_arguments(self):
        with self.assertRaises(TypeError):
            testing.Server(pools="pool")
        for wrong in ({"store": "tape"}, {"auth": "magic"}):
            with self.assertRaises(ValueError):
                testing.Server(**wrong)
        with self.assertRaises(ValueError):
            testing.Server(store="disk").start()
        with self.assertRaises(ValueError):
            testing.Server(osds=0).start()

    def test_a_program_that_ends_leaves_nothing(self):
        script = "from loligo import testing; print(testing.Server().start().conf)"
        done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True, timeout=100)
        conf = done.stdout.decode().strip()
        self.assertTrue(conf.endswith("ceph.conf"), conf)
        self.assertFalse(os.path.exists(os.path.dirname(conf)))

    def test_a_child_of_a_program_with_a_server(self):
        script = """
import multiprocessing
from loligo import testing
server = testing.Server().start()
def work(number):
    with server.rados() as cluster, cluster.open_ioctx("pool") as pool:
        pool.write_full("from-%d" % number, b"1")
with server.rados() as cluster, cluster.open_ioctx("pool") as pool:
    pool.write_full("mine", b"1")
    with multiprocessing.get_context("fork").Pool(2) as workers:
        workers.map(work, range(4))
    names = sorted(one.key for one in pool.list_objects())
    assert names == ["from-0", "from-1", "from-2", "from-3", "mine"], names
server.stop()
"""
        subprocess.run([sys.executable, "-c", script], check=True, timeout=100)


class Mixin(testing.CephMixin, unittest.TestCase):
    ceph_pools = ("mine", "yours")

    def test_a_namespace_of_its_own(self):
        self.assertEqual(list(self.ceph_pool.list_objects()), [])
        self.ceph_pool.write_full("left", b"1")

    def test_another_namespace_of_its_own(self):
        self.assertEqual(list(self.ceph_pool.list_objects()), [])
        self.ceph_pool.write_full("left", b"1")
        self.assertTrue(self.ceph_rados.pool_exists("yours"))
        with rados.Rados(conffile=self.ceph_conf) as cluster:
            self.assertEqual(cluster.get_fsid(), self.ceph_rados.get_fsid())


@unittest.skipUnless(importlib.util.find_spec("pytest"), "pytest is not installed")
class Pytest(unittest.TestCase):
    def test_fixtures(self):
        tests = """
            import os, subprocess, sys
            import pytest
            from loligo import rbd

            @pytest.mark.parametrize("number", range(3))
            def test_a_namespace_of_its_own(ceph_pool, number):
                assert list(ceph_pool.list_objects()) == []
                assert ceph_pool.name == "first"
                ceph_pool.write_full("left", b"1")

            def test_an_image(ceph_image):
                image = ceph_image(8 << 20)
                image.write(b"x", 0)
                image.create_snap("a")
                assert image.read(0, 1) == b"x"

            def test_images_are_gone(ceph_rados):
                with ceph_rados.open_ioctx("first") as pool:
                    assert rbd.RBD().list(pool) == []

            def test_programs_find_the_cluster(ceph_conf, ceph_rados):
                assert os.environ["CEPH_CONF"] == ceph_conf
                script = "import loligo.rados as r; c = r.Rados(conffile=''); c.connect(); print(c.get_fsid())"
                done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
                assert done.stdout.decode().strip() == ceph_rados.get_fsid()
        """
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "test_it.py"), "w") as file:
                file.write(textwrap.dedent(tests))
            with open(os.path.join(folder, "pytest.ini"), "w") as file:
                file.write("[pytest]\nceph_pools = first second\n")
            # A wheel names the plugin as an entry point; here the package is not installed.
            command = [sys.executable, "-m", "pytest", "-q", "-p", "loligo.testing.pytest_plugin"]
            done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, timeout=100)
            said = done.stdout.decode()
            self.assertEqual(done.returncode, 0, said)
            self.assertIn("6 passed", said)


class Measures(unittest.TestCase):
    def test_the_server_tells_how_long_it_took(self):
        script = """
import json, time
begun = time.perf_counter()
from loligo import testing
imported = time.perf_counter()
with testing.Server() as server:
    started = time.perf_counter()
    print(json.dumps({"import": imported - begun, "start": started - imported, "server": server.startup}))
"""
        done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True, timeout=100)
        took = json.loads(done.stdout)
        self.assertLessEqual(took["server"], took["start"])


if __name__ == "__main__":
    unittest.main()
