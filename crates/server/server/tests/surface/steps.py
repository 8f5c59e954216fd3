"""What the scripts of this folder have in common: each step prints one line of JSON, its name and what it gave.

Usage: SCRIPT CEPH_CONF; the lines are the same for every cluster, or a cluster answers otherwise than another.
"""
import json
import sys

import rados

MASKED = []
"""Pairs of a text that differs from cluster to cluster, and what stands for it."""


def shown(value):
    if isinstance(value, bytes):
        return value.hex() if len(value) <= 64 else "%d bytes, %s..." % (len(value), value[:16].hex())
    if isinstance(value, dict):
        return {shown_key(k): shown(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(v) for v in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)


def shown_key(key):
    return key.hex() if isinstance(key, bytes) else str(key)


def step(name, call, *args, **kwargs):
    """Calls, prints what came of it, and returns that; None for an error."""
    result = None
    try:
        result = call(*args, **kwargs)
        text = json.dumps([name, shown(result)], sort_keys=True)
    except Exception as e:  # Whatever it is, it is what the call came to.
        number = getattr(e, "errno", None)
        text = json.dumps([name, "!" + type(e).__name__, number, str(e)])
    for volatile, stand_in in MASKED:
        text = text.replace(volatile, stand_in)
    print(text, flush=True)
    return result


def mask(text, stand_in):
    if text:
        MASKED.append((str(text), stand_in))


def cluster(rados_id="admin", **settings):
    """A connected client."""
    c = rados.Rados(conffile=sys.argv[1], rados_id=rados_id, conf=settings)
    # A daemon that does not answer shows as a result, not as a test that never ends.
    c.conf_set("rados_osd_op_timeout", "10")
    c.conf_set("rados_mon_op_timeout", "5")
    c.connect()
    return c
