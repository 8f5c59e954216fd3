"""Commands to the monitor, to a named monitor and to an OSD: what comes of each in each format, and how its output ends.

A line says the status, whether there is JSON, and whether the last character is a newline. Left out are: what needs a manager's
modules, `osd blocklist ls`, whose JSON in 16.2.15 is two arrays, one behind the other, and commands without an argument that they
need, which a monitor of 16.2.15 may not survive. What a manager says of a new pool depends on when it has heard of it.
"""
import json
import sys

import rados

POOL = "surface_commands"
SETTING = {"who": "client.surface"}


def of(name, value):
    return "config set", dict(SETTING, name=name, value=value)


def pool(**args):
    return dict(args, pool=POOL)


SHOWN = [
    ("status", {}), ("health", {}), ("health", {"detail": "detail"}), ("df", {}), ("fsid", {}), ("version", {}),
    ("versions", {}), ("features", {}), ("quorum_status", {}), ("time-sync-status", {}), ("node ls", {}),
    ("mon dump", {}), ("mon stat", {}), ("mon metadata", {}), ("mon metadata", {"id": "zz"}), ("mon versions", {}),
    ("mon count-metadata", {"property": "os"}), ("mon feature ls", {}), ("mon feature ls", {"with_value": "--with-value"}),
    ("mon ok-to-stop", {"ids": ["a"]}), ("mon ok-to-stop", {"ids": ["b"]}), ("mon ok-to-stop", {}),
    ("mgr dump", {}), ("mgr stat", {}), ("mgr services", {}), ("mgr module ls", {}), ("mgr metadata", {}), ("mgr versions", {}),
    ("pg stat", {}), ("pg dump", {}), ("pg dump", {"dumpcontents": ["osds"]}), ("pg ls", {}),
    ("pg ls-by-osd", {"osd": 0}), ("pg map", {"pgid": "99.0"}), ("pg map", {"pgid": "xyz"}),
    ("osd stat", {}), ("osd dump", {}), ("osd info", {}), ("osd info", {"id": 0}), ("osd info", {"id": 9}), ("osd tree", {}),
    ("osd ls", {}), ("osd getmaxosd", {}), ("osd setmaxosd", {"newmax": 0}), ("osd setmaxosd", {"newmax": 100000}),
    ("osd metadata", {}), ("osd metadata", {"id": 0}), ("osd metadata", {"id": 9}), ("osd versions", {}),
    ("osd count-metadata", {"property": "arch"}), ("osd find", {"id": 0}), ("osd find", {"id": 9}), ("osd lspools", {}),
    ("osd map", pool(object="o")), ("osd get-require-min-compat-client", {}), ("osd crush tree", {}), ("osd crush dump", {}),
    ("osd crush rule ls", {}), ("osd crush rule list", {}), ("osd crush rule dump", {}), ("osd crush rule dump", {"name": "nosuch"}),
    ("osd crush show-tunables", {}), ("osd crush get-tunable", {"tunable": "straw_calc_version"}),
    ("osd pool ls", {}), ("osd pool ls", {"detail": "detail"}),
    ("osd pool get", pool(var="size")), ("osd pool get", pool(var="all")), ("osd pool get", pool(var="pg_autoscale_mode")),
    ("osd pool get", {"pool": "nosuch", "var": "size"}), ("osd pool application get", {}),
    ("auth ls", {}), ("auth list", {}), ("auth get", {"entity": "client.admin"}), ("auth get", {"entity": "client.nosuch"}),
    ("auth get-key", {"entity": "client.admin"}), ("auth print-key", {"entity": "client.admin"}),
    ("auth print_key", {"entity": "client.admin"}), ("auth export", {"entity": "client.admin"}),
    ("config ls", {}), ("config dump", {}), ("config get", {"who": "client.surface"}),
    ("config get", {"who": "client.surface", "key": "rbd_cache"}), ("config get", {"who": "osd.0", "key": "debug_ms"}),
    ("config get", {"who": "osd.0", "key": "osd_scrub_sleep"}), ("config get", {"who": "client.surface", "key": "nosuch"}),
    ("config-key set", {"key": "surface", "val": "v"}), ("config-key put", {"key": "surface", "val": "v"}),
    ("config-key ls", {}), ("config-key list", {}), ("config-key del", {"key": "surface"}), ("config-key rm", {"key": "surface"}),
    ("config-key get", {"key": "surface"}), ("log last", {}), ("nosuch", {}), ("osd nosuch", {}),
]
# What may be set, and to what.
SET = [
    of("rbd_cache", "1"), of("rbd_cache", "TRUE"), of("rbd_cache", "yes"), of("rbd_cache", ""), of("rbd cache", "0"),
    of("rbd-cache", "0"), of("nosuch", "1"), of("rbd_cache_size", "64M"), of("rbd_cache_size", "1Ki"), of("rbd_cache_size", "1k"),
    of("rbd_cache_size", "-1"), of("rbd_cache_size", "16E"), of("rbd_cache_size", "7Ei"), of("rbd_cache_size", "1.5M"),
    of("rbd_concurrent_management_ops", "2K"), of("rbd_concurrent_management_ops", "0"), of("osd_pool_default_size", "11"),
    of("osd_heartbeat_grace", "20.5"), of("osd_scrub_sleep", ".5"), of("osd_scrub_sleep", "x"), of("debug_ms", "1"),
    of("debug_ms", "1/5"), of("debug_ms", "x"), of("debug_ms", "-1"), of("debug_ms", "100"), of("osd_op_queue", "wpq"),
    of("osd_op_queue", "banana"), of("rados_osd_op_timeout", "1h30m"), of("rados_osd_op_timeout", "2 days"),
    of("rados_osd_op_timeout", "x"), of("mon_host", "1"), of("keyring", "/x"), of("rbd_default_features", "layering"),
    of("rbd_default_features", "layering,fast-diff"), of("rbd_default_features", "zzz"), of("public_addr", "1.2.3.4"),
    of("public_addr", "x"), ("config set", dict(SETTING, name="surface_nosuch", value="1", force=True)),
    ("config set", {"who": "nosuch", "name": "rbd_cache", "value": "1"}),
]
TOLD = [
    ("version", {}), ("mon_status", {}), ("status", {}), ("fsid", {}), ("osd dump", {}), ("nosuch", {}), ("config show", {}),
    ("config get", {"var": "debug_ms"}), ("config get", {"var": "nosuch"}), ("config get", {}),
    ("config set", {"var": "nosuch", "val": ["0"]}), ("config set", {"var": "debug_ms", "val": ["0/0"]}),
    ("injectargs", {"injected_args": ["--debug-ms 0/0"]}), ("injectargs", {"injected_args": ["--debug_ms=0/0"]}),
    ("injectargs", {"injected_args": ["--nosuch 0"]}),
]
# `mon_status` and `status` of an OSD are not the same commands.
TOLD_OSD = [told for told in TOLD if told[0] not in ("mon_status", "status")] + [
    ("dump_ops_in_flight", {}), ("query", {"pgid": "99.0"}), ("query", {"pgid": "bad"}), ("query", {}),
]


