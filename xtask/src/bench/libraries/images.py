"""One process that opens many images and keeps them open.

    images.py CONF POOL COUNT [make]

With "make" it creates them and opens none. Otherwise prints a line of JSON: images opened, images a second,
times of an opening in microseconds, and what each open image takes in KiB of resident memory.
"""

import json
import sys
import time

import rados
import rbd


def resident_kib():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def open_all(ioctx, count):
    images, took_us = [], []
    # The first opening starts what all others use.
    rbd.Image(ioctx, "many-0").close()
    before, began = resident_kib(), time.monotonic()
    for number in range(count):
        start = time.monotonic()
        images.append(rbd.Image(ioctx, f"many-{number}"))
        took_us.append((time.monotonic() - start) * 1e6)
    lasted, grown = time.monotonic() - began, resident_kib() - before
    for image in images:
        image.close()
    took_us.sort()
    print(json.dumps({
        "ops": count,
        "ops_per_s": count / lasted,
        "p50_us": took_us[count // 2],
        "p99_us": took_us[int(count * 0.99)],
        "kib_per_op": grown / count,
    }))


def main(conf, pool, count, makes):
    with rados.Rados(conffile=conf) as cluster, cluster.open_ioctx(pool) as ioctx:
        if makes:
            for number in range(count):
                rbd.RBD().create(ioctx, f"many-{number}", 1 << 30)
        else:
            open_all(ioctx, count)


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:] == ["make"])
