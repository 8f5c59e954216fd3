"""Users with all kinds of capabilities, and what each of them may do."""
import json
import os
import tempfile

import rados
import rbd

from steps import cluster, mask, step

admin = cluster()
POOLS = ("caps", "caps-other")
FOLDER = tempfile.TemporaryDirectory()

OSD_CAPS = (
    "allow r", "allow w", "allow x", "allow rw", "allow rx", "allow wx", "allow rwx", "allow *",
    "allow class-read", "allow class-write", "allow r class-read", "allow r class-write", "allow rw class-read",
    "allow class hello", "allow class hello say_hello", "allow r, allow class lock", "allow r, allow w",
    "allow rw class hello", "allow rwx pool=caps namespace=ns", "allow rwx namespace=n*", "allow rwx object_prefix z",
    "allow rwx pool=caps namespace=ns object_prefix z", "allow rwx pool=caps-other", "allow pool caps r",
    "allow rw tag app k=v", "allow rw tag app *=*", "allow r tag none *=*", "profile rbd", "profile rbd pool=caps",
    "profile rbd-read-only", "profile rbd-read-only pool=caps, profile rbd pool=caps-other", "profile read-only",
    "profile read-write pool=caps", "allow r network 10.0.0.0/8", "allow rw network 127.0.0.0/8", "profile nonsense",
)
MON_CAPS = (
    "allow r", "allow w", "allow x", "allow rw", "allow rx", "allow wx", "allow rwx", "allow *", "profile rbd", "profile rbd-read-only",
    "profile simple-rados-client", "profile simple-rados-client-with-blocklist", "profile read-only", "profile read-write",
    "profile osd", "profile mds", "profile mgr", "profile mon", "profile bootstrap-osd", "profile bootstrap-mgr", "profile fs-client",
    "profile crash", "profile role-definer", "profile rbd-mirror", "profile rbd-mirror-peer", "profile bootstrap-rbd", "profile nonsense",
    'allow r, allow command "osd pool create"', 'allow command "osd pool create" with pool=made-by-exact, allow r',
    'allow r, allow command "osd pool create" with pool prefix made-by-', 'allow r, allow command "osd pool create" with pool regex "made-by-.*"',
    "allow r, allow service osd rw", "allow r, allow service auth rx", "allow r, allow service auth rwx",
    "allow r, allow service config-key rw", "allow service mon r, allow service osd r", "allow r, allow command log",
    "allow * network 10.0.0.0/8", "allow r network 127.0.0.0/8", "allow r, allow service log w", "allow r, allow service config rw",
)
METHODS = {
    "hello": (
        "bad_reader bad_writer record_hello replay say_hello turn_it_to_11 write_return_data "
        "write_too_much_return_data writes_dont_return_data"
    ),
    "lock": (
        "assert_locked break_lock get_info list_locks lock set_cookie unlock"
    ),
    "log": (
        "add info list trim"
    ),
    "numops": (
        "add mul"
    ),
    "rbd": (
        "add_child assert_snapc_seq child_attach child_detach children_list copyup create dir_add_image dir_get_id "
        "dir_get_name dir_list dir_remove_image dir_rename_image dir_state_assert dir_state_set "
        "get_access_timestamp get_all_features get_children get_create_timestamp get_data_pool get_features "
        "get_flags get_id get_modify_timestamp get_object_prefix get_parent get_protection_status get_size "
        "get_snapcontext get_snapshot_name get_snapshot_timestamp get_stripe_unit_count group_dir_add "
        "group_dir_list group_dir_remove group_dir_rename group_image_list group_image_remove group_image_set "
        "group_snap_get_by_id group_snap_list group_snap_remove group_snap_set image_group_add image_group_get "
        "image_group_remove metadata_get metadata_list metadata_remove metadata_set migration_get migration_remove "
        "migration_set migration_set_state mirror_image_get mirror_image_get_image_id mirror_image_list "
        "mirror_image_remove mirror_image_set mirror_mode_get mirror_mode_set mirror_peer_list mirror_uuid_get "
        "mirror_uuid_set namespace_add namespace_list namespace_remove object_map_load object_map_resize "
        "object_map_save object_map_snap_add object_map_snap_remove object_map_update op_features_get "
        "op_features_set parent_attach parent_detach parent_get parent_overlap_get remove_child remove_parent "
        "set_access_timestamp set_features set_flags set_id set_modify_timestamp set_parent set_protection_status "
        "set_size set_stripe_unit_count snapshot_add snapshot_get snapshot_get_limit snapshot_remove "
        "snapshot_rename snapshot_set_limit snapshot_trash_add sparse_copyup sparsify trash_add trash_get "
        "trash_list trash_remove trash_state_set"
    ),
    "refcount": (
        "get put read set"
    ),
    "user": (
        "complete_stats_sync get_header list_buckets remove_bucket reset_user_stats reset_user_stats2 "
        "set_buckets_info"
    ),
    "version": (
        "check_conds inc inc_conds read set"
    ),
}
# Who is asked for more than commands: whoever may not read the osdmap waits for it in vain, and long.
BEYOND_COMMANDS = ("allow r", "allow rw", "allow *", "profile rbd", "profile rbd-read-only", "allow r, allow service osd rw")
BAD_CAPS = (
    ("osd", "allow"), ("osd", "allow q"), ("osd", "allow rw pool="), ("osd", "deny r"), ("osd", "allow wr"), ("osd", "allow r tag a b"),
    ("osd", "allow r network nonsense"), ("mon", "allow"), ("mon", "allow q"), ("mon", "allow command"), ("mon", "profile"), ("nobody", "allow r"),
)


