"""The end of a program while operations are under way."""

import subprocess
import sys

from ground import PoolCase, conf

PROGRAM = """
import sys, time
from loligo import rados
cluster = rados.Rados(conffile=sys.argv[1])
cluster.connect()
pool = cluster.open_ioctx(sys.argv[2])
def tell(completion):
    # Lets the interpreter's lock go, and wants it back, again and again.
    for _ in range(200):
        time.sleep(0.001)
pool.aio_write_full("object", b"x", tell)
time.sleep(0.05)
"""


class Exit(PoolCase):
    def test_a_program_may_end_while_callbacks_run(self):
        for _ in range(3):
            command = [sys.executable, "-c", PROGRAM, conf(), self.pool_name]
            ended = subprocess.run(command, stderr=subprocess.PIPE, timeout=30)
            self.assertEqual((ended.returncode, ended.stderr), (0, b""))
