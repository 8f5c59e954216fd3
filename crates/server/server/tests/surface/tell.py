"""What daemons are told (`ceph tell`), and commands of the monitor, in all formats: each line is a result, what is said of
it, and the output; or only how the output is built, where figures differ from run to run."""

import json
import re
import sys
import time

import rados

cluster = rados.Rados(conffile=sys.argv[1])
cluster.connect()

POOL = "tell"
created = cluster.mon_command(json.dumps({"prefix": "osd pool create", "pool": POOL, "pg_num": 8}), b"")
assert created[0] == 0, created
PGID = f"{cluster.pool_lookup(POOL)}.3"


def ask(target, command, data=b""):
    text = json.dumps(command)
    if target == "osd":
        return cluster.osd_command(0, text, data, 30)
    if target == "mon.a":
        return cluster.mon_command(text, data, 30, target="a")
    return cluster.mon_command(text, data, 30)


def shape(value):
    """Keys in their order and types of values, of an array its first item."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return type(value).__name__ if not isinstance(value, (int, float)) or isinstance(value, bool) else "number"


def common(text):
    text = text.replace(PGID, "PGID")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+\+0000", "TIME", text)
    return re.sub(r"[\d.]+ seconds", "N seconds", text)


def exactly(target, prefix, **args):
    for form in [None, "json", "json-pretty", "xml", "xml-pretty"]:
        command = {"prefix": prefix, **args}
        if form:
            command["format"] = form
        result, output, status = ask(target, command)
        print(target, prefix, args and common(str(args)), form, result, repr(common(status)), repr(common(output.decode())))


def once(target, prefix, **args):
    result, output, status = ask(target, {"prefix": prefix, **args})
    print(target, prefix, common(str(args)), result, repr(common(status)), repr(common(output.decode())))


def built(target, prefix, **args):
    result, output, status = ask(target, {"prefix": prefix, "format": "json", **args})
    print(target, prefix, common(str(args)), result, repr(common(status)), shape(json.loads(output)) if output else None)
    assert not output.endswith(b"\n"), output[-20:]
    pretty = ask(target, {"prefix": prefix, **args})[1]
    assert result != 0 or pretty == b"" or pretty.endswith(b"}\n") or pretty.endswith(b"]\n"), pretty[-20:]
    root = ask(target, {"prefix": prefix, "format": "xml", **args})[1]
    print(target, prefix, root.split(b">")[0])


for prefix in ["version", "git_version", "perf reset", "log flush", "smart"]:
    exactly("osd", prefix, **({"var": "osd"} if prefix == "perf reset" else {}))
    exactly("mon.a", prefix, **({"var": "mon"} if prefix == "perf reset" else {}))

for prefix in [
    "dump_ops_in_flight", "ops", "dump_blocked_ops", "dump_historic_slow_ops", "list_devices",
    "objecter_requests", "dump_osd_network", "dump_watchers", "get_heap_property",
]:
    exactly("osd", prefix, **({"property": "x"} if prefix == "get_heap_property" else {}))

# A new placement group takes a moment.
for _ in range(100):
    if b'"Active"' in ask("osd", {"prefix": "list_unfound", "pgid": PGID})[1]:
        break
    time.sleep(0.2)
built("osd", "status")
built("osd", "bench", count=65536, size=4096)
built("osd", "compact")
built("osd", "cache status")
built("osd", "dump_scrub_reservations")
built("osd", "dump_recovery_reservations")
built("osd", "get_mapped_pools")
built("osd", "query", pgid=PGID)
built("osd", "scrub", pgid=PGID)
built("osd", "deep_scrub", pgid=PGID)
exactly("osd", "list_unfound", pgid=PGID)
for prefix in ["flush_journal", "flush_store_cache", "get_latest_osdmap", "send_beacon", "reset_pg_recovery_stats"]:
    once("osd", prefix)
once("osd", "mark_unfound_lost", pgid=PGID, mulcmd="revert")
once("osd", "mark_unfound_lost", pgid=PGID, mulcmd="nonsense")
once("osd", "mark_unfound_lost", mulcmd="delete")
once("osd", "mark_unfound_lost")
once("osd", "list_unfound", pgid=PGID, offset="x")
for prefix in ["query", "list_unfound", "scrub"]:
    for args in [{}, {"pgid": "x"}, {"pgid": "999.0"}]:
        once("osd", prefix, **args)
once("osd", "bench", count=41943040000, size=4096)
once("osd", "bench", count=41943040000, size=4194304)
once("osd", "bench", count=1, size=419430400)
once("osd", "bench", count="x")
once("osd", "cache drop")
once("osd", "cluster_log", level="nonsense", message=["a line"])
once("osd", "heap", heapcmd="stats")
once("osd", "heap", heapcmd="nonsense")
once("osd", "set_heap_property", property="x", value=3)
once("osd", "cpu_profiler", arg="status")
once("osd", "nonsense")
once("osd", "version", stray="x")
once("osd", "perf dump", logger="nonsense")
once("osd", "perf reset", var="nonsense")
once("osd", "perf reset")

for value in ["7", "7", "x", "8"]:
    once("osd", "config set", var="osd_max_backfills", val=[value])
once("osd", "config set", var="nonsense", val=["x"])
once("osd", "config set", var="osd_data", val=["x"])
exactly("osd", "config get", var="osd_max_backfills")
once("osd", "config get", var="nonsense")
once("osd", "config get", var="osd-max-backfills")
once("osd", "config get")
once("osd", "config unset", var="nonsense")
once("osd", "config help", var="nonsense")
# What another test has left.
for name in ["osd_max_object_name_len", "osd_max_backfills", "osd_recovery_sleep"]:
    ask("osd", {"prefix": "config unset", "var": name})
for args in [
    ["--osd_max_backfills=9"], ["--osd_max_backfills 10 --osd_recovery_sleep 0.25"], ["--nonsense=3"],
    ["--osd_max_object_name_len=300"], ["--osd_data=/x"], ["word"], ["--osd_recovery_sleep=0"], [],
]:
    once("osd", "injectargs", injected_args=args)
once("osd", "injectargs")

result, output, _ = ask("mon.a", {"prefix": "mon_status", "format": "json"})
# Which kinds of clients there are differs, and whether the older protocol is spoken.
print("mon_status", result, {k: shape(v) for k, v in json.loads(output).items() if k not in ["feature_map", "monmap"]})
once("mon.a", "compact")
once("mon.a", "compact", format="json")
once("mon.a", "sync_force")
once("mon.a", "add_bootstrap_peer_hintv", addrv="127.0.0.1:1")
once("mon.a", "connection scores reset")
once("mon.a", "heap", heapcmd="stats")
for prefix in ["quorum_status", "status", "nonsense"]:
    once("mon.a", prefix)
sessions = json.loads(ask("mon.a", {"prefix": "sessions", "format": "json"})[1])
mine = [session for session in sessions if session["global_id"] == cluster.get_instance_id()]
print("sessions", [(shape(session), session["entity_name"], session["caps"]) for session in mine])
once("mon.a", "config set", var="mon_allow_pool_delete", val=["false"])
print(ask("mon", {"prefix": "osd pool rm", "pool": POOL, "pool2": POOL, "yes_i_really_really_mean_it": True})[0])
once("mon.a", "config unset", var="mon_allow_pool_delete")

# The monitor's own.
for prefix in ["osd perf", "osd blocked-by"]:
    exactly("mon", prefix)
for args in [{"states": ["up", "down"], "bucket": "default"}, {"bucket": "nonsense"}, {"bucket": "osd.0"}, {}]:
    once("mon", "osd tree-from", **args)
once("mon", "osd tree-from", bucket="default", states=["down"])
for weights in ["{}", "[]", "x", '{"0":65536}', '{"999":"1"}', '{"x":"1"}', '{"0":"y"}', '{"0":"65536"}']:
    once("mon", "osd reweightn", weights=weights)
for version in ["nonsense", "argonaut", "jewel", "luminous"]:
    once("mon", "osd set-require-min-compat-client", version=version)
    once("mon", "osd get-require-min-compat-client")
for release in ["pacific", "octopus", "luminous"]:
    once("mon", "osd require-osd-release", release=release)
for command, args in [
    ("osd pg-temp", {"id": [0]}), ("osd pg-temp", {}), ("osd primary-temp", {"id": 0}), ("osd primary-temp", {"id": -1}),
    ("osd primary-temp", {"id": 999}), ("osd pg-upmap", {"id": [0]}), ("osd pg-upmap", {"id": [999]}),
    ("osd rm-pg-upmap", {}), ("osd pg-upmap-items", {"id": [0, 0]}), ("osd pg-upmap-items", {"id": [0]}),
    ("osd pg-upmap-items", {"id": [0, 999]}), ("osd rm-pg-upmap-items", {}), ("osd force-create-pg", {}),
]:
    once("mon", command, pgid=PGID, **args)
    once("mon", command, pgid="999.0", **args)
for name in ["a", "b"]:
    once("mon", "mon rm", name=name)
    once("mon", "mon remove", name=name)
    once("mon", "mon set-rank", name=name, rank=0)
once("mon", "mon scrub")
once("mon", "scrub")
once("mon", "mon enable-msgr2")
once("mon", "osd stop", ids=["999"])
once("mon", "osd stop", ids=["x"])
once("mon", "osd crush set")
once("mon", "osd setcrushmap")
once("mon", "mgr module disable", module="nonsense")
once("mon", "mgr module enable", module="nonsense")
once("mon", "fs ls")
once("mon", "fs get", fs_name="x")
once("mon", "mds stat")
once("mon", "mds versions")
once("mon", "mds ok-to-stop", ids=["a"])

MASKS = ["osd/class:ssd", "class:ssd", "osd.0/class:ssd", "global/host:x", "osd/rack:r1", "osd/host:x/class:ssd", "client/host:nowhere"]
for who in [*MASKS, "osd/class:ssd/host:x", "nonsense", "osd/", "osd/host"]:
    once("mon", "config set", who=who, name="osd_max_scrubs", value="3")


def shown(text):
    """Without what the cluster itself has set."""
    return [line.rstrip() for line in text.decode().splitlines() if "osd_max_scrubs" in line]


print("dump", sorted(" ".join(line.split()) for line in shown(ask("mon", {"prefix": "config dump"})[1])))
entries = json.loads(ask("mon", {"prefix": "config dump", "format": "json"})[1])
print("dump", [entry for entry in entries if entry["name"] == "osd_max_scrubs"])
once("mon", "config get", who="osd.0", key="osd_max_scrubs")
for who in MASKS:
    once("mon", "config rm", who=who, name="osd_max_scrubs")
print("left", shown(ask("mon", {"prefix": "config dump"})[1]))

for conf in [b"[osd]\nosd_max_scrubs = 4\nosd min recovery priority = x\nnonsense = 3\n[client.z]\nrbd_cache = false\n[q]\nfoo = bar\n",
             b"", b"stray = 1\n", b"[osd]\nosd_max_scrubs = 5\n", b"[glo", b"[client]\nkeyring = /x\n"]:
    result, output, status = ask("mon", {"prefix": "config assimilate-conf"}, conf)
    print("assimilate", conf, result, repr(status), repr(output))
once("mon", "config rm", who="osd", name="osd_max_scrubs")
once("mon", "config rm", who="client.z", name="rbd_cache")

once("mon", "osd pool rm", pool=POOL, pool2=POOL, yes_i_really_really_mean_it=True)
