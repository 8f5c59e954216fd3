"""Commands to the monitor: what comes of each in each format, how its output ends, and what settings of pools may be.

A line says the status, what the output is (for XML: what its outermost element is called), and whether its last character is a
newline. Left out are: what needs a manager's modules, `osd blocklist ls`, whose JSON in 16.2.15 is two arrays, one behind the
other, and commands without an argument that they need, which a monitor of 16.2.15 may not survive. Nothing here changes
what other scripts see, as they run at the same time. A manager that has not heard of all placement groups yet answers
EAGAIN to what concerns them: those commands are asked again. A monitor commits about once a second, what several ask for at a
time together: settings that do not depend on each other are changed side by side.
"""
import concurrent.futures
import errno
import json
import re
import sys
import time

import rados

POOL = "surface_commands"


def pool(**args):
    return dict(args, pool=POOL)


def network(op, addr, **args):
    return "osd blocklist", {"range": "range", "blocklistop": op, "addr": addr, **args}


SHOWN = [
    ("status", {}), ("health", {}), ("health", {"detail": "detail"}), ("df", {}), ("fsid", {}), ("version", {}),
    ("versions", {}), ("features", {}), ("quorum_status", {}), ("time-sync-status", {}), ("node ls", {}), ("node ls", {"type": "osd"}),
    ("mon dump", {}), ("mon stat", {}), ("mon metadata", {}), ("mon metadata", {"id": "a"}), ("mon versions", {}),
    ("mon count-metadata", {"property": "os"}), ("mon feature ls", {}), ("mon ok-to-stop", {"ids": ["b"]}),
    ("mgr stat", {}), ("mgr services", {}), ("mgr module ls", {}), ("pg stat", {}), ("pg dump", {}), ("pg ls", {}),
    ("pg map", {"pgid": "99.0"}), ("pg map", {"pgid": "xyz"}), ("osd stat", {}), ("osd dump", {}), ("osd info", {}),
    ("osd info", {"id": 0}), ("osd info", {"id": 9}), ("osd tree", {}), ("osd ls", {}), ("osd ls-tree", {"name": "default"}),
    ("osd ls-tree", {"name": "nosuch"}), ("osd getmaxosd", {}), ("osd metadata", {}), ("osd metadata", {"id": 0}),
    ("osd versions", {}), ("osd count-metadata", {"property": "arch"}), ("osd find", {"id": 0}), ("osd find", {"id": 9}),
    ("osd lspools", {}), ("osd map", pool(object="o")), ("osd get-require-min-compat-client", {}), ("osd utilization", {}),
    ("osd crush tree", {}), ("osd crush dump", {}), ("osd crush ls", {"node": "default"}), ("osd crush ls", {"node": "nosuch"}),
    ("osd crush class ls", {}), ("osd crush rule ls", {}), ("osd crush rule list", {}), ("osd crush rule dump", {}),
    ("osd crush rule dump", {"name": "nosuch"}), ("osd crush show-tunables", {}), ("osd crush get-tunable", {"tunable": "straw_calc_version"}),
    ("osd pool ls", {}), ("osd pool ls", {"detail": "detail"}), ("osd pool get", pool(var="size")), ("osd pool get", pool(var="all")),
    ("osd pool application get", {}), ("osd pool application get", pool()),
    ("auth ls", {}), ("auth get", {"entity": "client.admin"}), ("auth get-key", {"entity": "client.admin"}),
    ("auth export", {}), ("config ls", {}), ("config dump", {}), ("config get", {"who": "client.surface"}),
    ("config help", {"key": "rbd_cache"}), ("config help", {"key": "nosuch"}), ("config generate-minimal-conf", {}),
    ("config log", {}), ("config log", {"num": 1}), ("config show", {"who": "osd.0"}), ("config show", {"who": "osd.0", "key": "debug_ms"}),
    ("config show", {"who": "osd.0", "key": "nosuch"}), ("config show-with-defaults", {"who": "osd.0"}),
    ("osd pool autoscale-status", {}), ("report", {}), ("mon ok-to-rm", {"id": "b"}),
    ("config-key ls", {}), ("log last", {}), ("nosuch", {}), ("osd nosuch", {}),
]
# What must be refused, or changes nothing: the status, and what people are told.
REFUSED = [
    ("osd in", {"ids": ["0"]}), ("osd in", {"ids": ["osd.0", "7"]}), ("osd in", {"ids": ["x"]}), ("osd out", {"ids": ["7"]}),
    ("osd down", {"ids": ["9"]}), ("osd down", {"ids": ["x"]}), ("osd reweight", {"id": 7, "weight": 1.0}),
    ("osd primary-affinity", {"id": 7, "weight": 1.0}), ("osd rm", {"ids": ["0"]}), ("osd rm", {"ids": ["5"]}),
    ("osd lost", {"id": 0}), ("osd lost", {"id": 0, "yes_i_really_mean_it": True}), ("osd lost", {"id": 5, "yes_i_really_mean_it": True}),
    ("osd purge-new", {"id": 0, "yes_i_really_mean_it": True}), ("osd purge-new", {"id": 5, "yes_i_really_mean_it": True}),
    ("osd purge-new", {"id": 5}), ("osd new", {"uuid": "x"}), ("osd set-group", {"flags": "x", "who": ["0"]}),
    ("osd set-group", {"flags": "noout", "who": ["nosuch"]}), ("osd set-group", {"flags": "noout", "who": ["osd.9"]}),
    ("osd unset-group", {"flags": "noout,noin", "who": ["osd.0", "9", "default"]}), ("osd rm-noout", {"ids": ["osd.9"]}),
    ("config get", {"who": "bad", "key": "debug_ms"}), ("config get", {"who": "osd.0", "key": "nosuch"}),
    ("config show", {"who": "osd.9"}), ("config show", {"who": "bad"}), ("config reset", {"num": 99999}),
    ("mon feature set", {"feature_name": "nosuch"}), ("mon feature set", {"feature_name": "nautilus"}), ("mon ok-to-rm", {"id": "a"}),
    ("mon ok-to-add-offline", {}), ("osd test-reweight-by-pg", {"oload": 99}), ("osd reweight-by-pg", {"max_change": -1.0}),
    ("osd reweight-by-pg", {"max_osds": 0}), ("osd reweight-by-pg", {"pools": ["nosuch"]}), ("osd reweight-by-utilization", {"oload": 100}),
    ("health mute", {"code": "NOSUCH"}), ("health mute", {"code": "NOSUCH", "sticky": True, "ttl": "x"}),
    ("health mute", {"code": "NOSUCH", "sticky": True, "ttl": "5M"}), ("health mute", {"code": "NOSUCH", "sticky": True, "ttl": "1.5h"}),
    ("health mute", {"code": "NOSUCH", "sticky": True, "ttl": ""}), ("health unmute", {"code": "NOSUCH"}),
    network("add", "203.0.113.7/24", expire=60.0), network("add", "2001:db8:5::/48", expire=60.0), network("add", "203.0.113.0"),
    network("add", "203.0.113.0/33"), network("add", "x"), network("rm", "203.0.113.0/24"), network("rm", "203.0.113.7/24"),
    network("rm", "203.0.113.7/24"), network("rm", "2001:db8:5::/48"), network("add", "203.0.113.0/24", range="bogus"),
    ("osd blocklist", {"blocklistop": "rm", "addr": "203.0.113.1"}), ("osd blocklist", {"blocklistop": "add", "addr": "x"}),
]
INTS = ["5", "-10", "11", "1.5", "x", "0", "unset", "1K", ""]
SIZES = ["4096", "-1", "4K", "x", "0", "unset"]
DOUBLES = ["60", "1.5", "-1", "x", "0", "1h", "unset"]
FLAGS = ["1", "true", "2", "yes", "01", "0", "false"]
# Settings of pools, and what is tried for each.
SETTINGS = {
    "scrub_min_interval": DOUBLES, "scrub_max_interval": ["x"], "deep_scrub_interval": ["x"],
    "recovery_priority": INTS, "recovery_op_priority": ["11", "1K"], "scrub_priority": ["11", "1K"],
    "compression_mode": ["force", "bogus", "unset"],
    "compression_algorithm": ["snappy", "lz4", "bogus", "unset"],
    "compression_required_ratio": [".875", "1.5", "-1", "x", "0", "unset"],
    "compression_max_blob_size": SIZES, "compression_min_blob_size": ["x"], "csum_min_block": ["x"], "csum_max_block": ["x"],
    "csum_type": ["none", "crc32c_8", "bogus", "unset"],
    "fingerprint_algorithm": ["sha1", "md5", "unset"], "pg_num_min": ["4", "9", "-1", "x", "0"],
    "pg_num_max": ["16", "4", "-1", "x", "0"], "target_size_bytes": ["1048576", "1M", "x", "-1", "0", "unset"],
    "target_size_ratio": [".5", "2", "-1", "x", "0"], "pg_autoscale_bias": ["4", "1001", "-1", "x", ".5", "0"],
    "pg_autoscale_mode": ["on", "off", "bogus"], "dedup_tier": ["1", "x", "0"],
    "dedup_chunk_algorithm": ["fixed", "bogus", "unset"], "dedup_cdc_chunk_size": ["4096", "x", "0"],
    "noscrub": FLAGS, "nodelete": ["1", "0"], "nosizechange": ["1", "0"], "nodeep-scrub": ["yes"], "bulk": ["1"], "hashpspool": ["true"], "fast_read": ["1"], "allow_ec_overwrites": ["true"],
    "use_gmt_hitset": ["1"], "hit_set_type": ["bloom"], "hit_set_count": ["1"], "target_max_bytes": ["1"],
    "cache_target_full_ratio": [".1"], "min_read_recency_for_promote": ["1"], "min_size": ["0", "1", "x"],
    "size": ["0", "11", "x", "1"], "crush_rule": ["nosuch", "replicated_rule"], "nosuch": ["1"],
}
KEPT = {
    "scrub_min_interval": "60", "recovery_priority": "5", "compression_mode": "force", "csum_type": "crc32c", "noscrub": "1",
    "compression_required_ratio": ".875", "pg_num_min": "4", "pg_num_max": "16", "target_size_bytes": "100",
    "target_size_ratio": ".25", "pg_autoscale_bias": "4", "dedup_cdc_chunk_size": "8",
}


