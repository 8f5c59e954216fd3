"""Every method of python3-rados but `mgr_command`: this server has no manager."""
import errno
import json
import threading
import time

import rados

from steps import cluster, mask, shown, step

c = cluster()
POOL = "api-rados"


class Told:
    """What callbacks were told."""

    def __init__(self):
        self.all, self.cond = [], threading.Condition()

    def __call__(self, *args):
        with self.cond:
            self.all.append(args)
            self.cond.notify_all()

    def until(self, holds):
        with self.cond:
            return self.cond.wait_for(lambda: any(holds(args) for args in self.all), 8)

    def wait(self, count):
        with self.cond:
            self.cond.wait_for(lambda: len(self.all) >= count, 8)
            return self.all


def command(send, *target, **fields):
    """A command's return code, and whether its output is JSON; the words are others."""
    code, out, status = send(*target, json.dumps(fields), b"")
    return [code, bool(out), status if code else ""]


def the_cluster():
    step("state", lambda: c.state)
    step("version", c.version)
    step("conf_get", c.conf_get, "auth_supported")
    step("conf_get unknown", c.conf_get, "no such option")
    step("conf_set unknown", c.conf_set, "no such option", "1")
    step("conf_parse_argv", c.conf_parse_argv, ["x", "--rados_osd_op_timeout=10"])
    step("conf_parse_env", c.conf_parse_env)
    step("require_state", c.require_state, "connected")
    step("connect again", c.connect)
    step("fsid", lambda: len(c.get_fsid()))
    step("instance", lambda: c.get_instance_id() > 0)
    step("addrs", lambda: c.get_addrs().split(":")[0])
    step("cluster stats", lambda: sorted(c.get_cluster_stats()))
    # `ping_monitor` itself ends the process now and then, whoever answers.
    step("wait for map", c.wait_for_latest_osdmap)
    step("create pool", c.create_pool, POOL)
    step("create pool again", c.create_pool, POOL)
    step("create pool rule", c.create_pool, POOL + "2", 0)
    step("create pool no rule", c.create_pool, POOL + "3", 77)
    step("create pool no name", c.create_pool, "")
    step("exists", c.pool_exists, POOL)
    step("exists not", c.pool_exists, "none")
    mask(c.pool_lookup(POOL), "<pool>") if c.pool_lookup(POOL) > 999 else None
    step("lookup not", c.pool_lookup, "none")
    step("reverse lookup", lambda: c.pool_reverse_lookup(c.pool_lookup(POOL)))
    step("reverse lookup not", c.pool_reverse_lookup, 123456)
    step("base tier", lambda: c.get_pool_base_tier(c.pool_lookup(POOL)) == c.pool_lookup(POOL))
    step("base tier not", c.get_pool_base_tier, 123456)
    step("list pools", lambda: [p for p in c.list_pools() if p.startswith(POOL)])
    step("delete pool", c.delete_pool, POOL + "2")
    step("delete pool again", c.delete_pool, POOL + "2")
    step("open no pool", c.open_ioctx, "none")
    step("open2 no pool", c.open_ioctx2, 123456)
    step("open2", lambda: c.open_ioctx2(c.pool_lookup(POOL)).get_pool_name())
    step("inconsistent", c.get_inconsistent_pgs, POOL)
    step("mon command", command, c.mon_command, prefix="fsid")
    step("mon command unknown", command, c.mon_command, prefix="nonsense")
    step("mon command target", command, c.mon_command, prefix="mon stat", target="mon.a")
    step("mon command no json", lambda: c.mon_command("nonsense", b"")[0])
    step("osd command", command, c.osd_command, 0, prefix="version", format="json")
    step("osd command unknown", command, c.osd_command, 0, prefix="nonsense")
    step("osd command nobody", command, c.osd_command, 77, prefix="version")
    step("pg command", command, c.pg_command, "%d.0" % c.pool_lookup(POOL), prefix="query", format="json")
    step("pg command unknown", command, c.pg_command, "%d.0" % c.pool_lookup(POOL), prefix="nonsense")
    step("blocklist add", c.blocklist_add, "192.168.7.7:0/77", 10)
    step("blocklist add nonsense", c.blocklist_add, "nonsense", 10)
    step("daemon register", c.service_daemon_register, "api", "one", {"a": "b"})
    step("daemon register again", c.service_daemon_register, "api", "one", {"a": "b"})
    step("daemon update", c.service_daemon_update, {"state": "fine"})
    log = Told()
    watching = rados.MonitorLog(c, "info", log, 7)
    time.sleep(0.2)
    c.mon_command(json.dumps({"prefix": "log", "logtext": ["word to the log"]}), b"")
    step("monitor log", lambda: log.until(lambda args: "word to the log" in str(args)))
    step("monitor log same", lambda: watching.level)
    step("monitor log none", c.monitor_log2, "info", None, None)
    step("monitor log bad", c.monitor_log, "shouting", log, None)


