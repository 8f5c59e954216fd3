#!/usr/bin/python3
"""Captures messages for the corpus: records the messages that stock programs exchange over loopback.

    capture.py DIR RELEASE KINDS -- COMMAND...

Runs COMMAND, watches all TCP connections over loopback that begin meanwhile and speak msgr2 in crc mode, and
writes each message of one of KINDS (numbers, separated by commas) to DIR/RELEASE_KIND_NN.msg. Messages whose
parts have the same lengths as those of an earlier one of their kind and direction are left out. Connections to
monitors are in crc mode only if ceph.conf says so (`ms mon client mode = crc`; `ms mon cluster mode = crc` for
daemons). No other cluster may be in use on the machine meanwhile: its messages would be recorded too. Needs
root. COMMAND is a client of a cluster of `cargo xtask stock-ceph`, on stock Ceph's own libraries.
"""
import os
import socket
import struct
import subprocess
import sys
import threading

ALL_PROTOCOLS = 3
OUTGOING = 4
SYN = 2
MESSAGE = 17
BANNER = b"ceph v2\n"


class Stream:
    """One direction of a connection."""

    def __init__(self, seq, found):
        self.next = (seq + 1) & 0xFFFFFFFF
        self.early = {}
        self.buf = bytearray()
        self.banner = False
        self.dead = False
        self.found = found

    def packet(self, seq, data):
        self.early[seq] = data
        while self.next in self.early:
            data = self.early.pop(self.next)
            self.next = (self.next + len(data)) & 0xFFFFFFFF
            self.buf += data
        if not self.dead:
            self.parse()

    def parse(self):
        if not self.banner:
            if len(self.buf) < 10:
                return
            if bytes(self.buf[:8]) != BANNER:
                self.dead = True
                return
            length = 10 + struct.unpack_from("<H", self.buf, 8)[0]
            if len(self.buf) < length:
                return
            del self.buf[:length]
            self.banner = True
        while len(self.buf) >= 32:
            tag, count = self.buf[0], self.buf[1]
            lengths = [struct.unpack_from("<I", self.buf, 2 + 6 * i)[0] for i in range(4)]
            if not 1 <= count <= 4 or sum(lengths) > 64 << 20:
                self.dead = True  # secure mode
                return
            total = 32 + sum(lengths) + (4 if lengths[0] else 0) + (13 if count > 1 else 0)
            if len(self.buf) < total:
                return
            frame = bytes(self.buf[32:total])
            del self.buf[:total]
            if tag == MESSAGE:
                self.message(frame, lengths)

    def message(self, frame, lengths):
        header = frame[: lengths[0]]
        at = lengths[0] + 4
        parts = []
        for length in lengths[1:]:
            parts.append(frame[at : at + length])
            at += length
        self.found(header, parts)


class Tap:
    def __init__(self, directory, release, kinds):
        self.directory, self.release, self.kinds = directory, release, kinds
        self.streams = {}
        self.seen = set()
        self.numbers = {}
        self.lost = 0

    def found(self, sender, header, parts):
        _, tid, kind, priority, version = struct.unpack_from("<QQHHH", header)
        compat = struct.unpack_from("<H", header, 37)[0]
        if kind not in self.kinds:
            return
        lengths = [len(part) for part in parts]
        what = (kind, version, parts[0][:4], tuple(lengths))
        if what in self.seen:
            return
        self.seen.add(what)
        number = self.numbers[kind] = self.numbers.get(kind, 0) + 1
        name = f"{self.release}_{self.kinds[kind]}_{number:02}.msg"
        head = struct.pack("<HHHHQIII", kind, version, compat, priority, tid, *lengths)
        with open(os.path.join(self.directory, name), "wb") as file:
            file.write(head + b"".join(parts))

    def packet(self, data):
        if data[12:14] != b"\x08\x00" or data[23] != 6:
            return
        ip = 14
        ip_len = (data[ip] & 15) * 4
        end = ip + struct.unpack_from(">H", data, ip + 2)[0]
        if end == ip:
            end = len(data)  # larger than the field can say
        tcp = ip + ip_len
        source, dest, seq = struct.unpack_from(">HHI", data, tcp)
        flags = data[tcp + 13]
        body = data[tcp + (data[tcp + 12] >> 4) * 4 : end]
        key = (source, dest)
        if flags & SYN:
            self.streams[key] = Stream(seq, lambda h, p: self.found(key, h, p))
        elif body and key in self.streams:
            self.streams[key].packet(seq, body)

    def watch(self, sock, stop):
        while not stop.is_set():
            try:
                data, address = sock.recvfrom(1 << 20)
            except TimeoutError:
                continue
            if address[2] == OUTGOING:
                self.packet(data)


NAMES = {
    21: "mds_map", 22: "client_session", 23: "client_reconnect", 24: "client_request",
    25: "client_request_forward", 26: "client_reply", 27: "client_reclaim", 28: "client_reclaim_reply",
    29: "client_metrics", 45: "fs_map", 103: "fs_map_user", 0x310: "client_caps", 0x311: "client_lease",
    0x312: "client_snap", 0x313: "client_cap_release", 0x314: "client_quota",
}


def main():
    directory, release, kinds = sys.argv[1:4]
    command = sys.argv[sys.argv.index("--") + 1 :]
    numbers = NAMES.keys() if kinds == "all" else [int(kind, 0) for kind in kinds.split(",")]
    tap = Tap(directory, release, {kind: NAMES.get(kind, str(kind)) for kind in numbers})
    os.makedirs(directory, exist_ok=True)
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    sock.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)  # SO_RCVBUFFORCE
    sock.bind(("lo", 0))
    sock.settimeout(0.2)
    stop = threading.Event()
    thread = threading.Thread(target=tap.watch, args=(sock, stop))
    thread.start()
    status = subprocess.call(command)
    stop.wait(1)
    stop.set()
    thread.join()
    print({NAMES.get(kind, kind): number for kind, number in sorted(tap.numbers.items())})
    sys.exit(status)


main()