def ask(cluster, prefix, args, form=None):
    wanted = {"format": form} if form else {}
    for _ in range(60):
        answer = cluster.mon_command(json.dumps(dict(args, prefix=prefix, **wanted)), b"")
        if answer[0] != -errno.EAGAIN:
            return answer
        time.sleep(0.5)
    return answer


def ending(output):
    return "newline" if output.endswith(b"\n") else "bare" if output else "empty"


def kind(form, output):
    if form in ("xml", "xml-pretty"):
        outermost = re.match(rb"<([^>]*)>", output)
        return outermost.group(1).decode() if outermost else "text"
    try:
        return type(json.loads(output)).__name__ if form else "plain"
    except ValueError:
        return "text"


# Settings that depend on each other: they are changed one after the other.
TOGETHER = [("size", "min_size", "nodelete", "nosizechange"), ("pg_num_min", "pg_num_max")]


def masked(text, pool_id):
    text = re.sub(r"until [0-9T:.+-]+ ", "until T ", text)
    return re.sub(r"pool %d\b" % pool_id, "pool N", text.replace('"pool_id":%d' % pool_id, '"pool_id":N'))


def change(cluster, pool_id, variables):
    lines = []
    for var in variables:
        for val in SETTINGS[var]:
            status, _, said = ask(cluster, "osd pool set", pool(var=var, val=val))
            lines.append("set %s %r %s %s" % (var, val, status, masked(said, pool_id)))
            status, output, said = ask(cluster, "osd pool get", pool(var=var))
            lines.append("get %s %s %s %s" % (var, status, masked(output.decode(), pool_id), masked(said, pool_id)))
    return lines


