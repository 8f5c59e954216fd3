"""Carries out file system calls through libcephfs: one call a line, one answer a line.

Arguments: the directory to mount. Byte strings are hexadecimal with an `x` in front. An answer is `ok VALUE…`
or `err ERRNO`. The first line says that it is mounted.
"""

import errno
import hashlib
import os
import stat
import subprocess
import sys
import time

import cephfs


def mounted():
    client = cephfs.LibCephFS(conffile=os.environ["CEPH_CONF"])
    client.mount(mount_root=sys.argv[1].encode())
    if hasattr(client, "umask"):
        client.umask(0)
    return client


# What the other client runs: it says who it is, renames, and ends with the first rename that fails.
RENAMER = """
import os, sys, cephfs
client = cephfs.LibCephFS(conffile=os.environ["CEPH_CONF"])
client.mount(mount_root=sys.argv[1].encode())
print(client.get_instance_id(), flush=True)
for line in sys.stdin:
    try:
        client.rename(*(bytes.fromhex(word[1:]) for word in line.split()))
        print("0", flush=True)
    except UnicodeDecodeError:
        print("-1", flush=True)
        break
    except cephfs.OSError as failed:
        print(failed.errno, flush=True)
        break
client.shutdown()
"""


class Renaming:
    """Another client, in a process of its own: one whose rename has failed waits for ever when it looks at
    the new name again (16.2.15: "rename is on the way"), and may crash when it unmounts. It is replaced then."""

    def __init__(self):
        arguments = [sys.executable, "-c", RENAMER, sys.argv[1]]
        self.child = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.id = int(self.child.stdout.readline())

    def rename(self, old, new):
        self.child.stdin.write(f"{old} {new}\n")
        self.child.stdin.flush()
        failed = int(self.child.stdout.readline())
        if failed == 0:
            return
        self.end()
        self.__init__()
        if failed < 0:
            raise UnicodeDecodeError("utf-8", b"", 0, 0, "a path")
        raise OSError(failed, "rename")

    def end(self):
        self.child.stdin.close()
        if self.child.wait() != 0:
            # What its session holds would keep the others waiting.
            evict = ["ceph", "tell", "mds.0", "session", "evict", f"id={self.id}"]
            subprocess.run(evict, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


fs = mounted()
renaming = Renaming()
files = {}


def raw(word):
    return bytes.fromhex(word[1:])


def shown(data):
    return "x" + data.hex()


def pattern(length, seed):
    # A prime period: what lies at a wrong offset differs.
    period = bytes((seed * 31 + at * 7) % 256 for at in range(251))
    return (period * (length // 251 + 1))[:length]


def when(moment):
    seconds = int(moment.timestamp())
    return "now" if abs(seconds - time.time()) < 3600 else str(seconds)


def described(found):
    mode = found.st_mode
    size = "-" if stat.S_ISDIR(mode) else found.st_size
    # Not the time of modification: this client shows another one than the server has, once a size was set.
    owner, atime = f"{found.st_uid} {found.st_gid}", when(found.st_atime)
    return f"{mode:o} {found.st_nlink} {owner} {size} {found.st_rdev} {atime}"


def file(slot):
    if slot not in files:
        raise OSError(errno.EBADF, "no such file is open")
    return files[slot]


def not_below_a_file(path):
    """libcephfs may abort where a name is looked for below a file: one that has had several names."""
    parent = path.rstrip(b"/").rpartition(b"/")[0]
    if not parent:
        return
    try:
        found = fs.stat(parent)
    except (cephfs.OSError, UnicodeDecodeError):
        # The call itself tells.
        return
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.ENOTDIR, "below a file")


def a_directory_if_it_says_so(path):
    """libcephfs does not mind a slash behind the name of a file."""
    if not path.endswith(b"/"):
        return
    try:
        found = fs.stat(path.rstrip(b"/") or b"/")
    except (cephfs.OSError, UnicodeDecodeError):
        # The call itself tells.
        return
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.ENOTDIR, "a slash behind a file")


def open_(slot, path, flags, mode):
    if slot in files:
        fs.close(files.pop(slot))
    bits = {"r": os.O_RDONLY, "w": os.O_WRONLY, "b": os.O_RDWR}[flags[0]]
    for letter, bit in (("c", os.O_CREAT), ("x", os.O_EXCL), ("t", os.O_TRUNC)):
        bits |= bit if letter in flags else 0
    not_below_a_file(raw(path))
    if bits & os.O_CREAT and path.endswith("2f"):
        raise OSError(errno.EISDIR, "a slash behind the name of a new file")
    a_directory_if_it_says_so(raw(path))
    files[slot] = open_data(raw(path), bits, int(mode, 8))


def open_data(path, bits, mode):
    """Opens a file with data, as the other client does; libcephfs waits for ever when a directory is read."""
    fd = fs.open(path, bits, mode)
    kind = fs.fstat(fd).st_mode
    if not stat.S_ISREG(kind):
        fs.close(fd)
        raise OSError(errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL, "not a file with data")
    return fd


def close(slot):
    fd = file(slot)
    del files[slot]
    fs.close(fd)


def read_all(fd, offset, length):
    # Once at least: a read of nothing fails, too, where the file is not open to read.
    data = fs.read(fd, offset, min(length, 1 << 24))
    while data and len(data) < length:
        more = fs.read(fd, offset + len(data), min(length - len(data), 1 << 24))
        if not more:
            break
        data += more
    return data


def summed(data):
    return f"{len(data)} {hashlib.sha256(data).hexdigest()[:16]}"


def write_all(fd, offset, data):
    while data:
        done = fs.write(fd, data, offset)
        data, offset = data[done:], offset + done


def append(slot, length, seed):
    fd = file(slot)
    at = fs.fstat(fd).st_size
    write_all(fd, at, pattern(int(length), int(seed)))
    return str(at)


def punch(slot, offset, length):
    fd, mode = file(slot), cephfs.FALLOC_FL_PUNCH_HOLE | cephfs.FALLOC_FL_KEEP_SIZE
    if arguments_are_turned(fd):
        fs.fallocate(fd, int(offset), int(length), mode)
    else:
        fs.fallocate(fd, mode, int(offset), int(length))


def arguments_are_turned(fd):
    """Whether this release's module turns offset, length and mode: then this length is 0, and refused."""
    try:
        fs.fallocate(fd, 0x100, 0, 10)
    except cephfs.OSError as failed:
        return failed.errno == errno.EINVAL
    return False


def link(old, new):
    # This follows a link, as no system call does.
    if stat.S_ISLNK(fs.lstat(raw(old)).st_mode):
        raise OSError(errno.ELOOP, "a symbolic link")
    fs.link(raw(old), raw(new))


def truncate(path, size):
    # This sets the size of whatever has the name, a link or a directory too, and may end the process for it.
    kind = fs.lstat(raw(path)).st_mode
    if not stat.S_ISREG(kind):
        refused = {stat.S_IFLNK: errno.ELOOP, stat.S_IFDIR: errno.EISDIR}.get(stat.S_IFMT(kind), errno.EINVAL)
        raise OSError(refused, "not a file with data")
    fs.truncate(raw(path), int(size))


def content(path):
    fd = open_data(raw(path), os.O_RDONLY, 0)
    try:
        return summed(read_all(fd, 0, 1 << 62))
    finally:
        fs.close(fd)


def listed(path):
    handle = fs.opendir(raw(path))
    names = []
    try:
        while entry := fs.readdir(handle):
            if entry.d_name not in (b".", b".."):
                names.append(f"{shown(entry.d_name)}:{entry.d_type}")
    finally:
        fs.closedir(handle)
    return " ".join(sorted(names))


def xattrs(path):
    _, names = fs.listxattr(raw(path))
    return " ".join(sorted(shown(name) for name in names.split(b"\0") if name))


def utimens(path, atime, mtime):
    fs.utimes(raw(path), (float(atime), float(mtime)))


def statfs(path):
    found = fs.statfs(raw(path))
    return f"{found['f_bsize']} {found['f_namemax']}"


CALLS = {
    "open": open_,
    "close": close,
    "read": lambda slot, at, length: summed(read_all(file(slot), int(at), int(length))),
    "write": lambda slot, at, length, seed: write_all(file(slot), int(at), pattern(int(length), int(seed))),
    "append": append,
    "ftruncate": lambda slot, size: fs.ftruncate(file(slot), int(size)),
    "punch": punch,
    "fsync": lambda slot: fs.fsync(file(slot), 0),
    "fstat": lambda slot: described(fs.fstat(file(slot))),
    "content": content,
    "mkdir": lambda path, mode: fs.mkdir(raw(path), int(mode, 8)),
    "rmdir": lambda path: fs.rmdir(raw(path)),
    "unlink": lambda path: fs.unlink(raw(path)),
    "rename": renaming.rename,
    "link": link,
    "symlink": lambda target, path: fs.symlink(raw(target), raw(path)),
    "readlink": lambda path: shown(fs.readlink(raw(path), 4096)),
    "mknod": lambda path, mode, rdev: fs.mknod(raw(path), int(mode, 8), int(rdev)),
    "stat": lambda path: described(fs.stat(raw(path))),
    "lstat": lambda path: described(fs.lstat(raw(path))),
    "ino": lambda path: str(fs.lstat(raw(path)).st_ino),
    "readdir": listed,
    "chmod": lambda path, mode: fs.chmod(raw(path), int(mode, 8)),
    "chown": lambda path, uid, gid: fs.chown(raw(path), int(uid), int(gid)),
    "lchown": lambda path, uid, gid: fs.lchown(raw(path), int(uid), int(gid)),
    "utimens": utimens,
    "truncate": truncate,
    "setxattr": lambda path, name, value, flags: fs.setxattr(raw(path), raw(name), raw(value), int(flags)),
    "getxattr": lambda path, name: shown(fs.getxattr(raw(path), raw(name))),
    "rmxattr": lambda path, name: fs.removexattr(raw(path), raw(name)),
    "listxattr": xattrs,
    "statfs": statfs,
    "sync": fs.sync_fs,
}


# Calls that make or remove a name, and which of their arguments are paths of such a name.
NAMES = {
    "link": [2],
    "mkdir": [1],
    "mknod": [1],
    "rename": [1, 2],
    "rmdir": [1],
    "symlink": [2],
    "unlink": [1],
}


# Calls that follow a link at the end of their path.
FOLLOWING = {"chmod", "chown", "content", "getxattr", "listxattr", "rmxattr", "setxattr", "stat", "truncate", "utimens"}


def answer(words):
    try:
        for at in NAMES.get(words[0], []):
            # This aborts where an empty path is to be made or removed (16.2.15): it is the root.
            words[at] = words[at] if raw(words[at]) else "x2f"
            not_below_a_file(raw(words[at]))
        if words[0] in FOLLOWING:
            a_directory_if_it_says_so(raw(words[1]))
        value = CALLS[words[0]](*words[1:])
    except (cephfs.OSError, OSError) as failed:
        return f"err {failed.errno}"
    except UnicodeDecodeError:
        # The call has failed, and the module does not say why: it puts the path into its words as text.
        return "err 0"
    return f"ok {value}" if isinstance(value, str) else "ok"


print("mounted", flush=True)
for line in sys.stdin:
    print(answer(line.split()), flush=True)
for fd in files.values():
    fs.close(fd)
fs.shutdown()
renaming.end()
