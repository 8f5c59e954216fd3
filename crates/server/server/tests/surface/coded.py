"""Profiles of erasure codes and the rules that are made by them: results, and the profiles as they are kept.

Left out, as it cannot be the same: plugins and techniques that this server has not, and k + m above what a pool may have, which a
stock monitor refuses when a pool is made. Texts of refusals are compared by the tests of the monitor.
"""
import json

from steps import cluster, step

c = cluster()
PROFILE = "osd erasure-code-profile "


def told(prefix, **args):
    """Result and output of a command."""
    args["prefix"] = prefix
    result, output, _ = c.mon_command(json.dumps(args), b"", timeout=30)
    return result, output


def tell(said, prefix, **args):
    step(said, lambda: told(prefix, **args))


tell("get default", PROFILE + "get", name="default")
tell("get default, JSON", PROFILE + "get", name="default", format="json")
tell("get none", PROFILE + "get", name="surface-none")
WORDS = [
    [],
    ["k=2", "m=1"],
    ["k=3", "m=1", "crush-failure-domain=osd"],
    ["k=1", "m=1"],
    ["k=2", "m=0"],
    ["k=x", "m=1"],
    ["k=2", "m=1", "plugin=nosuch"],
    ["k=2", "m=1", "technique=nosuch"],
    ["k=2", "m=1", "w=7"],
    ["k=2", "m=1", "w=16"],
    ["k=2", "m=1", "crush-failure-domain=nosuch"],
    ["k=2", "m=1", "crush-root=nosuch"],
    ["k=2", "m=1", "crush-device-class=nosuch"],
    ["k=2", "m=1", "stripe_unit=4096"],
    ["k=2", "m=1", "stripe_unit=100"],
    ["k=2", "m=1", "stripe_unit=64"],
    ["k=2", "m=1", "stripe_unit=x"],
    ["k=2", "m=1", "plugin=isa"],
    ["k=2", "m=1", "plugin=isa", "technique=cauchy"],
    ["k=2", "m=1", "plugin=isa", "technique=nosuch"],
    ["junk"],
    ["k=2", "m=1", "foo=bar"],
]
for words in WORDS:
    # Only stripes can be forced. Each change takes a stock monitor about a second.
    for force in (False, True) if "stripe_unit" in " ".join(words) else (False,):
        name = "surface-coded"
        title = " ".join(words) + (", forced" if force else "")
        tell("set " + title, PROFILE + "set", name=name, profile=words, force=force)
        tell("get " + title, PROFILE + "get", name=name)
        tell("rule " + title, "osd crush rule create-erasure", name=name, profile=name)
        tell("rm rule " + title, "osd crush rule rm", name=name)
        tell("rm " + title, PROFILE + "rm", name=name)

tell("set", PROFILE + "set", name="surface-coded", profile=["k=2", "m=1"])
tell("set the same", PROFILE + "set", name="surface-coded", profile=["k=2", "m=1"])
tell("set another", PROFILE + "set", name="surface-coded", profile=["k=3", "m=1"])
tell("set another, forced", PROFILE + "set", name="surface-coded", profile=["k=3", "m=1"], force=True)
tell("get another", PROFILE + "get", name="surface-coded")
tell("rule", "osd crush rule create-erasure", name="surface-coded", profile="surface-coded")
tell("rule again", "osd crush rule create-erasure", name="surface-coded", profile="surface-coded")
tell("rule of no profile", "osd crush rule create-erasure", name="surface-other", profile="surface-none")
tell("rm rule", "osd crush rule rm", name="surface-coded")
tell("rm", PROFILE + "rm", name="surface-coded")
tell("rm again", PROFILE + "rm", name="surface-coded")
c.shutdown()