def settings(cluster):
    pool_id = cluster.pool_lookup(POOL)
    alone = [(var,) for var in SETTINGS if not any(var in group for group in TOGETHER)]
    with concurrent.futures.ThreadPoolExecutor(32) as threads:
        for lines in threads.map(lambda variables: change(cluster, pool_id, variables), alone + TOGETHER):
            print("\n".join(lines))
        list(threads.map(lambda kept: ask(cluster, "osd pool set", pool(var=kept[0], val=kept[1])), KEPT.items()))
    print("all", masked(ask(cluster, "osd pool get", pool(var="all"), "json")[1].decode(), pool_id))
    pools = json.loads(ask(cluster, "osd dump", {}, "json")[1])["pools"]
    print("options", [p["options"] for p in pools if p["pool_name"] == POOL])


def main():
    cluster = rados.Rados(conffile=sys.argv[1])
    cluster.connect()
    ask(cluster, "osd pool create", pool(pg_num=8, autoscale_mode="off"))
    ask(cluster, "log", {"logtext": ["a line to be shown"]})
    for prefix, args in SHOWN:
        for form in (None, "json", "json-pretty", "xml", "xml-pretty"):
            status, output, _ = ask(cluster, prefix, args, form)
            print(prefix, args, form, status, kind(form, output), ending(output))
    for prefix, args in REFUSED:
        status, output, said = ask(cluster, prefix, args)
        print(prefix, args, status, output, masked(said, 0))
    settings(cluster)
    # By now the maps that this client has are old.
    cluster.delete_pool(POOL)
    cluster.shutdown()


main()
