"""Threads of Python that write objects of 4 KiB through one handle of librados, and wait for each.

    writes.py CONF POOL THREADS SECONDS

Prints a line of JSON: operations, operations a second, times of a call in microseconds.
"""

import json
import sys
import threading
import time

import rados


def main(conf, pool, threads, seconds):
    took_us = [[] for _ in range(threads)]
    failed = []
    with rados.Rados(conffile=conf) as cluster, cluster.open_ioctx(pool) as ioctx:
        began = time.monotonic()

        def write(number):
            data = bytes([number % 256]) * 4096
            try:
                while (before := time.monotonic()) < began + seconds:
                    ioctx.write_full(f"python-{number}", data)
                    took_us[number].append((time.monotonic() - before) * 1e6)
            except Exception as error:  # It is told in the end, by the main thread.
                failed.append(error)

        workers = [threading.Thread(target=write, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        lasted = time.monotonic() - began
    if failed:
        sys.exit(f"an operation failed: {failed[0]}")
    every = sorted(us for some in took_us for us in some)
    print(json.dumps({
        "ops": len(every),
        "ops_per_s": len(every) / lasted,
        "p50_us": every[len(every) // 2],
        "p99_us": every[int(len(every) * 0.99)],
    }))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
