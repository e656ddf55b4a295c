"""pylibmc (libmemcached, classic text protocol) against HOST:PORT. Empties the server."""

import os

import pylibmc
from checks import (
    KEY_BYTES_MAX,
    LARGE,
    MULTIGET_KEYS,
    VALUE_BYTES_TOO_LARGE,
    VALUES,
    Checks,
    address,
)

TIMEOUT_MS = 10_000
COMPRESS_BYTES_MIN = 1000


def connect(where: tuple[str, int], **behaviors: bool) -> pylibmc.Client:
    timeouts = {"receive_timeout": TIMEOUT_MS * 1000, "send_timeout": TIMEOUT_MS * 1000}
    chosen = {"tcp_nodelay": True, "cas": True, "connect_timeout": TIMEOUT_MS}
    host, port = where
    return pylibmc.Client([f"{host}:{port}"], behaviors=chosen | timeouts | behaviors)


def storage(c: Checks, m: pylibmc.Client) -> None:
    for name, value in VALUES.items():
        c.equal(f"set {name}", m.set("s", value), True)
        c.equal(f"get {name}", m.get("s"), value)
        c.equal(f"set {name}, compressed", m.set("z", value, min_compress_len=1), True)
        c.equal(f"get {name}, compressed", m.get("z"), value)
    c.equal("get of a missing key", m.get("missing"), None)
    c.equal("add to a present key", m.add("s", b"no"), False)
    c.equal("add to a free key", m.add("added", b"yes"), True)
    c.equal("the added value", m.get("added"), b"yes")
    c.equal("replace a missing key", m.replace("missing", b"no"), False)
    c.equal("replace a present key", m.replace("added", b"\x00new\r\n"), True)
    c.equal("append", m.append("added", b"\r\ntail"), True)
    c.equal("prepend", m.prepend("added", b"head\x00"), True)
    c.equal("the joined value", m.get("added"), b"head\x00\x00new\r\n\r\ntail")
    c.equal("append to a missing key", m.append("missing", b"no"), False)
    c.equal("nothing was made on the way", m.get("missing"), None)
    c.equal("delete", m.delete("added"), True)
    c.equal("delete again", m.delete("added"), False)
    c.equal("the deleted key", m.get("added"), None)


def compare_and_swap(c: Checks, m: pylibmc.Client) -> None:
    m.set("c", b"first")
    value, token = m.gets("c")
    c.equal("gets", value, b"first")
    c.equal("cas with the token", m.cas("c", b"second", token), True)
    c.equal("cas with the token spent", m.cas("c", b"third", token), False)
    c.equal("the swapped value", m.get("c"), b"second")
    c.raises("cas on a missing key", pylibmc.NotFound, lambda: m.cas("missing", b"no", token))


def counters(c: Checks, m: pylibmc.Client) -> None:
    c.raises("incr a missing key", pylibmc.NotFound, lambda: m.incr("n"))
    m.set("n", 9)
    c.equal("incr over a digit", m.incr("n"), 10)
    c.equal("the number keeps its type", m.get("n"), 10)
    c.equal("decr", m.decr("n", 3), 7)
    c.equal("decr stops at zero", m.decr("n", 1000), 0)
    numbers = {f"n{n}": n for n in range(20)}
    m.set_multi(numbers)
    m.incr_multi(list(numbers), delta=100)
    c.equal("incr_multi", m.get_multi(list(numbers)), {k: n + 100 for k, n in numbers.items()})
    m.set("n", b"word")
    c.raises("incr a word", pylibmc.Error, lambda: m.incr("n"))
    c.equal("the word is unharmed", m.get("n"), b"word")


def multigets(c: Checks, m: pylibmc.Client) -> None:
    items = {f"m{n}": LARGE[n : n + n % 300] for n in range(MULTIGET_KEYS)}
    c.equal("set_multi", m.set_multi(items), [])
    keys = [key for n in range(MULTIGET_KEYS) for key in (f"m{n}", f"absent{n}")]
    c.equal("get_multi", m.get_multi(keys), items)
    short = {"1": items["m1"], "2": items["m2"]}
    c.equal("get_multi under a prefix", m.get_multi(list(short), key_prefix="m"), short)
    c.equal("add_multi onto present keys", sorted(m.add_multi(items)), sorted(items))
    c.equal("delete_multi", m.delete_multi(list(items)), True)
    c.equal("get_multi after delete_multi", m.get_multi(keys), {})


