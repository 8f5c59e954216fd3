"""Drives libradosstriper through its C interface, since `rados --striper` cannot choose a layout.

Usage: striper.py CONF POOL; commands come on standard input, one a line, and are answered with a number each:
  write NAME STRIPE_UNIT STRIPE_COUNT OBJECT_SIZE OFFSET FILE      append NAME FILE      trunc NAME SIZE
  read NAME FILE      stat NAME      rm NAME
"""
import ctypes
import sys

rados = ctypes.CDLL("librados.so.2")
striper = ctypes.CDLL("libradosstriper.so.1")
u64 = ctypes.c_uint64


def done(result, what):
    if result < 0:
        raise SystemExit(f"{what}: {result}")


cluster, ioctx = ctypes.c_void_p(), ctypes.c_void_p()
done(rados.rados_create2(ctypes.byref(cluster), b"ceph", b"client.admin", u64(0)), "create")
done(rados.rados_conf_read_file(cluster, sys.argv[1].encode()), "conf")
done(rados.rados_connect(cluster), "connect")
done(rados.rados_ioctx_create(cluster, sys.argv[2].encode(), ctypes.byref(ioctx)), "pool")


def opened(unit=4 << 20, count=1, size=4 << 20):
    handle = ctypes.c_void_p()
    done(striper.rados_striper_create(ioctx, ctypes.byref(handle)), "striper")
    for name, value in (("stripe_unit", unit), ("stripe_count", count), ("object_size", size)):
        done(getattr(striper, "rados_striper_set_object_layout_" + name)(handle, ctypes.c_uint(value)), name)
    return handle


def size_of(handle, name):
    size, mtime = u64(), ctypes.c_int64()
    result = striper.rados_striper_stat(handle, name, ctypes.byref(size), ctypes.byref(mtime))
    return result if result < 0 else size.value


def run(command, name, *args):
    name = name.encode()
    if command == "write":
        unit, count, size, offset = (int(arg) for arg in args[:4])
        data = open(args[4], "rb").read()
        handle = opened(unit, count, size)
        result = striper.rados_striper_write(handle, name, data, ctypes.c_size_t(len(data)), u64(offset))
    else:
        handle = opened()
        if command == "append":
            data = open(args[0], "rb").read()
            result = striper.rados_striper_append(handle, name, data, ctypes.c_size_t(len(data)))
        elif command == "trunc":
            result = striper.rados_striper_trunc(handle, name, u64(int(args[0])))
        elif command == "read":
            size = max(size_of(handle, name), 0)
            buffer = ctypes.create_string_buffer(size + 10)
            result = striper.rados_striper_read(handle, name, buffer, ctypes.c_size_t(size + 10), u64(0))
            open(args[0], "wb").write(buffer.raw[: max(result, 0)])
        elif command == "stat":
            result = size_of(handle, name)
        elif command == "rm":
            result = striper.rados_striper_remove(handle, name)
        else:
            raise SystemExit(f"no command {command}")
    striper.rados_striper_destroy(handle)
    return result


for line in sys.stdin:
    print(run(*line.split()), flush=True)
rados.rados_ioctx_destroy(ioctx)
rados.rados_shutdown(cluster)
