"""How Ceph encodes what methods of classes take."""
import struct


def u8(n):
    return struct.pack("<B", n)


def u32(n):
    return struct.pack("<I", n)


def u64(n):
    return struct.pack("<Q", n)


def text(t):
    t = t if isinstance(t, bytes) else t.encode()
    return u32(len(t)) + t


def versioned(*parts, version=1, compat=1):
    body = b"".join(parts)
    return u8(version) + u8(compat) + u32(len(body)) + body


def many(items):
    return u32(len(items)) + b"".join(items)
