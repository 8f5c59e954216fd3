"""Commands that change the CRUSH map, and those that scrub: each command's result, what it says, and what it shows.

All happens below roots of the script's own, so that a cluster's pools stay where they are. Numbers of buckets are not compared: a stock cluster
has shadows of its devices' classes, which take some.
"""
import json
import re
import sys

import rados

c = rados.Rados(conffile=sys.argv[1])
c.connect()


def ask(prefix, to="mon", **args):
    command = json.dumps(dict(prefix=prefix, **args))
    result, output, status = c.mon_command(command, b"") if to == "mon" else c.mgr_command(command, b"")
    return result, output.decode(), status


def plain(text):
    return re.sub(r"-\d+", "-N", text)


def tell(prefix, to="mon", **args):
    result, output, status = ask(prefix, to, **args)
    print(prefix, args, result, plain(status), plain(output), sep=" | ")


def tree(*shadow):
    nodes = json.loads(ask("osd crush tree", format="json", **({"shadow": "--show-shadow"} if shadow else {}))[1])["nodes"]
    names = {node["id"]: node["name"] for node in nodes}
    for node in nodes:
        if node["name"].startswith("x") and (shadow or "~" not in node["name"]):
            children = [names.get(child) for child in node["children"]]
            print("  ", {key: node.get(key) for key in ("device_class", "name", "type", "pool_weights")}, children)


def crush(words, **args):
    tell("osd crush " + words, **args)


c.mon_command(json.dumps({"prefix": "osd crush rm-device-class", "ids": ["0"]}), b"")

for name, kind in [("xr", "root"), ("xh", "host"), ("xh", "host"), ("xh", "rack"), ("xz", "nosuch"), ("osd.0", "host")]:
    crush("add-bucket", name=name, type=kind)
crush("add-bucket", name="xh2", type="host", args=["root=xr", "rack=xk"])
crush("add-bucket", name="xh3", type="host", args=["root"])
tree()
for name, args in [("xh", ["root=xr"]), ("xh", ["root=xr"]), ("nosuch", ["root=xr"]), ("xh", ["bogus=x"]), ("xh", ["rack"]),
                   ("xh", ["rack=xk", "root=xr"]), ("xh", ["host=xh2"]), ("xk", ["host=xh"]), ("xh", ["root=xk"]), ("xh2", ["row=xw", "root=xr2"])]:
    crush("move", name=name, args=args)
    crush("link", name=name, args=args)
tree()
# What is put elsewhere would be taken from where it serves the pools: an OSD is only added.
for osd, weight, args in [(0, 2.0, ["host=xh", "root=xr"]), (0, 1.5, ["host=xh"]), (9999, 1.0, ["host=xh"]), (0, 1.0, ["host=xn"])]:
    crush("add", id=osd, weight=weight, args=args)
for weight in 3.0, 3.0:
    crush("set", id=0, weight=weight, args=["host=xn"])
crush("create-or-move", id=0, weight=9.0, args=["host=xn"])
crush("create-or-move", id=9999, weight=9.0, args=["host=xn"])
tree()
crush("reweight-subtree", name="xr", weight=1.25)
crush("reweight-subtree", name="osd.0", weight=1.25)
crush("reweight-subtree", name="nosuch", weight=1.25)
crush("reweight-all")
crush("ls", node="xr")

crush("set-device-class", **{"class": "xc", "ids": ["0"]})
crush("set-device-class", **{"class": "xc", "ids": ["osd.0", "9999", "x"]})
crush("set-device-class", **{"class": "xd", "ids": ["0"]})
crush("get-device-class", ids=["0"])
crush("get-device-class", ids=["0", "9999"])
crush("get-device-class", ids=["0"], format="json")
crush("get-device-class", ids=["x"])
crush("class ls", format="json")
for form in {}, {"format": "json"}:
    crush("class ls-osd", **{"class": "xc"}, **form)
    crush("class ls-osd", **{"class": "nosuch"}, **form)
tree("shadow")
crush("rule create-replicated", name="xrule", root="xr", type="osd", **{"class": "xc"})
crush("rule create-replicated", name="xrule2", root="xr", type="osd", **{"class": "nosuch"})
crush("rule dump", name="xrule", format="json")
for form in {}, {"format": "json"}:
    crush("rule ls-by-class", **{"class": "xc"}, **form)
    crush("rule ls-by-class", **{"class": "nosuch"}, **form)