def ending(output):
    return "newline" if output.endswith(b"\n") else "bare" if output else "empty"


def kind(output):
    try:
        return type(json.loads(output)).__name__
    except ValueError:
        return "text"


def report(where, send, prefix, args):
    for form in (None, "json", "json-pretty"):
        wanted = {"format": form} if form else {}
        status, output, _ = send(json.dumps(dict(args, prefix=prefix, **wanted)), b"")
        print(where, prefix, args, form, status, kind(output) if form else "plain", ending(output))


def main():
    cluster = rados.Rados(conffile=sys.argv[1])
    cluster.connect()
    cluster.create_pool(POOL)
    for prefix, args in SHOWN:
        report("mon", cluster.mon_command, prefix, args)
    for prefix, args in SET:
        status, _, _ = cluster.mon_command(json.dumps(dict(args, prefix=prefix)), b"")
        _, dumped, _ = cluster.mon_command(json.dumps({"prefix": "config dump", "format": "json"}), b"")
        stored = [s for s in json.loads(dumped) if s["section"] == SETTING["who"]]
        for setting in stored:
            cluster.mon_command(json.dumps({"prefix": "config rm", "who": setting["section"], "name": setting["name"]}), b"")
        print("set", args, status, stored)
    for prefix, args in TOLD:
        report("mon.a", lambda cmd, data: cluster.mon_command(cmd, data, target="a"), prefix, args)
    print("mon.zz", cluster.mon_command('{"prefix": "version"}', b"", target="zz")[0])
    for prefix, args in TOLD_OSD:
        report("osd.0", lambda cmd, data: cluster.osd_command(0, cmd, data), prefix, args)
    # The connection that the commands to a named monitor came on is not the one that everything else uses.
    print("still there", cluster.mon_command('{"prefix": "fsid"}', b"")[0], POOL in cluster.list_pools())
    cluster.delete_pool(POOL)
    cluster.shutdown()


main()