def data(io):
    step("write", io.write, "o", b"0123456789")
    step("write at", io.write, "o", b"ab", 12)
    step("write far", io.write, "o", b"x", 1 << 40)
    step("write_full", io.write_full, "f", b"full")
    step("append", io.append, "f", b"+more")
    step("writesame", io.writesame, "s", b"abc", 9)
    step("writesame odd", io.writesame, "s", b"abc", 8)
    step("writesame at", io.writesame, "s", b"Z", 3, 2)
    for oid in "ofs":
        step("read " + oid, io.read, oid)
    step("read part", io.read, "o", 4, 3)
    step("read behind", io.read, "o", 4, 99)
    step("read none", io.read, "none")
    step("stat", lambda: io.stat("o")[0])
    step("stat none", io.stat, "none")
    step("trunc", io.trunc, "o", 5)
    step("trunc larger", io.trunc, "o", 8)
    step("trunc none", io.trunc, "none2", 8)
    step("read trunc", io.read, "o")
    step("cmpext", io.cmpext, "o", b"012")
    step("cmpext at", io.cmpext, "o", b"34", 3)
    step("cmpext not", io.cmpext, "o", b"0x2")
    step("cmpext none", io.cmpext, "none", b"0x2")
    step("last version", io.get_last_version)
    step("remove", io.remove_object, "s")
    step("remove again", io.remove_object, "s")
    step("name empty", io.write_full, "", b"")
    step("name long", io.write_full, "n" * 5000, b"")
    step("execute", io.execute, "f", "hello", "say_hello", b"you")
    step("execute no class", io.execute, "f", "nonsense", "say_hello", b"")
    step("execute no method", io.execute, "f", "hello", "nonsense", b"")
    step("execute none", io.execute, "none", "hello", "record_hello", b"me")
    step("execute bad", io.execute, "f", "lock", "lock", b"\1")


def xattrs(io):
    step("set_xattr", io.set_xattr, "x", "a", b"1")
    step("set_xattr empty", io.set_xattr, "x", "b", b"")
    step("set_xattr long name", io.set_xattr, "x", "n" * 300, b"")
    step("set_xattr large", io.set_xattr, "x", "large", b"v" * 70000)
    step("get_xattr", io.get_xattr, "x", "a")
    step("get_xattr none", io.get_xattr, "x", "none")
    step("get_xattr no object", io.get_xattr, "none", "a")
    step("get_xattrs", lambda: dict(io.get_xattrs("x")))
    step("get_xattrs no object", lambda: dict(io.get_xattrs("nothing")))
    step("rm_xattr", io.rm_xattr, "x", "a")
    step("rm_xattr again", io.rm_xattr, "x", "a")
    step("rm_xattr no object", io.rm_xattr, "none", "a")


def asynchronous(io):
    told = Told()

    def waited(completion):
        completion.wait_for_complete_and_cb()
        return [completion.is_complete(), completion.get_return_value()]

    step("aio_write", lambda: waited(io.aio_write("a", b"data", 2, told, told)))
    step("aio_write_full", lambda: waited(io.aio_write_full("a", b"data", told)))
    step("aio_writesame", lambda: waited(io.aio_writesame("a", b"ab", 6, 1, told)))
    step("aio_append", lambda: waited(io.aio_append("a", b"end")))
    step("aio_cmpext", lambda: waited(io.aio_cmpext("a", b"da", 0, told)))
    step("aio_cmpext not", lambda: waited(io.aio_cmpext("a", b"dX", 0, told)))
    step("aio_setxattr", lambda: waited(io.aio_setxattr("a", "n", b"v", told)))
    step("aio_rmxattr", lambda: waited(io.aio_rmxattr("a", "n", told)))
    step("aio_rmxattr none", lambda: waited(io.aio_rmxattr("none", "n", told)))
    read = Told()
    step("aio_read", lambda: waited(io.aio_read("a", 100, 0, read)))
    step("aio_read none", lambda: waited(io.aio_read("none", 100, 0, read)))
    step("aio_read told", lambda: [args[1] for args in read.wait(2)])
    stat = Told()
    step("aio_stat", lambda: waited(io.aio_stat("a", stat)))
    step("aio_stat none", lambda: waited(io.aio_stat("none", stat)))
    step("aio_stat told", lambda: [args[1] for args in stat.wait(2)])
    call = Told()
    step("aio_execute", lambda: waited(io.aio_execute("a", "hello", "say_hello", b"A", 100, call)))
    step("aio_execute none", lambda: waited(io.aio_execute("a", "hello", "none", b"A", 100, call)))
    step("aio_execute told", lambda: [args[1] for args in call.wait(2)])
    step("aio_remove", lambda: waited(io.aio_remove("a", told)))
    step("aio_remove again", lambda: waited(io.aio_remove("a", told)))
    pending = [io.aio_append("many", b"%03d" % i) for i in range(100)]
    step("aio_flush", io.aio_flush)
    step("aio_flush done", lambda: [p.is_complete() for p in pending].count(True))
    step("many", lambda: io.read("many", 300) == b"".join(b"%03d" % i for i in range(100)))
    step("safe", lambda: (pending[0].is_safe(), pending[0].wait_for_safe(), pending[0].wait_for_complete()))
    step("safe and cb", lambda: pending[1].wait_for_safe_and_cb())
    step("aio_notify nobody", lambda: waited(io.aio_notify("many", told, "hi", 5000)))


