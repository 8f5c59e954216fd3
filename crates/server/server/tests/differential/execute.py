"""Executes a script of object operations through librados and prints what came of each.

Usage: execute.py CEPH_CONF POOL PG_NUM; makes the pool and removes it at the end. Each line of the standard input is one
step, each line of the output its result: the return value, the object's version that librados reports, and what each
operation of the request gave. Bytes travel in hex; outputs of more than 64 bytes as length and digest.
Calls the functions of librados.so.2 directly: python3-rados lacks many of them. Ends with 75, EX_TEMPFAIL of sysexits.h, where
librados asked twice for a snapshot: results after that are of another script.
"""
import ctypes as c
import errno
import hashlib
import json
import sys

LIB = c.CDLL("librados.so.2")
U64, SIZE, PTR, INT = c.c_uint64, c.c_size_t, c.c_void_p, c.c_int
LIB.rados_get_last_version.restype = U64
for create in (LIB.rados_create_write_op, LIB.rados_create_read_op):
    create.restype = PTR
ROOM = c.create_string_buffer(160 << 20)
UNSET = -10000
DISTURBED = 75
FIRST_SNAP = 2
"""Of a pool whose snapshots the client manages; each after it is one more, as long as none is given out twice."""


class Disturbed(Exception):
    """A snapshot's id was given out to nobody: librados waited in vain for the monitor, and asked again."""


class Timespec(c.Structure):
    _fields_ = [("sec", c.c_long), ("nsec", c.c_long)]


def bytes_of(value):
    """`"hex"`, or `[byte, count]` for many equal bytes."""
    return bytes.fromhex(value) if isinstance(value, str) else bytes([value[0]]) * value[1]


def shown(data):
    return data.hex() if len(data) <= 64 else f"{len(data)} bytes {hashlib.sha256(data).hexdigest()}"


def array(items):
    items = [bytes_of(item) for item in items]
    pointers = (c.c_char_p * len(items))(*items)
    lengths = (SIZE * len(items))(*map(len, items))
    return pointers, lengths, SIZE(len(items))


class Rval:
    """The result of one operation of a request."""

    def __init__(self):
        self.value = INT(UNSET)

    def ref(self):
        return c.byref(self.value)

    def shown(self):
        return self.value.value


class Sized(Rval):
    """An operation's output in a buffer of its own."""

    def __init__(self, room):
        super().__init__()
        self.buffer = c.create_string_buffer(max(room, 1)) if room <= 1 << 20 else ROOM
        self.used = SIZE(0)

    def shown(self):
        return [super().shown(), shown(c.string_at(self.buffer, self.used.value))]


class Stat(Rval):
    def __init__(self):
        super().__init__()
        self.size, self.mtime = U64(0), c.c_long(0)

    def shown(self):
        # Calls without a time of their own get the clock's.
        mtime = self.mtime.value if self.mtime.value < 1 << 30 else "now"
        return [super().shown(), self.size.value, mtime]


