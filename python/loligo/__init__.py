"""Loligo for Python: objects and images of a Ceph cluster, and clusters for tests.

- ``loligo.rados`` and ``loligo.rbd`` have the names of python3-rados and python3-rbd, so that
  ``import loligo.rados as rados`` is a migration. No package of Ceph is needed.
- ``loligo.aio`` is the same for asyncio: each operation is awaited.
- ``loligo.testing`` starts a cluster within the process, in milliseconds; pytest has it as fixtures.
"""

from loligo._native import __version__

__all__ = ["__version__"]
