"""Methods of the classes that both sides have, at their edges: no input, input of one byte and of noise, whole input and each
way to cut it, on an object that is missing, empty, full of data, or prepared by the class itself.

Tells of results and outputs, and of what the object is afterwards. Outputs with times, addresses or random names are not compared.
"""
import hashlib

import rados

from encode import many, text, u8, u32, u64, versioned
from steps import cluster, step

c = cluster()
POOL = "api-edges"
HEAD = 2 ** 64 - 2
NOISE = bytes(range(7, 60))


def pairs(**items):
    return many([text(k) + text(v) for k, v in items.items()])


TIME = u32(50) + u32(0)
NO_TIME = u64(0)


def log_entry(sec):
    return versioned(text("s"), text("n"), u32(sec) + u32(0), text("data"), text("1_%010d.000000_x" % sec), version=2)


LOG = many([log_entry(sec) for sec in (10, 20, 30)])
HEADER = u64(32 << 20) + u8(22) + u64(61) + text("rbd_data.1")
GROUP_SPEC = versioned(text("group1"), u64(1))
IMAGE_STATE = versioned(u8(0) + text("image1") + u64(1), u8(0))
PARENT = versioned(u64(1), text(""), text("parent1"), u64(4))
TRASH = versioned(u8(0), text("name"), TIME, TIME, u8(0))
MIGRATION = versioned(u8(0), u64(1), text(""), text("src"), text("srcid"), u32(0), u8(0), u64(0), u8(0), u8(0), u8(1), text(""), version=2)
LOCK = versioned(text("l"), u8(1), text("cookie"), text(""), text("d"), u32(0), u32(0), u8(0))
VERSION = versioned(u64(3), text("tag"))


def mirrored(image, state, mode):
    return versioned(text(image), u8(state), u8(mode), version=2)


def bucket(name, version=9):
    if version == 9:
        return versioned(text(name), text("mark"), text("id"), text("place"), version=9, compat=8)
    return versioned(text(name), text("pool"), text("mark"), text("id"), text("index"), text("extra"), version=7, compat=3)


def bucket_entry(name, size, version=9):
    made = u32(40) + u32(5)
    return versioned(text(""), u64(size), u32(40), u64(2), bucket(name, version), u64(4096), u8(1), made, version=9, compat=5)


BUCKETS = versioned(many([bucket_entry("b1", 10), bucket_entry("b2", 20, 7)]), u8(1), TIME)