for source, target in [("xc", "xe"), ("xc", "xe"), ("xe", "xe"), ("no", "no2")]:
    crush("class rename", srcname=source, dstname=target)
crush("class create", **{"class": "xf"})
crush("class create", **{"class": "xf"})
crush("class rename", srcname="xf", dstname="xe")
for name in "xf", "xf", "xe":
    crush("class rm", **{"class": name})
tree("shadow")
crush("rm", name="xr")
for ids in ["0"], ["osd.0"], ["9999"], ["x"]:
    crush("rm-device-class", ids=ids)
tree("shadow")
crush("rule rm", name="xrule")
crush("class ls", format="json")

ask("osd pool create", pool="xp", pg_num=2, size=1, yes_i_really_mean_it=True)
for form in {}, {"format": "json"}:
    crush("weight-set ls", **form)
crush("weight-set dump", format="json")
crush("weight-set reweight", pool="xp", item="osd.0", weight=[0.25])
for pool, mode in [("xp", "flat"), ("xp", "flat"), ("nosuch", "flat")]:
    crush("weight-set create", pool=pool, mode=mode)
crush("weight-set create-compat")
crush("weight-set create-compat")
crush("weight-set ls")
for item, weight in [("osd.0", [0.25]), ("nosuch", [0.5]), ("xh", [0.75])]:
    crush("weight-set reweight", pool="xp", item=item, weight=weight)
    crush("weight-set reweight-compat", item=item, weight=weight)
tree()
crush("move", name="xk", args=["root=xr2"])
tree()
for _ in range(2):
    crush("weight-set rm", pool="xp")
    crush("weight-set rm-compat")
crush("weight-set ls")

for source, target in [("xh", "xh2"), ("xr", "nosuch"), ("nosuch", "xr"), ("xr", "xr2")]:
    crush("swap-bucket", source=source, dest=target)
tree()
crush("set-tunable", tunable="straw_calc_version", value=7)
crush("set-tunable", tunable="straw_calc_version", value=-1)
crush("set-tunable", tunable="straw_calc_version", value=0)
crush("get-tunable", tunable="straw_calc_version")
crush("set-tunable", tunable="straw_calc_version", value=1)
crush("set-all-straw-buckets-to-straw2")

crush("unlink", name="xh", ancestor="xr")
crush("unlink", name="nosuch")
crush("unlink", name="xh", ancestor="nosuch")
crush("rm", name="xk")
for bucket in "xh", "xh2", "xn":
    crush("rm", name="osd.0", ancestor=bucket)
tree()
crush("unlink", name="xh")
crush("unlink", name="xr")
for name in ["xh", "xh2", "xn", "xk", "xw", "xr", "xr2"]:
    # A stock monitor that proposes a change at that moment runs the command again, and then says that there is none.
    result, output, status = ask("osd crush rm", name=name)
    print("osd crush rm", name, result, output, "removed" in status or "does not appear" in status, sep=" | ")
crush("rm", name="xr2")
tree()

pg = json.loads(ask("osd map", pool="xp", object="o", format="json")[1])["pgid"]


# Where there is a manager, it answers these.
ANSWERS = "mgr" if json.loads(ask("mgr stat", format="json")[1])["available"] else "mon"


def scrub(prefix, **args):
    result, output, status = ask(prefix, ANSWERS, **args)
    print(prefix, result, plain(status.replace(pg, "PG")), output, sep=" | ")


for kind in "scrub", "deep-scrub", "repair":
    for pgid in pg, "9999.0":
        scrub("pg " + kind, pgid=pgid)
    for who in "0", "osd.0", "9999", "x":
        scrub("osd " + kind, who=who)
    for pool in "xp", "nosuch":
        scrub("osd pool " + kind, who=[pool])
for kind in "force-recovery", "force-backfill", "cancel-force-recovery", "cancel-force-backfill":
    scrub("pg " + kind, pgid=[pg])
    scrub("osd pool " + kind, who=["nosuch"])
for form in {}, {"format": "json"}, {"format": "json-pretty"}, {"format": "xml"}, {"format": "xml-pretty"}:
    scrub("pg dump_stuck", **form)
scrub("pg debug", debugop="unfound_objects_exist")
c.mon_command(json.dumps({"prefix": "osd crush rm", "name": "xh3"}), b"")
ask("osd pool rm", pool="xp", pool2="xp", yes_i_really_really_mean_it=True)
c.shutdown()