def operations(io):
    def write(oid, *calls, **kwargs):
        with rados.WriteOpCtx() as op:
            for name, *args in calls:
                getattr(op, name)(*args)
            io.operate_write_op(op, oid, **kwargs)

    def omap(oid, call, *args):
        with rados.ReadOpCtx() as op:
            found, ret = call(op, *args)
            io.operate_read_op(op, oid)
            return [ret, list(found)]

    def set_omap(oid, call, *args):
        with rados.WriteOpCtx() as op:
            call(op, *args)
            io.operate_write_op(op, oid)

    step("op", write, "w", ("new", rados.LIBRADOS_CREATE_EXCLUSIVE), ("write_full", b"0123456789"), ("zero", 2, 3),
         ("write", b"ABC", 20), ("append", b"."), ("truncate", 22), ("set_xattr", "x", b"1"))
    step("op exclusive", write, "w", ("new", rados.LIBRADOS_CREATE_EXCLUSIVE), ("append", b"no"))
    step("op idempotent", write, "w", ("new", rados.LIBRADOS_CREATE_IDEMPOTENT), ("append", b"yes"))
    step("op mtime", write, "w", ("append", b"t"), mtime=1_000_000_000)
    step("op mtime seen", lambda: time.mktime(io.stat("w")[1]) - time.mktime(time.gmtime(1_000_000_000)) == 0)
    step("op read", io.read, "w")
    step("op rm_xattr", write, "w", ("rm_xattr", "x"), ("writesame", b"ab", 4, 0))
    step("op xattrs", lambda: dict(io.get_xattrs("w")))
    step("op version", write, "w", ("assert_version", 1), ("append", b"no"))
    step("op version ok", lambda: write("w", ("assert_version", (io.stat("w"), io.get_last_version())[1]), ("append", b"v")))
    step("op cmpext", write, "w", ("cmpext", b"abab", 0), ("append", b"c"))
    step("op cmpext not", write, "w", ("cmpext", b"aXab", 0), ("append", b"c"))
    step("op execute", write, "h", ("execute", "hello", "record_hello", b"op"))
    step("op execute read", io.read, "h")
    step("op flags", write, "none", ("remove",), ("set_flags", rados.LIBRADOS_OP_FLAG_FAILOK))
    step("op remove", write, "h", ("remove",))
    step("op remove none", write, "h", ("remove",))
    step("op empty", write, "w")
    step("op ignore cache", write, "w", ("append", b"i"), flags=rados.LIBRADOS_OPERATION_IGNORE_CACHE)
    step("op full try", write, "w", ("append", b"f"), flags=32)
    keys = tuple("k%03d" % i for i in range(50)) + ("other",)
    step("omap set", set_omap, "m", io.set_omap, keys, tuple(b"v" + k.encode() for k in keys))
    step("omap set mismatch", set_omap, "m", io.set_omap, ("a", "b"), (b"x",))
    step("omap vals", omap, "m", io.get_omap_vals, "", "", 3)
    step("omap vals after", omap, "m", io.get_omap_vals, "k047", "", 10)
    step("omap vals prefix", omap, "m", io.get_omap_vals, "", "o", 10)
    step("omap vals none", omap, "m", io.get_omap_vals, "zzz", "", 10)
    step("omap keys", omap, "m", io.get_omap_keys, "k045", 4)
    step("omap by keys", omap, "m", io.get_omap_vals_by_keys, ("k001", "none", "other"))
    step("omap no object", omap, "none", io.get_omap_vals, "", "", 3)
    step("omap no map", omap, "w", io.get_omap_vals, "", "", 3)
    step("omap rm", set_omap, "m", io.remove_omap_keys, ("k001", "none"))
    step("omap rm range", set_omap, "m", io.remove_omap_range2, "k010", "k049")
    step("omap left", omap, "m", io.get_omap_keys, "", 100)
    step("omap cmp", write, "m", ("omap_cmp", "other", "vother", rados.LIBRADOS_CMPXATTR_OP_EQ), ("append", b"c"))
    step("omap cmp not", write, "m", ("omap_cmp", "other", "x", rados.LIBRADOS_CMPXATTR_OP_EQ), ("append", b"c"))
    step("omap clear", set_omap, "m", io.clear_omap)
    step("omap cleared", omap, "m", io.get_omap_keys, "", 100)
    told = Told()
    with rados.WriteOpCtx() as op:
        op.append(b"aio")
        done = io.operate_aio_write_op(op, "w", told, told)
        done.wait_for_complete_and_cb()
        step("aio op", done.get_return_value)
    with rados.ReadOpCtx() as op:
        op.cmpext(b"zz", 0)
        done = io.operate_aio_read_op(op, "w", told)
        done.wait_for_complete_and_cb()
        step("aio read op", done.get_return_value)
    with rados.ReadOpCtx() as op:
        io.get_omap_keys(op, "", 1)
        op.set_flags(rados.LIBRADOS_OP_FLAG_FAILOK)
        step("read op", io.operate_read_op, op, "m", rados.LIBRADOS_OPERATION_BALANCE_READS)
    op = io.create_write_op()
    step("old op", io.release_write_op, op)
    op = io.create_read_op()
    step("old read op", io.release_read_op, op)