CLASSES = {
    "hello": {
        "say_hello": [b"Tester", b"x" * 100, b"x" * 101],
        "record_hello": [b"Tester", b"x" * 100, b"x" * 101],
        "replay": [b"Tester"],
        "turn_it_to_11": [b"Tester"],
        "write_return_data": [b"Tester"],
        "writes_dont_return_data": [b"Tester"],
        "write_too_much_return_data": [b"Tester"],
        "bad_reader": [b"Tester"],
        "bad_writer": [b"Tester"],
    },
    "lock": {
        "lock": [LOCK],
        "unlock": [versioned(text("l"), text("cookie"))],
        "break_lock": [versioned(text("l"), u8(8) + u64(4242), text("cookie"))],
        "get_info": [versioned(text("l"))],
        "list_locks": [],
        "assert_locked": [versioned(text("l"), u8(1), text("cookie"), text(""))],
        "set_cookie": [versioned(text("l"), u8(1), text("cookie"), text(""), text("new"))],
    },
    "log": {
        "add": [versioned(LOG, u8(1), version=2), versioned(LOG, u8(0), version=2), versioned(many([]), u8(1), version=2)],
        "list": [versioned(a, text(m), b, u32(n)) for a, b in ((NO_TIME, NO_TIME), (u32(10) + u32(0), u32(20) + u32(0)),
                 (u32(20) + u32(0), u32(20) + u32(0)), (u32(30) + u32(0), u32(10) + u32(0)))
                 for m in ("", "1_0000000010.000000_x", "9") for n in (0, 1, 2, 1001, 2 ** 32 - 1)],
        "trim": [versioned(NO_TIME, u32(s) + u32(n), text(a), text(b), version=2) for s, n in ((0, 0), (9, 0), (10, 0), (20, 999), (20, 1000))
                 for a, b in (("", ""), ("", "1_0000000010"), ("1_0000000010.000000_x", "9"), ("", "1_0000000020.000000_x"))],
        "info": [versioned()],
    },
    "numops": {
        "add": [versioned(text("k"), text(v)) for v in ("1", "", "x", "-1.5", "1e400")],
        "mul": [versioned(text("k"), text(v)) for v in ("1", "", "x", "-1.5", "1e400")],
    },
    "refcount": {
        "get": [versioned(text("t"), u8(0)), versioned(text("t"), u8(1)), versioned(text(""), u8(1))],
        "put": [versioned(text("t"), u8(0)), versioned(text("t"), u8(1)), versioned(text("other"), u8(1))],
        "set": [versioned(many([])), versioned(many([text("a"), text("a"), text("")]))],
        "read": [versioned(u8(0)), versioned(u8(1))],
    },
    "version": {
        "set": [versioned(VERSION)],
        "inc": [versioned(VERSION, many([versioned(VERSION, u32(n))])) for n in range(1, 9)],
        "inc_conds": [versioned(VERSION, many([versioned(VERSION, u32(n))])) for n in range(1, 9)],
        "read": [b""],
        "check_conds": [versioned(VERSION, many([versioned(VERSION, u32(n))])) for n in range(0, 9)],
    },
    "user": {
        "set_buckets_info": [BUCKETS, versioned(many([]), u8(1), TIME), versioned(many([bucket_entry("b1", 7)]), u8(0), TIME),
                             versioned(many([bucket_entry("", 7)]), u8(1), TIME)],
        "complete_stats_sync": [versioned(TIME), versioned(NO_TIME)],
        "remove_bucket": [versioned(bucket("b1")), versioned(bucket("b2", 7)), versioned(bucket("none")), versioned(bucket(""))],
        "list_buckets": [versioned(text(a), u32(n), text(b), version=2) for a in ("", "b1", "z") for b in ("", "b2")
                         for n in (0, 1, 1000, 2 ** 31, 2 ** 32 - 1)] + [versioned(text(""), u32(5))],
        "get_header": [versioned()],
        "reset_user_stats": [versioned(TIME)],
        "reset_user_stats2": [versioned(TIME, text(""), versioned(u64(0), u64(0), u64(0))),
                              versioned(TIME, text("b1"), versioned(u64(1), u64(2), u64(3)))],
    },
    "rbd": {
        "create": [HEADER, u64(0) + u8(22) + u64(1 << 60) + text("p"), u64(0) + u8(22) + u64(1) + text("")],
        "get_features": [u64(HEAD) + u8(0), u64(HEAD) + u8(1), u64(4) + u8(0), u64(99)],
        "set_features": [u64(4) + u64(4), u64(0) + u64(4), u64(1) + u64(1), u64(0) + u64(32), u64(2 ** 63) + u64(2 ** 63)],
        "get_all_features": [],
        "op_features_get": [],
        "op_features_set": [u64(1) + u64(1), u64(2 ** 40) + u64(2 ** 40)],
        "get_size": [u64(HEAD), u64(4), u64(99)],
        "set_size": [u64(0), u64(2 ** 63)],
        "get_flags": [u64(HEAD), u64(4), u64(99)],
        "set_flags": [u64(1) + u64(1), u64(2) + u64(2) + u64(4), u64(1) + u64(1) + u64(99)],
        "get_object_prefix": [],
        "get_data_pool": [],
        "get_stripe_unit_count": [],
        "set_stripe_unit_count": [u64(4096) + u64(2), u64(0) + u64(1), u64(4096) + u64(0), u64(4097) + u64(1), u64(2 ** 40) + u64(1)],
        "get_create_timestamp": [],
        "get_access_timestamp": [],
        "get_modify_timestamp": [],
        "set_access_timestamp": [],
        "set_modify_timestamp": [],
        "metadata_list": [text("") + u64(0), text("") + u64(1), text("k") + u64(5)],
        "metadata_get": [text("k"), text("none")],
        "metadata_set": [pairs(k="v", j="w"), many([])],
        "metadata_remove": [text("k"), text("none")],
        "get_snapcontext": [],
        "get_snapshot_name": [u64(4), u64(99), u64(HEAD)],
        "get_snapshot_timestamp": [u64(4), u64(99), u64(HEAD)],
        "snapshot_get": [u64(4), u64(99), u64(HEAD)],
        "snapshot_add": [text("s") + u64(4), text("t") + u64(4), text("s") + u64(5), text("t") + u64(2 ** 63), text("") + u64(9),
                         text("u") + u64(7) + versioned(u32(0)), text("w") + u64(8) + versioned(u32(1), u64(1), text("g"), text("s"))],
        "snapshot_remove": [u64(4), u64(99)],
        "snapshot_rename": [u64(4) + text("new"), u64(4) + text("s"), u64(99) + text("x")],
        "snapshot_trash_add": [u64(4), u64(99)],
        "snapshot_get_limit": [],
        "get_protection_status": [u64(4), u64(99), u64(HEAD)],
        "set_protection_status": [u64(4) + u8(n) for n in (0, 1, 2, 3)] + [u64(99) + u8(1), u64(HEAD) + u8(1)],
        "get_parent": [u64(HEAD), u64(4), u64(99)],
        "set_parent": [u64(1) + text("parent1") + u64(4) + u64(4096), u64(1) + text("p2") + u64(4) + u64(4096), u64(1) + text("x") + u64(HEAD) + u64(0)],
        "remove_parent": [],
        "parent_get": [],
        "parent_overlap_get": [u64(HEAD), u64(4), u64(99)],
        "parent_attach": [PARENT + u64(4096) + u8(0), PARENT + u64(4096) + u8(1)],
        "parent_detach": [],
        "child_attach": [u64(4) + versioned(u64(1), text(""), text("child1"))],
        "child_detach": [u64(4) + versioned(u64(1), text(""), text("child1")), u64(4) + versioned(u64(1), text(""), text("none"))],
        "children_list": [u64(4), u64(99)],
        "add_child": [u64(1) + text("parent1") + u64(4) + text("c"), u64(1) + text("parent1") + u64(4) + text("c")],
        "remove_child": [u64(1) + text("parent1") + u64(4) + text("c"), u64(1) + text("parent1") + u64(4) + text("none")],
        "get_children": [u64(1) + text("parent1") + u64(4)],
        "get_id": [],
        "set_id": [text("abc"), text(""), text("a b")],
        "dir_get_id": [text("n"), text("none"), text("")],
        "dir_get_name": [text("abc"), text("none"), text("")],
        "dir_list": [text("") + u64(0), text("") + u64(1), text("m") + u64(5), text("z") + u64(5)],
        "dir_add_image": [text("n") + text("abc"), text("n") + text("other"), text("m") + text("abc"), text("") + text("x"), text("x") + text("a b")],
        "dir_remove_image": [text("n") + text("abc"), text("n") + text("other"), text("none") + text("abc")],
        "dir_rename_image": [text("n") + text("q") + text("abc"), text("n") + text("n") + text("abc"), text("none") + text("q") + text("abc")],
        "dir_state_assert": [u32(0), u32(1), u32(2)],
        "dir_state_set": [u32(0), u32(1), u32(2)],
        "namespace_add": [text("ns"), text("")],
        "namespace_remove": [text("ns"), text("none")],
        "namespace_list": [text("") + u64(0), text("") + u64(5), text("ns") + u64(5)],
        "object_map_load": [],
        "object_map_save": [],
        "object_map_resize": [u64(8) + u8(0), u64(2 ** 60) + u8(0), u64(0) + u8(0), u64(8) + u8(9)],
        "object_map_update": [u64(0) + u64(1) + u8(1) + u8(0), u64(7) + u64(9) + u8(1) + u8(0), u64(3) + u64(1) + u8(1) + u8(1) + u8(0)],
        "object_map_snap_add": [],
        "object_map_snap_remove": [versioned()],
        "group_dir_list": [text("") + u64(5)],
        "group_dir_add": [text("g") + text("id1"), text("g") + text("id2")],
        "group_dir_remove": [text("g") + text("id1"), text("none") + text("id1")],
        "group_dir_rename": [text("g") + text("h") + text("id1")],
        "group_image_set": [IMAGE_STATE],
        "group_image_remove": [versioned(text("image1"), u64(1)), versioned(text("none"), u64(1))],
        "group_image_list": [versioned(text(""), u64(0)) + u64(5)],
        "image_group_add": [GROUP_SPEC],
        "image_group_remove": [GROUP_SPEC, versioned(text("other"), u64(1))],
        "image_group_get": [],
        # Not `group_snap_set`: later releases keep the order of snapshots as well, and so do we.
        "group_snap_remove": [text("id1"), text("none")],
        "group_snap_get_by_id": [text("id1"), text("none")],
        "group_snap_list_order": [text("") + u64(5)],
        "group_snap_unlink": [text("id1")],
        "trash_add": [text("id1") + TRASH],
        "trash_remove": [text("id1"), text("none")],
        # Not `trash_list`: a stock OSD aborts when it finds what is no image of the trash.
        "trash_get": [text("id1"), text("none")],
        "trash_state_set": [text("id1") + u32(1) + u32(0), text("id1") + u32(1) + u32(4), text("none") + u32(1) + u32(0)],
        "migration_set": [MIGRATION],
        "migration_set_state": [u8(1) + text("d"), u8(99) + text("")],
        "migration_get": [],
        "migration_remove": [],
        "mirror_uuid_get": [],
        "mirror_uuid_set": [text("u"), text("")],
        "mirror_mode_get": [],
        "mirror_mode_set": [u32(n) for n in (2, 1, 0, 3, 2 ** 32 - 1)],
        "mirror_peer_list": [],
        "mirror_image_list": [text("") + u64(5), text("image1") + u64(5), text("") + u64(0)],
        "mirror_image_get": [text("image1"), text("none"), text("")],
        "mirror_image_get_image_id": [text("global1"), text("none"), text("")],
        "mirror_image_set": [text("image1") + mirrored("global1", n, 0) for n in (1, 2, 0, 3, 9)]
        + [text("image2") + mirrored("global1", 3, 0), text("image1") + mirrored("other", 1, 0), text("image3") + mirrored("global3", 3, 1)],
        "mirror_image_remove": [text("image1"), text("none")],
        "snapshot_set_limit": [u64(0), u64(1), u64(5), u64(2 ** 64 - 1)],
        "group_snap_list": [versioned(text(""), text("")) + u64(5), versioned(text(""), text("")) + u64(0)],
        "copyup": [b"copied", b""],
        "sparse_copyup": [many([u64(0) + u64(3), u64(10) + u64(3)]) + text("abcdef"), many([]) + text(""), many([u64(0) + u64(9)]) + text("abc")],
        # Not a size of 0, with which a stock OSD looks for zeros for ever.
        "sparsify": [u64(n) + u8(b) for n in (1, 3, 16, 100, 512, 4095, 4096, 5000, 65536, 2 ** 40, 2 ** 63) for b in (0, 1)],
        "assert_snapc_seq": [u64(0) + u8(0), u64(0) + u8(1), u64(5) + u8(0), u64(0) + u8(9)],
    },
}