def command(c, prefix, **fields):
    code, _, status = c.mon_command(json.dumps({"prefix": prefix, **fields}), fields.pop("input", b""))
    return code


def must(code):
    assert code == 0, code


def user(name, **caps):
    """A connected client of these capabilities."""
    pairs = [word for pair in caps.items() for word in pair if pair[1]]
    code, key, _ = admin.mon_command(json.dumps({"prefix": "auth get-or-create", "entity": "client." + name, "caps": pairs}), b"")
    if code:
        raise OSError(-code, "refused")
    path = os.path.join(FOLDER.name, name)
    with open(path, "wb") as file:
        file.write(key)
    return cluster(rados_id=name, keyring=path)


def connected(name, mon, osd):
    made = []
    step("%s: mon %s, osd %s" % (name, mon, osd), lambda: made.append(user(name, mon=mon, osd=osd)))
    return made[0] if made else None


def settle():
    """The objects as every user finds them."""
    for pool in POOLS:
        with admin.open_ioctx(pool) as io:
            for ns in ("", "ns"):
                io.set_namespace(ns)
                for o in ("o", "z1"):
                    io.write_full(o, b"content")
                    io.set_xattr(o, "a", b"1")


def compound(io, kind, *calls):
    with (rados.WriteOpCtx() if kind == "write" else rados.ReadOpCtx()) as op:
        for name, *args in calls:
            getattr(op, name)(*args)
        (io.operate_write_op if kind == "write" else io.operate_read_op)(op, "o")


def omap(io, oid):
    with rados.ReadOpCtx() as op:
        found, _ = io.get_omap_vals(op, "", "", 5)
        io.operate_read_op(op, oid)
        return list(found)


def set_omap(io, oid):
    with rados.WriteOpCtx() as op:
        io.set_omap(op, ("k",), (b"v",))
        io.operate_write_op(op, oid)


def watch(io, oid):
    io.watch(oid, lambda *_: None).close()


