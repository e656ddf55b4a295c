"""A disk that records what is written to it: a plugin of nbdkit, for tests of power cuts.

    nbdkit -s python recorder.py image=FILE record=FILE

`image` is what the disk holds; `record` gets an entry for each write, trim and flush, in the order
in which they came. From both, the disk can be made as a power cut may have left it at any point:
what came before the last flush, and any part of what came after it.

An entry is a head of 32 bytes, little-endian: the time (CLOCK_MONOTONIC, ns), the offset, the
length, and the kind (0 write, 1 zeroes, 2 flush), each of 8 bytes. The bytes of a write follow it.
"""

import errno
import os
import struct
import time

import nbdkit

API_VERSION = 2
HEAD = struct.Struct("<QQQQ")
WRITE, ZEROES, FLUSH = 0, 1, 2
# The most that is recorded: then the disk is full.
RECORD_MAX = 4 << 30

paths = {}
files = {}
recorded = 0


def config(key, value):
    if key not in ("image", "record"):
        raise RuntimeError(f"{key} is unknown: give image=FILE and record=FILE")
    paths[key] = os.path.abspath(value)


def config_complete():
    for key in ("image", "record"):
        if key not in paths:
            raise RuntimeError(f"{key} is missing: give image=FILE and record=FILE")


def get_ready():
    files["image"] = os.open(paths["image"], os.O_RDWR)
    files["record"] = os.open(paths["record"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)


def open(readonly):
    return 1


def get_size(handle):
    return os.fstat(files["image"]).st_size


def can_flush(handle):
    return True


def can_trim(handle):
    return False


def can_fua(handle):
    # nbdkit follows such a write by a flush.
    return nbdkit.FUA_EMULATE


def can_multi_conn(handle):
    return True


def record(kind, offset, length, data=b""):
    global recorded
    recorded += HEAD.size + len(data)
    if recorded > RECORD_MAX:
        nbdkit.set_error(errno.ENOSPC)
        raise RuntimeError(f"{RECORD_MAX} bytes are recorded: cut a shorter load")
    now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    entry = [HEAD.pack(now_ns, offset, length, kind), data]
    if os.writev(files["record"], entry) != HEAD.size + len(data):
        nbdkit.set_error(errno.EIO)
        raise RuntimeError("the record cannot be written")


def pread(handle, buffer, offset, flags):
    if os.preadv(files["image"], [buffer], offset) != len(buffer):
        nbdkit.set_error(errno.EIO)
        raise RuntimeError("the image is too short")


def pwrite(handle, buffer, offset, flags):
    record(WRITE, offset, len(buffer), buffer)
    os.pwrite(files["image"], buffer, offset)


def zero(handle, count, offset, flags):
    record(ZEROES, offset, count)
    os.pwrite(files["image"], bytes(count), offset)


def flush(handle, flags):
    record(FLUSH, 0, 0)