def places(io):
    step("pool id", lambda: io.get_pool_id() == c.pool_lookup(POOL))
    step("alignment", io.alignment)
    step("namespace", io.set_namespace, "ns")
    step("namespace get", io.get_namespace)
    step("key", io.set_locator_key, "a key")
    step("key get", io.get_locator_key)
    step("put", io.write_full, "placed", b"placed")
    io.set_locator_key("")
    step("get elsewhere", lambda: dict((o.key, o.locator_key) for o in io.list_objects()))
    other = io.dup()
    step("dup namespace", other.get_namespace)
    other.close()
    io.set_namespace("")
    step("objects", lambda: sorted(o.key for o in io.list_objects()))
    first = next(o for o in io.list_objects() if o.key == "w")
    step("object", lambda: (first.key, first.nspace, first.locator_key))
    step("object seek", lambda: first.seek(0))
    step("object write", first.write, b"object")
    step("object read", lambda: (first.seek(0), first.read(6))[1])
    step("object stat", lambda: first.stat()[0] > 0)
    step("object set_xattr", first.set_xattr, "x", b"y")
    step("object get_xattr", first.get_xattr, "x")
    step("object get_xattrs", lambda: dict(first.get_xattrs()))
    step("object rm_xattr", first.rm_xattr, "x")
    step("object remove", first.remove)
    step("object removed", first.read, 1)
    step("stats", lambda: sorted(io.get_stats()))
    step("full try", io.set_osdmap_full_try)
    step("full try off", io.unset_osdmap_full_try)
    step("app list", io.application_list)
    step("app enable", io.application_enable, "one")
    step("app enable again", io.application_enable, "one")
    step("app enable second", io.application_enable, "two")
    step("app enable forced", io.application_enable, "two", True)
    step("app set", io.application_metadata_set, "one", "key", "value")
    step("app set none", io.application_metadata_set, "none", "key", "value")
    c.wait_for_latest_osdmap()
    step("app get", io.application_metadata_get, "one", "key")
    step("app get none", io.application_metadata_get, "one", "none")
    step("app list all", io.application_list)
    step("app metadata", io.application_metadata_list, "one")
    step("app remove", io.application_metadata_remove, "one", "key")
    step("app metadata none", io.application_metadata_list, "none")