# Outputs that no two clusters have in common.
SILENT = {"get_info", "get_create_timestamp", "get_access_timestamp", "get_modify_timestamp", "get_snapshot_timestamp", "snapshot_get", "inc",
          "inc_conds"}

# Stock OSDs take any data of an object for the header of an image of format 1.
LEFT_OUT = {("snapshot_set_limit", "data")}

# What an object is before a call, beside missing: class methods that made it, or its data.
STATES = {
    "empty": [],
    "data": [(None, b"some data " * 20)],
    "header": [("rbd", "create", HEADER), ("rbd", "snapshot_add", text("s") + u64(4)), ("rbd", "metadata_set", pairs(k="v", j="w"))],
    "directory": [("rbd", "dir_add_image", text("n") + text("abc")), ("rbd", "namespace_add", text("ns"))],
    "log": [("log", "add", versioned(LOG, u8(1), version=2))],
    "refs": [("refcount", "set", versioned(many([text("t"), text("u")])))],
    "version": [("version", "set", versioned(VERSION))],
    "locked": [("lock", "lock", LOCK)],
    "number": [("numops", "add", versioned(text("k"), text("5")))],
    "map": [("rbd", "object_map_resize", u64(8) + u8(1))],
    "id": [("rbd", "set_id", text("abc"))],
    "mirroring": [("rbd", "mirror_uuid_set", text("u")), ("rbd", "mirror_mode_set", u32(1)),
                  ("rbd", "mirror_image_set", text("image1") + mirrored("global1", 3, 0))],
    "buckets": [("user", "set_buckets_info", BUCKETS)],
}
OF = {
    "hello": ("data",), "lock": ("locked", "data"), "log": ("log",), "numops": ("number",), "refcount": ("refs", "data"), "version": ("version",),
    "rbd": ("header", "directory", "map", "id", "data"), "user": ("buckets", "data"),
}