def types(c: Checks, m: pylibmc.Client) -> None:
    for value in ("t\u00e9xt", b"bytes", 7, 1.5, [1, {"two": (3,)}], -(2**70)):
        m.set("t", value)
        c.equal(f"{type(value).__name__} by its flags", m.get("t"), value)
    story = "the same line again\n" * 5000
    m.set("t", story, min_compress_len=COMPRESS_BYTES_MIN)
    c.equal("a compressed text", m.get("t"), story)


def limits(c: Checks, m: pylibmc.Client) -> None:
    c.equal("set a large value", m.set("large", LARGE), True)
    c.equal("get a large value", m.get("large"), LARGE)
    long_key = "k" * KEY_BYTES_MAX
    c.equal("set a 250-byte key", m.set(long_key, b"v"), True)
    c.equal("get a 250-byte key", m.get(long_key), b"v")
    c.equal("get_multi of a 250-byte key", m.get_multi([long_key]), {long_key: b"v"})
    m.set("big", b"old")
    huge = bytes(VALUE_BYTES_TOO_LARGE)
    c.raises("set a value too large", pylibmc.Error, lambda: m.set("big", huge))
    c.equal("the old value is gone", m.get("big"), None)
    c.equal("the connection still serves", m.get("large"), LARGE)


def noreply(c: Checks, m: pylibmc.Client, where: tuple[str, int]) -> None:
    quiet = connect(where, _noreply=True)
    quiet.set("q", b"b")
    quiet.append("q", b"c")
    quiet.prepend("q", b"a")
    # A read on the same connection is answered after all that went before.
    c.equal("set, append and prepend", quiet.get("q"), b"abc")
    c.equal("seen from elsewhere", m.get("q"), b"abc")
    quiet.delete("q")
    c.equal("delete", quiet.get("q"), None)
    quiet.disconnect_all()


def lifetimes(c: Checks, m: pylibmc.Client) -> None:
    m.set("touched", b"v", time=2)
    m.set("brief", b"v", time=2)
    m.set("long", b"v", time=1000)
    c.equal("not yet expired", m.get("brief"), b"v")
    c.equal("touch", m.touch("touched", 1000), True)
    c.equal("touch a missing key", m.touch("missing", 1000), False)
    m.set("past", b"v", time=1_000_000_000)
    c.equal("a date long past", m.get("past"), None)
    c.equal("touch to a second", m.touch("long", 1), True)
    c.soon("expiry after set", lambda: m.get("brief") is None)
    c.soon("expiry after touch", lambda: m.get("long") is None)
    c.equal("touch lengthened a life", m.get("touched"), b"v")


def server(c: Checks, m: pylibmc.Client, where: tuple[str, int]) -> None:
    before = figures(m)
    m.set("s", b"v")
    m.get("s")
    m.get("missing")
    after = figures(m)
    for name, more in (("cmd_set", 1), ("cmd_get", 2), ("get_hits", 1), ("get_misses", 1)):
        if not os.environ.get("RING"):
            c.equal(f"stats: {name}", int(after[name]) - int(before[name]), more)
    c.that("stats: version", after["version"][:1].isdigit())
    other = connect(where)
    other.set("other", b"v")
    c.equal("another connection", m.get("other"), b"v")
    c.equal("flush_all", m.flush_all(), True)
    c.equal("after flush_all", m.get_multi(["s", "other", "large"]), {})
    c.equal("set after flush_all", m.set("s", b"v"), True)
    c.equal("get after flush_all", m.get("s"), b"v")


def figures(m: pylibmc.Client) -> dict[str, str]:
    """The statistics of the only server, as text."""
    [(_, stats)] = m.get_stats()
    plain = {}
    for name, value in stats.items():
        name = name.decode() if isinstance(name, bytes) else name
        plain[name] = value.decode() if isinstance(value, bytes) else value
    return plain


def main() -> None:
    where = address()
    checks = Checks()
    client = connect(where)
    client.flush_all()
    storage(checks, client)
    compare_and_swap(checks, client)
    counters(checks, client)
    multigets(checks, client)
    types(checks, client)
    limits(checks, client)
    noreply(checks, client, where)
    lifetimes(checks, client)
    server(checks, client, where)
    checks.done()


if __name__ == "__main__":
    main()