def objects(who, c):
    """What it may do with objects."""
    for pool, ns, oid in (("caps", "", "o"), ("caps", "", "z1"), ("caps", "ns", "o"), ("caps", "ns", "z1"), ("caps-other", "", "o")):
        io = c.open_ioctx(pool)
        io.set_namespace(ns)
        io.set_osdmap_full_try()
        calls = [
            ("read", lambda: len(io.read(oid))), ("stat", lambda: io.stat(oid)[0] > 0), ("write", lambda: io.write(oid, b"w")),
            ("write_full", lambda: io.write_full(oid, b"full")), ("getxattr", lambda: io.get_xattr(oid, "a")),
            ("setxattr", lambda: io.set_xattr(oid, "a", b"2")), ("say_hello", lambda: io.execute(oid, "hello", "say_hello", b"")[0]),
            ("record_hello", lambda: io.execute(oid + "-" + who, "hello", "record_hello", b"x")[0]),
        ]
        if (pool, ns, oid) == ("caps", "", "o"):
            calls += [
                ("append", lambda: io.append(oid, b"+")), ("trunc", lambda: io.trunc(oid, 3)), ("cmpext", lambda: io.cmpext(oid, b"f", 0)),
                ("omap", lambda: omap(io, oid)), ("set omap", lambda: set_omap(io, oid)), ("rmxattr", lambda: io.rm_xattr(oid, "none")),
                ("writesame", lambda: io.writesame(oid, b"ab", 4)),
                ("none", lambda: io.read("none")), ("none write", lambda: io.trunc("none-" + who, 0)), ("list", lambda: len(list(io.list_objects())) > 0),
                ("lock", lambda: io.lock_exclusive(oid, "l", who)), ("unlock", lambda: io.unlock(oid, "l", who)),
                ("lock info", lambda: io.execute(oid, "lock", "list_locks", b"")[0]),
                ("version read", lambda: io.execute(oid, "version", "read", b"")[0]),
                ("no class", lambda: io.execute(oid, "nonsense", "x", b"")), ("no method", lambda: io.execute(oid, "hello", "x", b"")),
                ("write and say", lambda: compound(io, "write", ("append", b"."), ("execute", "hello", "say_hello", b""))),
                ("write and record", lambda: compound(io, "write", ("append", b"."), ("execute", "lock", "set_cookie", b""))),
                ("read op", lambda: compound(io, "read", ("cmpext", b"f", 0))), ("watch", lambda: watch(io, oid)),
                ("notify", lambda: io.notify(oid, "m", 1000)), ("snap", lambda: io.create_snap("s-" + who)),
                ("snap rm", lambda: io.remove_snap("s-" + who)), ("remove", lambda: io.remove_object(oid)),
                ("self snap", lambda: admin.mon_command(json.dumps({"prefix": "fsid"}), b"")[0]),
                ("stats", lambda: len(io.get_stats()) > 0),
            ]
        for name, call in calls:
            step("%s: %s/%s/%s %s" % (who, pool, ns, oid, name), call)
        io.close()


def methods(who, c):
    """Which methods of classes it may call at all: what becomes of a call without input is another matter."""
    io = c.open_ioctx("caps")
    for kind, names in METHODS.items():
        for name in names.split():
            def allowed():
                try:
                    io.execute("methods", kind, name, b"")
                except rados.PermissionError:
                    return False
                except rados.Error:
                    pass
                return True
            step("%s: %s.%s" % (who, kind, name), allowed)
    io.close()


def images(who, c):
    """What it may do with images."""
    io = c.open_ioctx("caps")

    def opened(call, **how):
        with rbd.Image(io, "img", **how) as image:
            return call(image)

    for name, call in (
        ("list", lambda: rbd.RBD().list(io)), ("open", lambda: opened(lambda i: i.size(), read_only=True)),
        ("read", lambda: opened(lambda i: i.read(0, 3), read_only=True)), ("write", lambda: opened(lambda i: i.write(b"x", 0))),
        ("snap", lambda: opened(lambda i: i.create_snap("s"))), ("snap rm", lambda: opened(lambda i: i.remove_snap("s"))),
        ("resize", lambda: opened(lambda i: i.resize(i.size()))), ("create", lambda: rbd.RBD().create(io, "new", 1 << 20)),
        ("clone", lambda: rbd.RBD().clone(io, "img", "base", io, "clone")), ("remove clone", lambda: rbd.RBD().remove(io, "clone")),
        ("remove", lambda: rbd.RBD().remove(io, "new")), ("meta", lambda: opened(lambda i: i.metadata_set("k", "v"))),
        ("namespaces", lambda: rbd.RBD().namespace_list(io)), ("trash", lambda: list(rbd.RBD().trash_list(io))),
    ):
        step("%s: image %s" % (who, name), call)
    io.close()