def make(io, oid, state):
    try:
        io.remove_object(oid)
    except rados.ObjectNotFound:
        pass
    if state == "missing":
        return
    with rados.WriteOpCtx() as op:
        op.new(0)
        io.operate_write_op(op, oid)
    for what in STATES[state]:
        try:
            if what[0] is None:
                io.write_full(oid, what[1])
            else:
                io.execute(oid, what[0], what[1], what[2])
        except rados.Error:
            pass  # Compared where the method itself is called.


def after(io, oid):
    """What the object is: size, attributes' names, keys and values' lengths."""
    try:
        size = io.stat(oid)[0]
    except rados.ObjectNotFound:
        return None
    names = sorted(name for name, _ in io.get_xattrs(oid))
    with rados.ReadOpCtx() as op:
        keys, _ = io.get_omap_vals(op, "", "", 1000)
        io.operate_read_op(op, oid)
        found = [(k.decode("latin1") if isinstance(k, bytes) else k, len(v or b"")) for k, v in keys]
    return [size, names, hashlib.sha1(repr(found).encode()).hexdigest()[:8], len(found), [k for k, _ in found][:6]]


def call(io, oid, cls, method, data):
    try:
        ret, out = io.execute(oid, cls, method, data)
        shown = "" if method in SILENT else hashlib.sha1(out).hexdigest()[:10] + " %d" % len(out)
        return [ret, shown, after(io, oid)]
    except rados.Error as e:
        return [-(e.errno or 0), after(io, oid)]


