"""Objects of a Ceph cluster, with the names of python3-rados: ``import loligo.rados as rados``."""

from loligo.rados.cluster import MonitorLog, Rados, Version
from loligo.rados.completion import Completion
from loligo.rados.constants import *  # noqa: F401,F403
from loligo.rados.errors import *  # noqa: F401,F403
from loligo.rados.errors import MAX_ERRNO, make_error
from loligo.rados.ioctx import Ioctx, Watch
from loligo.rados.objects import Object, ObjectIterator, Snap, SnapIterator, XattrIterator
from loligo.rados.ops import OmapIterator, OpCtx, ReadOp, ReadOpCtx, WriteOp, WriteOpCtx

make_ex = make_error
