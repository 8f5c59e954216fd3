"""Clusters for tests. They run within the process, and start in milliseconds.

::

    with loligo.testing.Server(pools=["p"]) as server:
        with server.rados() as cluster, cluster.open_ioctx("p") as pool:
            pool.write_full("greeting", b"hello")

pytest has them as fixtures without an import (``ceph_conf``, ``ceph_pool`` and others, see
``loligo.testing.pytest_plugin``), and unittest as ``CephMixin``. Programs that a test starts find the cluster
through ``CEPH_CONF``: ``subprocess.run(..., env={**os.environ, **server.env})``.
"""

import atexit
import itertools
import os
import threading
import weakref
from typing import Any, Dict, Iterable, List, Optional

from loligo import _native, rados

__all__ = ["CephMixin", "Server", "fresh_namespace", "shared_server"]

_running: "weakref.WeakSet[Server]" = weakref.WeakSet()
_numbers = itertools.count(1)


def fresh_namespace() -> str:
    """Returns the name of a namespace that no other test of this process has."""
    return "test-{0}-{1}".format(os.getpid(), next(_numbers))


class Server:
    """A cluster within the process. It starts with ``with`` or ``start``."""

    def __init__(
        self,
        pools: Iterable[str] = ("pool",),
        store: str = "memory",
        data_dir: Optional[str] = None,
        auth: str = "cephx",
        osds: Optional[int] = None,
        pg_num: Optional[int] = None,
    ) -> None:
        """``store``: ``memory`` or ``disk``, which needs a folder, ``data_dir``. ``auth``: ``cephx`` or
        ``none``. ``osds``: how many OSDs clients see."""
        if isinstance(pools, str):
            raise TypeError("pools is a list of names")
        if store not in ("memory", "disk"):
            raise ValueError("store is memory or disk, not {0!r}".format(store))
        if auth not in ("cephx", "none"):
            raise ValueError("auth is cephx or none, not {0!r}".format(auth))
        self.pools: List[str] = list(pools)
        self._options = (data_dir, store == "disk", auth == "cephx", osds, pg_num)
        self._server: Any = None

    def start(self) -> "Server":
        """Starts the cluster. When this returns, clients can connect."""
        if self._server is None:
            self._server = _native.Server(self.pools, *self._options)
            _running.add(self)
        return self

    def stop(self) -> None:
        """Stops the cluster, and waits for its end."""
        server, self._server = self._server, None
        _running.discard(self)
        if server is not None:
            server.stop()

    def __enter__(self) -> "Server":
        return self.start()

    def __exit__(self, type_: Any, value: Any, traceback: Any) -> None:
        self.stop()

    def _started(self) -> Any:
        if self._server is None:
            raise RuntimeError("the server does not run: use it with `with`, or call start()")
        return self._server

    @property
    def conf(self) -> str:
        """The configuration file for clients."""
        return os.fspath(self._started().conf)

    @property
    def env(self) -> Dict[str, str]:
        """The variables by which programs find the cluster."""
        return {"CEPH_CONF": self.conf}

    @property
    def mon_addr(self) -> str:
        """The monitor's address."""
        return self._started().mon_addr

    @property
    def startup(self) -> float:
        """How many seconds the start took."""
        return self._started().startup

    def mark(self) -> None:
        """Makes the present state the one that ``reset`` returns to: objects, pools, users and settings."""
        self._started().mark()

    def reset(self) -> None:
        """Returns within milliseconds to the state after the start, or after ``mark``: each test has a world of
        its own. Clients stay connected, or connect again by themselves; watches are gone. A server with a store
        on disk refuses (``RuntimeError``)."""
        self._started().reset()

    def dump(self, path: "os.PathLike[str] | str") -> None:
        """Writes the whole state to a file, which has the cluster's keys: only its owner may read it."""
        self._started().dump(os.fspath(path))

    def restore(self, path: "os.PathLike[str] | str") -> None:
        """Returns to the state of a file that ``dump`` has written, on this server or on another one."""
        self._started().restore(os.fspath(path))

    def rados(self, **arguments: Any) -> rados.Rados:
        """Returns a client, which connects with ``with`` or ``connect``. The arguments are those of
        ``loligo.rados.Rados``."""
        return rados.Rados(**dict(arguments, conffile=self.conf))


def _stop_all() -> None:
    for server in list(_running):
        server.stop()


# A server removes its folder when it stops.
atexit.register(_stop_all)

_shared: Optional[Server] = None
_sharing = threading.Lock()


def _forget_shared() -> None:
    global _shared, _sharing
    _shared, _sharing = None, threading.Lock()


# A child after fork has no threads of the server: it gets one of its own.
os.register_at_fork(after_in_child=_forget_shared)


def shared_server(pools: Iterable[str] = ("pool",)) -> Server:
    """Returns the cluster that all tests of this process share, with these pools."""
    global _shared
    with _sharing:
        if _shared is None:
            _shared = Server(pools=pools).start()
        missing = [pool for pool in pools if pool not in _shared.pools]
        if missing:
            with _shared.rados() as cluster:
                for pool in missing:
                    cluster.create_pool(pool)
                    _shared.pools.append(pool)
        return _shared


class CephMixin:
    """For classes of unittest tests: ``self.ceph_pool`` is the first pool of the cluster, in a namespace of
    the test's own; ``self.ceph_conf`` is the cluster's configuration file."""

    #: The pools that the tests need.
    ceph_pools: Iterable[str] = ("pool",)

    ceph_server: Server
    ceph_rados: rados.Rados

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()  # type: ignore[misc]
        cls.ceph_server = shared_server(cls.ceph_pools)
        cls.ceph_rados = cls.ceph_server.rados()
        cls.ceph_rados.connect()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.ceph_rados.shutdown()
        super().tearDownClass()  # type: ignore[misc]

    def setUp(self) -> None:
        super().setUp()  # type: ignore[misc]
        self.ceph_conf = self.ceph_server.conf
        self.ceph_pool = self.ceph_rados.open_ioctx(next(iter(self.ceph_pools)))
        self.ceph_pool.set_namespace(fresh_namespace())

    def tearDown(self) -> None:
        self.ceph_pool.close()
        super().tearDown()  # type: ignore[misc]
