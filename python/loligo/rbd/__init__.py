"""Images of a Ceph cluster, with the names of python3-rbd: ``import loligo.rbd as rbd``."""

from loligo.rbd.constants import *  # noqa: F401,F403
from loligo.rbd.errors import *  # noqa: F401,F403
from loligo.rbd.errors import ECANCELED, make_error
from loligo.rbd.group import Group
from loligo.rbd.image import Completion, Image
from loligo.rbd.pool import RBD

make_ex = make_error