def snapshots():
    c.create_pool(POOL + "-snaps")
    io = c.open_ioctx(POOL + "-snaps")
    io.write_full("o", b"first")
    step("snap", io.create_snap, "one")
    step("snap again", io.create_snap, "one")
    io.write_full("o", b"second")
    step("snap list", lambda: [(s.snap_id, s.name) for s in io.list_snaps()])
    step("snap time", lambda: abs((io.lookup_snap("one").get_timestamp() - type(io.lookup_snap("one").get_timestamp()).utcnow()).total_seconds()) < 90000)
    step("snap lookup", lambda: io.lookup_snap("one").snap_id)
    step("snap lookup none", io.lookup_snap, "none")
    step("snap set_read", io.set_read, io.lookup_snap("one").snap_id)
    step("snap read", io.read, "o")
    step("snap write", io.write_full, "o", b"no")
    io.set_read(rados.LIBRADOS_SNAP_HEAD)
    step("snap rollback", io.snap_rollback, "o", "one")
    step("snap rolled", io.read, "o")
    step("snap rollback none", io.snap_rollback, "o", "none")
    step("snap self-managed", io.create_self_managed_snap)
    step("snap remove", io.remove_snap, "one")
    step("snap remove again", io.remove_snap, "one")
    io.close()
    c.create_pool(POOL + "-self")
    io = c.open_ioctx(POOL + "-self")
    io.write_full("o", b"first")
    first = step("self", io.create_self_managed_snap)
    step("self ctx", io.set_self_managed_snap_write, [first])
    io.write_full("o", b"second")
    second = step("self second", io.create_self_managed_snap)
    step("self ctx wrong", io.set_self_managed_snap_write, [first, second])
    step("self ctx both", io.set_self_managed_snap_write, [second, first])
    io.write_full("o", b"third")
    for snap in (first, second):
        io.set_read(snap)
        step("self read %d" % snap, io.read, "o")
    io.set_read(rados.LIBRADOS_SNAP_HEAD)
    step("self rollback", io.rollback_self_managed_snap, "o", first)
    step("self rolled", io.read, "o")
    step("self remove", io.remove_self_managed_snap, first)
    step("self pool snap", io.create_snap, "one")
    io.close()
    for pool in ("-snaps", "-self"):
        step("delete" + pool, c.delete_pool, POOL + pool)


def watching(io):
    io.write_full("watched", b"")
    told, errors, acked = Told(), Told(), Told()
    watch = io.watch("watched", lambda notify, gid, handle, data: told(data), lambda *a: errors(), 30)
    step("watch id", lambda: watch.get_id() > 0)
    step("watch check", lambda: watch.check() >= type(watch.check())(0))
    step("notify", io.notify, "watched", "message", 5000)
    step("notified", lambda: told.wait(1))
    io.aio_notify("watched", acked, "second", 5000).wait_for_complete_and_cb()
    step("aio_notify", lambda: [[a[1], [x[2:] for x in a[2]], a[3]] for a in acked.wait(1)])
    step("notify none", io.notify, "no such object", "m", 500)
    step("watch close", watch.close)
    step("watch none", io.watch, "no such object", told)
    step("notify after", io.notify, "watched", "message", 500)
    step("not told", lambda: len(told.all))


def locks(io):
    io.write_full("locked", b"")
    step("lock", io.lock_exclusive, "locked", "l", "cookie", "words", 60)
    step("lock again", io.lock_exclusive, "locked", "l", "cookie", "words", 60)
    step("lock renew", io.lock_exclusive, "locked", "l", "cookie", "words", 60, 1)
    step("lock shared", io.lock_shared, "locked", "l", "other", "tag")
    step("unlock wrong", io.unlock, "locked", "l", "wrong")
    step("unlock", io.unlock, "locked", "l", "cookie")
    step("unlock again", io.unlock, "locked", "l", "cookie")
    step("shared", io.lock_shared, "locked", "l", "one", "tag", "d")
    step("shared second", io.lock_shared, "locked", "l", "two", "tag", "d")
    step("shared other tag", io.lock_shared, "locked", "l", "three", "other", "d")
    step("exclusive", io.lock_exclusive, "locked", "l", "four")
    step("lock no object", io.lock_exclusive, "lock makes it", "l", "four")
    step("locked made", lambda: io.stat("lock makes it")[0])
    step("forgotten", io.lock_exclusive, "locked", "brief", "c", "", 1)


the_cluster()
with c.open_ioctx(POOL) as ioctx:
    for part in (data, xattrs, asynchronous, operations, places, watching, locks):
        part(ioctx)
step("closed", ioctx.read, "o")
snapshots()
step("delete", c.delete_pool, POOL)
step("shutdown", c.shutdown)
step("shut down", c.list_pools)
