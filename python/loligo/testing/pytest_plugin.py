"""Fixtures of pytest. They are there when the package is installed.

=================  =======  =====================================================================
fixture            scope    what it is
=================  =======  =====================================================================
``ceph_server``    session  the cluster, a ``loligo.testing.Server``
``ceph_conf``      session  its configuration file; programs find it through ``CEPH_CONF``
``ceph_rados``     session  a connected client, a ``loligo.rados.Rados``
``ceph_pool``      test     the first pool, a ``loligo.rados.Ioctx``, in a namespace of the test's
``ceph_image``     test     makes images that are removed after the test: ``ceph_image(size)``
=================  =======  =====================================================================

The pools of the cluster are those of the option ``ceph_pools`` (``pytest.ini``, ``pyproject.toml``); ``pool``
if it is not set.
"""

from typing import Any, Callable, Iterator, List, Tuple

import pytest

from loligo import rados, rbd, testing


def pytest_addoption(parser: Any) -> None:
    """Adds the option."""
    parser.addini("ceph_pools", "the pools of the cluster for tests", type="args", default=["pool"])


@pytest.fixture(scope="session")
def ceph_server(request: Any) -> Iterator[testing.Server]:
    """The cluster of the session."""
    with testing.Server(pools=request.config.getini("ceph_pools")) as server:
        yield server


@pytest.fixture(scope="session")
def ceph_conf(ceph_server: testing.Server) -> Iterator[str]:
    """The cluster's configuration file, which ``CEPH_CONF`` names during the session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CEPH_CONF", ceph_server.conf)
        yield ceph_server.conf


@pytest.fixture(scope="session")
def ceph_rados(ceph_conf: str) -> Iterator[rados.Rados]:
    """A connected client."""
    with rados.Rados(conffile=ceph_conf) as cluster:
        yield cluster


@pytest.fixture
def ceph_pool(ceph_rados: rados.Rados, ceph_server: testing.Server) -> Iterator[rados.Ioctx]:
    """The first pool of the cluster, in a namespace that is empty at the beginning of each test."""
    with ceph_rados.open_ioctx(ceph_server.pools[0]) as pool:
        pool.set_namespace(testing.fresh_namespace())
        yield pool


@pytest.fixture
def ceph_image(ceph_rados: rados.Rados, ceph_server: testing.Server) -> Iterator[Callable[..., rbd.Image]]:
    """Makes images, and removes them after the test."""
    made: List[Tuple[str, rbd.Image]] = []
    with ceph_rados.open_ioctx(ceph_server.pools[0]) as pool:

        def make(size: int, **options: Any) -> rbd.Image:
            name = testing.fresh_namespace()
            rbd.RBD().create(pool, name, size, **options)
            image = rbd.Image(pool, name)
            made.append((name, image))
            return image

        yield make
        for name, image in made:
            for snap in list(image.list_snaps()):
                if image.is_protected_snap(snap["name"]):
                    image.unprotect_snap(snap["name"])
                image.remove_snap(snap["name"])
            image.close()
            rbd.RBD().remove(pool, name)
