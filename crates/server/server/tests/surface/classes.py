"""Random calls of object classes' methods, with inputs that are whole, cut and noise: one seeded script, the same on all clusters.

Tells of outputs only where they have no addresses, client numbers or times in them.
"""
import ctypes
import hashlib
import random

import rados

from encode import many, text, u8, u32, u64, versioned
from steps import cluster, step

c = cluster()
POOL = "api-classes"
STEPS = 2500
R = random.Random(5)
LIB = ctypes.CDLL("librados.so.2")


def name():
    return R.choice(["a", "b", "c", "", "long" * 30])


def lock(method):
    kind, cookie, tag = u8(R.randrange(5)), text(name()), text(R.choice(["", "t"]))
    if method == "lock":
        seconds = R.choice([0, 0, 3600])
        return versioned(text(name()), kind, cookie, tag, text("d"), u32(seconds), u32(0), u8(R.choice([0, 1, 2, 4])))
    if method == "unlock":
        return versioned(text(name()), cookie)
    if method == "assert_locked":
        return versioned(text(name()), kind, cookie, tag)
    if method == "set_cookie":
        return versioned(text(name()), kind, cookie, tag, text(name()))
    return versioned(text(name())) if method == "get_info" else b""


def obj_version():
    return versioned(u64(R.randrange(4)), text(R.choice(["", "t", "u"])))


def version(method):
    conds = many([versioned(obj_version(), u32(R.randrange(8))) for _ in range(R.randrange(3))])
    if method == "set":
        return versioned(obj_version())
    # Increments give a version without a tag a random one.
    return versioned(obj_version(), conds) if method == "check_conds" else b""


def refcount(method):
    if method == "set":
        return versioned(many([text(name()) for _ in range(R.randrange(4))]))
    if method == "read":
        return versioned(u8(R.randrange(2)))
    return versioned(text(name()), u8(R.randrange(2)))


def numops(_):
    value = R.choice(["1", "-2", "3.5", "0", "x", "", "1e3", "99999999999999999999", "7 ", " 7", "0.1"])
    return versioned(text(name()), text(value))


def log(method):
    def time():
        return u32(R.randrange(100)) + u32(R.choice([0, 5000]))

    if method == "add":
        def entry():
            return versioned(text(name()), text(name()), time(), text(b"data" * R.randrange(3)), text(R.choice(["", "id"])), version=2)
        return versioned(many([entry() for _ in range(R.randrange(4))]), u8(1), version=2)
    marker = R.choice(["", "1_", "nonsense"])
    if method == "list":
        return versioned(time(), text(marker), time(), u32(R.choice([0, 1, 3, 5000])))
    if method == "trim":
        return versioned(time(), time(), text(marker), text(R.choice(["", "1_zzz"])), version=2)
    return versioned()


def hello(_):
    return name().encode()


CLASSES = (
    (lock, ("lock", "unlock", "get_info", "list_locks", "assert_locked", "set_cookie"), {"get_info"}),
    (version, ("set", "read", "check_conds"), set()),
    (refcount, ("get", "put", "set", "read"), set()),
    (numops, ("add", "mul"), set()),
    (log, ("add", "list", "trim", "info"), set()),
    (hello, ("say_hello", "record_hello", "replay", "turn_it_to_11"), set()),
)


def spoil(data):
    """Mostly as it is."""
    case = R.randrange(20)
    if case == 0:
        return data[:R.randrange(len(data) + 1)]
    if case == 1 and data:
        at = R.randrange(len(data))
        return data[:at] + bytes([R.randrange(256)]) + data[at + 1:]
    if case == 2:
        return bytes(R.randrange(256) for _ in range(R.randrange(30)))
    return data


def call(io, oid):
    kind, methods, silent = R.choice(CLASSES)
    method = R.choice(methods)
    data = spoil(kind(method))

    def run():
        ret, out = io.execute(oid, kind.__name__, method, data)
        # What follows a truncated output is not the class's word.
        return [ret, "" if method in silent else hashlib.sha1(out).hexdigest()[:12]]
    step("%s %s.%s %s" % (oid, kind.__name__, method, data.hex()), run)


def compound(io, oid):
    """Calls and plain operations that happen together or not at all."""
    count, parts = R.randrange(1, 4), []
    for _ in range(count):
        kind, methods, _ = R.choice(CLASSES)
        # To list the keys of a map that the same request begins makes a stock OSD abort.
        method = R.choice([m for m in methods if m != "trim"])
        parts.append((kind.__name__, method, spoil(kind(method))))
    tail = bytes([65 + R.randrange(26)])

    def run():
        with rados.WriteOpCtx() as op:
            for kind, method, data in parts:
                op.execute(kind, method, data)
            op.append(tail)
            io.operate_write_op(op, oid)
    step("%s together %s" % (oid, [(k, m, d.hex()) for k, m, d in parts]), run)


def checksum(io, oid):
    kind, chunk = R.randrange(4), R.choice([0, 1, 4, 4096])
    length, offset = R.randrange(30), R.choice([0, 3, 100])
    init = bytes(8 if kind == 1 else 4) if R.randrange(8) else b"x"
    out = ctypes.create_string_buffer(1024)
    LIB.rados_checksum.argtypes = None

    def run():
        ret = LIB.rados_checksum(
            HANDLE, oid.encode(), kind, init, ctypes.c_size_t(len(init)), ctypes.c_size_t(length), ctypes.c_uint64(offset),
            ctypes.c_size_t(chunk), out, ctypes.c_size_t(len(out)),
        )
        return [ret, out.raw[:80].hex() if ret == 0 else ""]
    step("%s checksum %d %d+%d/%d" % (oid, kind, offset, length, chunk), run)


def look(io, oid):
    def run():
        data, attributes = io.read(oid, 4096), sorted(dict(io.get_xattrs(oid)).items())
        hidden = ("lock.", "said_by", "amplified_by")
        shown = [(k, v) for k, v in attributes if not k.startswith(hidden)]
        with rados.ReadOpCtx() as op:
            keys, _ = io.get_omap_vals(op, "", "", 1000)
            io.operate_read_op(op, oid)
            return [hashlib.sha1(data).hexdigest(), shown, list(keys), io.get_last_version()]
    step("%s look" % oid, run)


def handle():
    """librados' own, for what Python does not offer."""
    lib_cluster, io = ctypes.c_void_p(), ctypes.c_void_p()
    import sys
    assert LIB.rados_create2(ctypes.byref(lib_cluster), b"ceph", b"client.admin", ctypes.c_uint64(0)) == 0
    assert LIB.rados_conf_read_file(lib_cluster, sys.argv[1].encode()) == 0 and LIB.rados_connect(lib_cluster) == 0
    assert LIB.rados_ioctx_create(lib_cluster, POOL.encode(), ctypes.byref(io)) == 0
    return io


c.mon_command('{"prefix": "osd pool create", "pool": "%s", "pg_num": 2}' % POOL, b"")
ioctx = c.open_ioctx(POOL)
HANDLE = handle()
for number in range(STEPS):
    which = "o%d" % R.randrange(4)
    kinds = (call, call, call, call, call, call, compound, compound, checksum, look)
    R.choice(kinds)(ioctx, which)
    if R.randrange(60) == 0:
        step("%s gone" % which, ioctx.remove_object, which)
step("delete", c.delete_pool, POOL)
