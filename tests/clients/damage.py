"""A proxy that makes a memcached server seem broken, to show that the clients would notice.

    damage.py KIND HOST:PORT

Listens on a free port of 127.0.0.1, prints it, and forwards until it is ended. KIND is one of:

    mark    one letter of every `byte-for-byte` in a reply is changed
    bulk    one bit of byte 500,000 of all that is answered is turned
    status  every success of a write is answered as a refusal
    expiry  items that are to live for two seconds live for ever
    twice   `stats slabs` has `mem_requested` too, which only `stats items` has in memcached
"""

import re
import socket
import sys
import threading
from collections.abc import Callable

CHUNK_BYTES = 64 * 1024
BULK_AT = 500_000
STATUS = {b"\r\nSTORED\r\n": b"\r\nEXISTS\r\n", b"\r\nHD": b"\r\nNS"}
# The lifetime in a classic storage command and in a meta one.
TWO_SECONDS = re.compile(rb"^(set \S+ \d+ |ms \S+ [^\r]*\bT)2\b", re.MULTILINE)
# The first name of a class in `stats slabs`.
CLASS = re.compile(rb"^STAT (\d+):chunk_size ", re.MULTILINE)

Damage = Callable[[bytes], bytes]


class Bulk:
    """Turns one bit of one byte, counted over all connections."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seen = 0

    def __call__(self, reply: bytes) -> bytes:
        with self.lock:
            at = BULK_AT - self.seen
            self.seen += len(reply)
        if not 0 <= at < len(reply):
            return reply
        return reply[:at] + bytes([reply[at] ^ 1]) + reply[at + 1 :]


def mark(reply: bytes) -> bytes:
    return reply.replace(b"byte-for-byte", b"byte-for-bite")


def status(reply: bytes) -> bytes:
    # A reply is a line of its own, so the line end before it may belong to an earlier chunk.
    lines = b"\r\n" + reply
    for success, refusal in STATUS.items():
        lines = lines.replace(success, refusal)
    return lines[2:]


def expiry(request: bytes) -> bytes:
    return TWO_SECONDS.sub(rb"\g<1>0", request)


def twice(reply: bytes) -> bytes:
    return CLASS.sub(rb"STAT \g<1>:mem_requested 24\r\n\g<0>", reply)


def copy(source: socket.socket, target: socket.socket, damage: Damage) -> None:
    try:
        while chunk := source.recv(CHUNK_BYTES):
            target.sendall(damage(chunk))
    except OSError:
        pass
    finally:
        for side in (source, target):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def main() -> None:
    # What is done to requests and what to replies; bytes() leaves them alone.
    kinds: dict[str, tuple[Damage, Damage]] = {
        "mark": (bytes, mark),
        "bulk": (bytes, Bulk()),
        "status": (bytes, status),
        "expiry": (expiry, bytes),
        "twice": (bytes, twice),
    }
    if len(sys.argv) != 3 or sys.argv[1] not in kinds or ":" not in sys.argv[2]:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(kinds)} HOST:PORT")
    request, reply = kinds[sys.argv[1]]
    host, _, port = sys.argv[2].rpartition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        server = socket.create_connection((host, int(port)))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for work in ((client, server, request), (server, client, reply)):
            threading.Thread(target=copy, args=work, daemon=True).start()


if __name__ == "__main__":
    main()