class Pairs(Rval):
    """An iterator over names and values."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.iter, self.more = kind, PTR(None), c.c_ubyte(0)

    def next(self):
        key, value, key_len, value_len = PTR(None), PTR(None), SIZE(0), SIZE(0)
        if self.kind == "omap":
            LIB.rados_omap_get_next2(self.iter, c.byref(key), c.byref(value), c.byref(key_len), c.byref(value_len))
        else:
            LIB.rados_getxattrs_next(self.iter, c.byref(key), c.byref(value), c.byref(value_len))
            key_len = SIZE(len(c.string_at(key)) if key.value else 0)
        if not key.value:
            return None
        text = lambda at, length: shown(c.string_at(at, length.value)) if at.value else ""
        return [text(key, key_len), text(value, value_len)]

    def shown(self):
        found = []
        if self.iter.value and self.value.value == 0:
            while (pair := self.next()) is not None:
                found.append(pair)
            end = LIB.rados_omap_get_end if self.kind == "omap" else LIB.rados_getxattrs_end
            end(self.iter)
        return [super().shown(), self.more.value, found]


def add_common(op, side, name, args):
    """Operations that both kinds of request have; None if this is none of them."""
    call = lambda what, *rest: getattr(LIB, f"rados_{side}_op_{what}")(op, *rest)
    if name == "assert_exists":
        call(name)
        return []
    if name == "assert_version":
        call(name, U64(args[0]))
        return []
    if name == "cmpext":
        data, rval = bytes_of(args[1]), Rval()
        call(name, data, SIZE(len(data)), U64(args[0]), rval.ref())
        return [rval, data]
    if name == "cmpxattr":
        value = bytes_of(args[2])
        call(name, args[0].encode(), c.c_uint8(args[1]), value, SIZE(len(value)))
        return [value]
    if name == "omap_cmp":
        key, value, rval = bytes_of(args[0]), bytes_of(args[2]), Rval()
        call("omap_cmp2", key, c.c_uint8(args[1]), value, SIZE(len(key)), SIZE(len(value)), rval.ref())
        return [rval, key, value]
    return None


def add_write(op, name, args):
    call = lambda what, *rest: getattr(LIB, f"rados_write_op_{what}")(op, *rest)
    if name in ("write", "write_full", "append", "setxattr", "writesame"):
        data = bytes_of(args[-1])
        if name == "write":
            call(name, data, SIZE(len(data)), U64(args[0]))
        elif name == "writesame":
            call(name, data, SIZE(len(data)), SIZE(args[1]), U64(args[0]))
        elif name == "setxattr":
            call(name, args[0].encode(), data, SIZE(len(data)))
        else:
            call(name, data, SIZE(len(data)))
        return [data]
    if name == "create":
        call(name, INT(args[0]), None)
    elif name == "rmxattr":
        call(name, args[0].encode())
    elif name in ("remove", "omap_clear"):
        call(name)
    elif name == "truncate":
        call(name, U64(args[0]))
    elif name in ("zero", "set_alloc_hint"):
        call(name, U64(args[0]), U64(args[1]))
    elif name == "omap_set":
        (keys, key_lens, count), (values, value_lens, _) = array(args[0]), array(args[1])
        call("omap_set2", keys, values, key_lens, value_lens, count)
        return [keys, values]
    elif name == "omap_rm_keys":
        keys, key_lens, count = array(args[0])
        call("omap_rm_keys2", keys, key_lens, count)
    elif name == "omap_rm_range":
        begin, end = bytes_of(args[0]), bytes_of(args[1])
        call("omap_rm_range2", begin, SIZE(len(begin)), end, SIZE(len(end)))
    else:
        raise ValueError(name)
    return []


def add_read(op, name, args):
    call = lambda what, *rest: getattr(LIB, f"rados_read_op_{what}")(op, *rest)
    if name == "read":
        out = Sized(args[1])
        call(name, U64(args[0]), SIZE(args[1]), out.buffer, c.byref(out.used), out.ref())
    elif name == "stat":
        out = Stat()
        call(name, c.byref(out.size), c.byref(out.mtime), out.ref())
    elif name == "getxattrs":
        out = Pairs("xattr")
        call(name, c.byref(out.iter), out.ref())
    elif name == "omap_vals":
        out = Pairs("omap")
        call("omap_get_vals2", bytes_of(args[0]), bytes_of(args[1]), U64(args[2]), c.byref(out.iter),
             c.byref(out.more), out.ref())
    elif name == "omap_keys":
        out = Pairs("omap")
        call("omap_get_keys2", bytes_of(args[0]), U64(args[1]), c.byref(out.iter), c.byref(out.more), out.ref())
    elif name == "omap_by_keys":
        out = Pairs("omap")
        keys, key_lens, count = array(args[0])
        call("omap_get_vals_by_keys2", keys, count, key_lens, c.byref(out.iter), out.ref())
    else:
        raise ValueError(name)
    return [out]


def operate(io, step):
    """A request of several operations."""
    side = step["kind"]
    op = PTR(getattr(LIB, f"rados_create_{side}_op")())
    kept = []
    for name, flags, *args in step["ops"]:
        added = add_common(op, side, name, args)
        if added is None:
            added = (add_write if side == "write" else add_read)(op, name, args)
        kept.append(added)
        if flags:
            getattr(LIB, f"rados_{side}_op_set_flags")(op, INT(flags))
    oid, flags = step["oid"].encode(), INT(step["flags"])
    if side == "write":
        mtime = Timespec(step["mtime"], 0)
        ret = LIB.rados_write_op_operate2(op, io, oid, c.byref(mtime), flags)
    else:
        ret = LIB.rados_read_op_operate(op, io, oid, flags)
    results = [thing.shown() for added in kept for thing in added if isinstance(thing, Rval)]
    getattr(LIB, f"rados_release_{side}_op")(op)
    return ret, results


def single(io, step):
    """A call of its own of librados."""
    name, args, oid = step["ops"][0][0], step["ops"][0][2:], step["oid"].encode()
    if name == "read":
        ret = LIB.rados_read(io, oid, ROOM, SIZE(args[1]), U64(args[0]))
        return ret, [shown(c.string_at(ROOM, ret))] if ret > 0 else []
    if name == "getxattr":
        ret = LIB.rados_getxattr(io, oid, args[0].encode(), ROOM, SIZE(1 << 20))
        return ret, [shown(c.string_at(ROOM, ret))] if ret > 0 else []
    if name == "stat":
        size, mtime = U64(0), c.c_long(0)
        return LIB.rados_stat(io, oid, c.byref(size), c.byref(mtime)), [size.value]
    if name == "remove":
        return LIB.rados_remove(io, oid), []
    if name == "truncate":
        return LIB.rados_trunc(io, oid, U64(args[0])), []
    if name == "cmpext":
        data = bytes_of(args[1])
        return LIB.rados_cmpext(io, oid, data, SIZE(len(data)), U64(args[0])), []
    if name == "writesame":
        data = bytes_of(args[2])
        return LIB.rados_writesame(io, oid, data, SIZE(len(data)), SIZE(args[1]), U64(args[0])), []
    if name == "list":
        return 0, listed(io)
    if name.startswith("snap_"):
        return snapshot(io, name, args, oid)
    data = bytes_of(args[-1])
    if name == "write":
        return LIB.rados_write(io, oid, data, SIZE(len(data)), U64(args[0])), []
    return getattr(LIB, f"rados_{name}")(io, oid, data, SIZE(len(data))), []


SNAPS = []
"""Snapshots in the order in which they were made."""
HEAD = U64(2**64 - 2)
DIR = U64(2**64 - 1)


def snapshot(io, name, args, oid):
    """Snapshots that this script manages. Their ids are the same on both sides, as both give them out in order."""
    snap = SNAPS[args[0]] if name not in ("snap_create", "snap_create_pool", "snap_context", "snap_directory") and args[0] < len(SNAPS) else 1
    if name == "snap_create":
        if len(SNAPS) == 6:
            return 0, []
        made = U64(0)
        ret = LIB.rados_ioctx_selfmanaged_snap_create(io, c.byref(made))
        if made.value > FIRST_SNAP + len(SNAPS):
            raise Disturbed
        SNAPS.append(made.value)
        return ret, [made.value, context(io, SNAPS)]
    if name == "snap_create_pool":
        if len(SNAPS) == 6:
            return 0, []
        made, title = U64(0), f"snap{len(SNAPS)}".encode()
        ret = LIB.rados_ioctx_snap_create(io, title)
        ret = ret or LIB.rados_ioctx_snap_lookup(io, title, c.byref(made))
        SNAPS.append(made.value)
        return ret, [made.value]
    if name == "snap_context":
        return 0, [context(io, {SNAPS[i] for i in args[0] if i < len(SNAPS)})]
    if name == "snap_rollback":
        return LIB.rados_ioctx_selfmanaged_snap_rollback(io, oid, U64(snap)), []
    LIB.rados_ioctx_snap_set_read(io, DIR if name == "snap_directory" else U64(snap))
    try:
        if name == "snap_read":
            ret = LIB.rados_read(io, oid, ROOM, SIZE(args[2]), U64(args[1]))
            return ret, [shown(c.string_at(ROOM, ret))] if ret > 0 else []
        size, mtime = U64(0), c.c_long(0)
        return LIB.rados_stat(io, oid, c.byref(size), c.byref(mtime)), [size.value]
    finally:
        LIB.rados_ioctx_snap_set_read(io, HEAD)


def context(io, snaps):
    """Sets what writes know of snapshots."""
    left = sorted(snaps, reverse=True)
    seq = max(SNAPS) if SNAPS else 0
    return LIB.rados_ioctx_selfmanaged_snap_set_write_ctx(io, U64(seq), (U64 * len(left))(*left), INT(len(left)))



def listed(io):
    """All objects with their namespaces and locator keys, in the order in which they come."""
    cursor, found = PTR(None), []
    LIB.rados_nobjects_list_open(io, c.byref(cursor))
    parts = [PTR(None) for _ in range(3)]
    sizes = [SIZE(0) for _ in range(3)]
    while LIB.rados_nobjects_list_next2(cursor, *map(c.byref, parts), *map(c.byref, sizes)) == 0:
        found.append([c.string_at(p, s.value).decode() if p.value else "" for p, s in zip(parts, sizes)])
    LIB.rados_nobjects_list_close(cursor)
    return found


def done(ret, what):
    if ret < 0:
        raise OSError(-ret, what)


def mon_command(cluster, **command):
    text = (c.c_char_p * 1)(json.dumps(command).encode())
    out, out_len, status, status_len = PTR(None), SIZE(0), PTR(None), SIZE(0)
    done(LIB.rados_mon_command(cluster, text, SIZE(1), None, SIZE(0), c.byref(out), c.byref(out_len),
                               c.byref(status), c.byref(status_len)), command["prefix"])


def run(io):
    for line in sys.stdin:
        step = json.loads(line)
        LIB.rados_ioctx_set_namespace(io, b"\1" if step["ns"] == "*" else step["ns"].encode())
        LIB.rados_ioctx_locator_set_key(io, step["key"].encode() or None)
        ret, results = (single if step["kind"] == "single" else operate)(io, step)
        if ret == -errno.ETIMEDOUT:
            raise TimeoutError(f"no answer to {line}")
        print(json.dumps([ret, LIB.rados_get_last_version(io), results]), flush=True)


def main(conf, pool, pg_num):
    cluster, io = PTR(None), PTR(None)
    done(LIB.rados_create2(c.byref(cluster), b"ceph", b"client.admin", U64(0)), "create")
    done(LIB.rados_conf_read_file(cluster, conf.encode()), conf)
    # A daemon that is gone shows as a result, not as a test that never ends.
    done(LIB.rados_conf_set(cluster, b"rados_osd_op_timeout", b"15"), "timeout")
    done(LIB.rados_connect(cluster), "connect")
    mon_command(cluster, prefix="osd pool create", pool=pool, pg_num=int(pg_num))
    done(LIB.rados_ioctx_create(cluster, pool.encode(), c.byref(io)), pool)
    try:
        run(io)
        disturbed = False
    except Disturbed:
        disturbed = True
    LIB.rados_ioctx_destroy(io)
    mon_command(cluster, prefix="osd pool delete", pool=pool, pool2=pool, yes_i_really_really_mean_it=True)
    LIB.rados_shutdown(cluster)
    sys.exit(DISTURBED if disturbed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