COMMANDS = (
    ("status", {}), ("health", {}), ("df", {}), ("fsid", {}), ("versions", {}), ("features", {}), ("quorum_status", {}), ("mon dump", {}), ("mon stat", {}),
    ("osd dump", {}), ("osd tree", {}), ("osd getmap", {}), ("osd pool ls", {}), ("osd pool get", {"pool": "caps", "var": "size"}),
    ("osd map", {"pool": "caps", "object": "o"}), ("osd blocklist ls", {}),
    ("osd pool set", {"pool": "caps", "var": "nosizechange", "val": "0"}), ("osd pool application enable", {"pool": "caps", "app": "app"}),
    ("osd pool create", {"pool": "made-by-exact", "pg_num": 1}), ("osd pool create", {"pool": "made-by-other", "pg_num": 1}),
    ("osd pool rename", {"srcpool": "none", "destpool": "none2"}), ("osd pool mksnap", {"pool": "caps-snaps", "snap": "by"}),
    ("osd pool rmsnap", {"pool": "caps-snaps", "snap": "by"}),
    ("osd pool rm", {"pool": "made-by-other", "pool2": "made-by-other", "yes_i_really_really_mean_it": True}),
    ("osd set", {"key": "noout"}), ("osd unset", {"key": "noout"}),
    ("osd blocklist", {"blocklistop": "add", "addr": "10.9.9.9:0/77", "expire": 5.0}), ("osd blocklist", {"blocklistop": "add", "addr": "10.9.9.9", "expire": 5.0}),
    ("osd blocklist", {"blocklistop": "rm", "addr": "10.9.9.9:0/77"}),
    ("auth get", {"entity": "client.admin"}), ("auth get-key", {"entity": "client.admin"}), ("auth ls", {}), ("auth print-key", {"entity": "client.admin"}),
    ("auth export", {}), ("auth get-or-create", {"entity": "client.caps-new", "caps": ["mon", "allow r"]}),
    ("auth caps", {"entity": "client.caps-new", "caps": ["mon", "allow r"]}), ("auth rm", {"entity": "client.caps-new"}),
    ("config dump", {}), ("config get", {"who": "client.x"}), ("config set", {"who": "client.x", "name": "rbd_cache", "value": "true"}),
    ("config rm", {"who": "client.x", "name": "rbd_cache"}),
    ("config-key ls", {}), ("config-key set", {"key": "caps/x", "val": "y"}), ("config-key get", {"key": "caps/x"}), ("config-key exists", {"key": "caps/x"}),
    ("config-key rm", {"key": "caps/x"}), ("log", {"logtext": ["by caps"]}), ("log last", {"num": 1}), ("nonsense", {}),
)


def commands(who, c, text):
    """Which commands it may send; also what it may ask of the monitors without one."""
    for prefix, fields in COMMANDS:
        step("%s: %s %s" % (who, prefix, " ".join(map(str, fields.values()))), lambda: command(c, prefix, **fields))
    step("%s: descriptions" % who, command, c, "get_command_descriptions")
    if text in BEYOND_COMMANDS:
        step("%s: pool create" % who, c.create_pool, "by-" + who)
        step("%s: pool delete" % who, admin.delete_pool, "by-" + who)
        step("%s: stats" % who, lambda: len(c.get_cluster_stats()))
        step("%s: tell" % who, lambda: c.osd_command(0, json.dumps({"prefix": "version"}), b"")[0])


for name in POOLS + ("caps-snaps",):
    admin.create_pool(name)
must(command(admin, "osd pool application enable", pool="caps", app="app"))
must(command(admin, "osd pool application set", pool="caps", app="app", key="k", value="v"))
with admin.open_ioctx("caps-snaps") as snaps:
    snaps.write_full("o", b"")
with admin.open_ioctx("caps") as base:
    rbd.RBD().create(base, "img", 4 << 20)
    with rbd.Image(base, "img") as image:
        image.create_snap("base")
        image.protect_snap("base")
for kind, text in BAD_CAPS:
    step("bad %s %s" % (kind, text), user, "bad", **{kind: text})
for number, text in enumerate(OSD_CAPS):
    settle()
    client = connected("osd%d" % number, "allow r", text)
    if client is None:
        continue
    objects("osd%d" % number, client)
    images("osd%d" % number, client)
    if text in ("allow class-read", "allow class-write"):
        methods("osd%d" % number, client)
    if text == "allow r":
        commands("osd%d" % number, client, "")
    client.shutdown()
for number, text in enumerate(MON_CAPS):
    client = connected("mon%d" % number, text, "allow r")
    if client is None:
        continue
    commands("mon%d" % number, client, text)
    client.shutdown()
for prefix in ("osd", "mon"):
    for number in range(len(OSD_CAPS if prefix == "osd" else MON_CAPS)):
        command(admin, "auth rm", entity="client.%s%d" % (prefix, number))
for name in POOLS + ("caps-snaps", "made-by-exact", "made-by-other"):
    command(admin, "osd pool rm", pool=name, pool2=name, yes_i_really_really_mean_it=True)
