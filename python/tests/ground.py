"""What the tests stand on: a cluster within the process, or a stock one that LOLIGO_TEST_CONF names."""

import os
import unittest

from loligo import rados, testing


def conf():
    """The configuration file of the cluster."""
    return os.environ.get("LOLIGO_TEST_CONF") or testing.shared_server().conf


class PoolCase(unittest.TestCase):
    """Tests with a pool of their own, `self.pool`."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = rados.Rados(conffile=conf())
        cls.cluster.connect()
        cls.pool_name = "python-{0}-{1}".format(cls.__name__.lower(), os.getpid())
        cls.cluster.create_pool(cls.pool_name)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.delete_pool(cls.pool_name)
        cls.cluster.shutdown()

    def setUp(self):
        self.pool = self.cluster.open_ioctx(self.pool_name)

    def tearDown(self):
        self.pool.close()
