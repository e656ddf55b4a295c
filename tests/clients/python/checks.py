"""What the three Python programs share: the tally of checks, the values and the deadlines.

A program stops at the first difference: it prints what was compared, what it got and what it
wanted, and leaves with status 1. If nothing differs its last line is `N checks passed`.
Nothing here knows a client library.
"""

import hashlib
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

# No item outlives its time by more than this, whatever the granularity of the server's clock.
EXPIRY_DEADLINE_S = 8.0
POLL_S = 0.05

# The longest key that memcached accepts.
KEY_BYTES_MAX = 250
# The item limit is 1 MiB including its header and key: the largest value everyone can rely on,
# and the smallest that everyone must refuse.
VALUE_BYTES_LARGE = 1024 * 1024 - 1024
VALUE_BYTES_TOO_LARGE = 1024 * 1024 + 1
MULTIGET_KEYS = 500

# Never compressible, so that no client shrinks it on the way.
LARGE = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(VALUE_BYTES_LARGE // 32))

# The programs' common mark, so that a broken server can be told what to damage.
MARK = b"byte-for-byte"

VALUES: dict[str, bytes] = {
    "empty": b"",
    "one byte": b"x",
    "a marked value": MARK,
    "line ends": b"\r\nfirst\r\nsecond\n\r\r\n",
    "nuls": b"\x00head\x00\x00tail\x00",
    "every byte": bytes(range(256)) * 5,
    "a reply": b"VALUE fake 0 3\r\nxyz\r\nEND\r\n",
    "a meta reply": b"HD\r\nMN\r\nVA 2 \r\nhi\r\n",
    "a command": b"quit\r\nflush_all\r\n",
    "just past a packet": LARGE[:1461],
    "past most buffers": LARGE[:70_001],
}


def fail(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(1)


def shown(value: Any) -> str:
    """A value as a person can read it, long ones by length and both ends."""
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:70]} ... {text[-70:]} ({len(value)} long)"


class Checks:
    """Counts what held; leaves the program at the first thing that did not."""

    def __init__(self) -> None:
        self.count = 0

    def equal(self, what: str, got: Any, want: Any) -> None:
        if type(got) is not type(want) or got != want:
            fail(f"{what}: got {shown(got)}, want {shown(want)}")
        self.count += 1

    def that(self, what: str, held: bool) -> None:
        self.equal(what, bool(held), True)

    def raises(self, what: str, kinds: type | tuple[type, ...], call: Callable[[], Any]) -> None:
        try:
            got = call()
        except kinds:
            self.count += 1
            return
        fail(f"{what}: got {shown(got)}, want an error")

    def soon(self, what: str, call: Callable[[], bool]) -> None:
        """Holds once `call` is true, however long that takes up to the deadline."""
        deadline = time.monotonic() + EXPIRY_DEADLINE_S
        while not call():
            if time.monotonic() > deadline:
                fail(f"{what}: not within {EXPIRY_DEADLINE_S} s")
            time.sleep(POLL_S)
        self.count += 1

    def done(self) -> None:
        print(f"{self.count} checks passed")


def address() -> tuple[str, int]:
    """HOST:PORT, the one argument of every program."""
    if len(sys.argv) != 2 or ":" not in sys.argv[1]:
        fail(f"usage: {sys.argv[0]} HOST:PORT")
    host, _, port = sys.argv[1].rpartition(":")
    if not port.isdigit():
        fail(f"port {port!r} is not a number: give HOST:PORT")
    return host, int(port)