def inputs(whole):
    """By name; of a long input only some of the ways to cut it."""
    yield "nothing", b""
    yield "a byte", b"\x01"
    yield "noise", NOISE
    for number, data in enumerate(whole):
        yield "whole %d" % number, data
    if whole:
        data = whole[0]
        cuts = sorted({1, 2, 5, 6, 7, len(data) // 2, len(data) - 5, len(data) - 1})
        for cut in cuts:
            if 0 < cut < len(data):
                yield "cut at %d" % cut, data[:cut]
        yield "with a tail", data + b"\0tail"


c.mon_command('{"prefix": "osd pool create", "pool": "%s", "pg_num": 1}' % POOL, b"")
ioctx = c.open_ioctx(POOL)
number = 0
for cls, methods in CLASSES.items():
    for method, whole in methods.items():
        for state in ("missing", "empty") + OF[cls] + (("mirroring",) if method.startswith("mirror_") else ()):
            for name, data in inputs(whole):
                if (method, state) in LEFT_OUT:
                    continue
                # The order of keys in a group decides nothing; a new object each time keeps unique ids apart.
                make(ioctx, "o", state)
                step("%s.%s, %s, %s" % (cls, method, state, name), call, ioctx, "o", cls, method, data)
step("delete", c.delete_pool, POOL)
