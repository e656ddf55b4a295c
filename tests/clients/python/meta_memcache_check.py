"""meta-memcache (meta protocol) against HOST:PORT. Leaves its keys behind."""

import logging
from typing import Any

from checks import (
    KEY_BYTES_MAX,
    LARGE,
    MULTIGET_KEYS,
    VALUE_BYTES_TOO_LARGE,
    VALUES,
    Checks,
    address,
)
from meta_memcache import (
    CacheClient,
    Conflict,
    Key,
    LeasePolicy,
    MemcacheError,
    Miss,
    NotStored,
    RecachePolicy,
    RequestFlags,
    ServerAddress,
    SetMode,
    StalePolicy,
    Success,
    Value,
    connection_pool_factory_builder,
)
from meta_memcache.base.base_serializer import BaseSerializer, EncodedValue

TIMEOUT_S = 10.0
# With its default of 4 KB the client shrinks the socket's own buffer so far that every packet of
# a large value waits for a delayed acknowledgement.
READ_BUFFER_BYTES = 256 * 1024
TTL_S = 1000
# The longest time to live that a server may report for TTL_S, and the shortest in this run.
TTL_S_RANGE = range(TTL_S - 60, TTL_S + 1)


class Plain(BaseSerializer):
    """Bytes as they are, so that nothing is compressed on the way."""

    FLAG = 77

    def serialize(self, _key: Key, value: bytes) -> EncodedValue:
        return EncodedValue(data=value, encoding_id=self.FLAG)

    def unserialize(self, data: Any, encoding_id: int) -> tuple[bytes, int]:
        return bytes(data), encoding_id


def connect(where: tuple[str, int], serializer: BaseSerializer | None = None) -> Any:
    pool = connection_pool_factory_builder(
        connection_timeout=TIMEOUT_S, recv_timeout=TIMEOUT_S, read_buffer_size=READ_BUFFER_BYTES
    )
    return CacheClient.cache_client_from_servers([ServerAddress(*where)], pool, serializer)


def storage(c: Checks, m: Any, plain: Any) -> None:
    for name, value in VALUES.items():
        c.equal(f"set {name}", m.set("s", value, TTL_S), True)
        c.equal(f"get {name}", m.get("s"), value)
        c.equal(f"set {name}, as it is", plain.set("p", value, TTL_S), True)
        # The client decodes no empty value, so no flags come with it.
        c.equal(f"get {name}, as it is", plain.get("p"), value and (value, Plain.FLAG))
    c.equal("get of a missing key", m.get("missing"), None)
    c.equal("add to a present key", m.set("s", b"no", TTL_S, set_mode=SetMode.ADD), False)
    c.equal("refill a present key", m.refill("s", b"no", TTL_S), False)
    m.invalidate("added")
    c.equal("add to a free key", m.set("added", b"yes", TTL_S, set_mode=SetMode.ADD), True)
    c.equal("the added value", m.get("added"), b"yes")
    for mode in (SetMode.REPLACE, SetMode.APPEND, SetMode.PREPEND):
        stored = m.set("missing", b"no", TTL_S, set_mode=mode)
        c.equal(f"{mode.name.lower()} to a missing key", stored, False)
    c.equal("replace", m.set("added", b"\x00new\r\n", TTL_S, set_mode=SetMode.REPLACE), True)
    c.equal("append", m.set("added", b"\r\ntail", TTL_S, set_mode=SetMode.APPEND), True)
    c.equal("prepend", m.set("added", b"head\x00", TTL_S, set_mode=SetMode.PREPEND), True)
    c.equal("the joined value", m.get("added"), b"head\x00\x00new\r\n\r\ntail")
    c.equal("nothing was made on the way", m.get("missing"), None)
    c.equal("delete", m.delete("added"), True)
    c.equal("delete again", m.delete("added"), False)
    c.equal("invalidate a missing key", m.invalidate("added"), True)
    c.equal("the deleted key", m.get("added"), None)


def compare_and_swap(c: Checks, m: Any) -> None:
    token = m.set_cas("c", b"first", TTL_S)
    c.equal("the token of a set is the token of a get", m.get_cas("c"), (b"first", token))
    c.equal("cas with the token", m.set("c", b"second", TTL_S, cas_token=token), True)
    c.equal("cas with the token spent", m.set("c", b"third", TTL_S, cas_token=token), False)
    result = m.meta_set(Key("c"), b"x", RequestFlags(cache_ttl=TTL_S, cas_token=token))
    c.that("a spent token is a conflict", isinstance(result, Conflict))
    result = m.meta_set(Key("missing"), b"x", RequestFlags(cache_ttl=TTL_S, cas_token=token))
    c.that("cas on a missing key is a miss", isinstance(result, Miss))
    c.equal("the swapped value", m.get("c"), b"second")
    c.equal("delete with the token spent", m.delete("c", cas_token=token), False)
    c.equal("delete with the token", m.delete("c", cas_token=m.get_cas("c")[1]), True)


def counters(c: Checks, m: Any) -> None:
    m.invalidate("n")
    c.equal("delta on a missing key", m.delta("n", 1), False)
    c.equal("delta_and_get on a missing key", m.delta_and_get("n", 1), None)
    start = {"initial_value": 9, "initial_ttl": TTL_S}
    c.equal("delta_initialize_and_get", m.delta_initialize_and_get("n", 5, **start), 9)
    c.equal("delta_initialize", m.delta_initialize("n", 1, **start), True)
    c.equal("up", m.delta_and_get("n", 90), 100)
    c.equal("down over a digit", m.delta_and_get("n", -1), 99)
    c.equal("down stops at zero", m.delta_and_get("n", -1000), 0)
    m.delta("n", 7, no_reply=True)
    c.equal("the counter as a value", int(m.get("n")), 7)
    m.set("w", "word", TTL_S)
    c.raises("up from a word", MemcacheError, lambda: m.delta_and_get("w", 1))
    c.equal("the word is unharmed", m.get("w"), "word")


def multigets(c: Checks, plain: Any) -> None:
    items = {f"m{n}": LARGE[n : n + n % 300 + 1] for n in range(MULTIGET_KEYS)}
    for key, value in items.items():
        plain.set(key, value, TTL_S, no_reply=True)
    absent = [f"absent{n}" for n in range(MULTIGET_KEYS)]
    found = {key.key: value for key, value in plain.multi_get([*items, *absent]).items()}
    wanted: dict[str, Any] = {key: (value, Plain.FLAG) for key, value in items.items()}
    c.equal("multi_get", found, wanted | dict.fromkeys(absent))
    tokens = {token for _, token in plain.multi_get_cas(list(items)).values()}
    c.equal("tokens differ", len(tokens), MULTIGET_KEYS)


def types(c: Checks, m: Any) -> None:
    for value in ("t\u00e9xt", b"bytes", 7, -(2**70), 1.5, True, [1, {"two": (3,)}]):
        m.set("t", value, TTL_S)
        c.equal(f"{type(value).__name__} by its flags", m.get("t"), value)
    story = "the same line again\n" * 5000
    m.set("t", story, TTL_S)
    c.equal("a compressed text", m.get("t"), story)


def limits(c: Checks, m: Any, plain: Any) -> None:
    c.equal("set a large value", plain.set("large", LARGE, TTL_S), True)
    c.equal("get a large value", plain.get("large"), (LARGE, Plain.FLAG))
    long_key = "k" * KEY_BYTES_MAX
    c.equal("set a 250-byte key", m.set(long_key, b"v", TTL_S), True)
    c.equal("get a 250-byte key", m.get(long_key), b"v")
    # A key outside ASCII travels in base64 and comes back as itself.
    c.equal("set a key outside ASCII", m.set("\u043a\u043b\u044e\u0447", b"v", TTL_S), True)
    c.equal("get a key outside ASCII", m.get("\u043a\u043b\u044e\u0447"), b"v")
    huge = bytes(VALUE_BYTES_TOO_LARGE)
    m.set("big", b"old", TTL_S)
    c.raises("set a value too large", MemcacheError, lambda: plain.set("big", huge, TTL_S))
    c.equal("the old value is gone", m.get("big"), None)
    c.equal("the client still serves", plain.get("large"), (LARGE, Plain.FLAG))


def item_facts(c: Checks, m: Any) -> None:
    """What a meta get can tell about an item, beside its value."""
    key = Key("facts")
    m.invalidate(key)
    m.set(key, b"12345", TTL_S)
    flags = RequestFlags(
        return_ttl=True,
        return_size=True,
        return_last_access=True,
        return_fetched=True,
        return_client_flag=True,
        no_update_lru=True,
        opaque=b"token1",
    )
    first = m.meta_get(key, flags)
    c.that("without v: no value", isinstance(first, Success))
    c.equal("size", first.flags.size, 5)
    c.equal("never fetched", first.flags.fetched, False)
    c.equal("opaque", first.flags.opaque, b"token1")
    c.that("time to live", first.flags.ttl in TTL_S_RANGE)
    c.that("last access", 0 <= first.flags.last_access < 60)
    m.get(key)
    again = m.meta_get(key, flags.replace(return_value=True))
    c.that("with v: the value", isinstance(again, Value))
    c.equal("the value", again.value, b"12345")
    c.equal("fetched", again.flags.fetched, True)
    m.set("forever", b"v", 0)
    forever = m.meta_get(Key("forever"), RequestFlags(return_ttl=True))
    c.equal("no end of life", forever.flags.ttl, -1)
    missing = m.meta_get(Key("missing"), flags)
    c.that("a missing key", isinstance(missing, Miss))
    added = m.meta_set(key, b"no", RequestFlags(cache_ttl=TTL_S, mode=SetMode.ADD.value))
    c.that("a vain add is not stored", isinstance(added, NotStored))


def winners(c: Checks, m: Any) -> None:
    """Stale items and leases: of all who ask, one wins the right to refill."""
    look = RequestFlags(return_value=True, return_client_flag=True, return_cas_token=True)
    key = Key("stale")
    token = m.set_cas(key, b"old", TTL_S)
    marked = StalePolicy(mark_stale_on_deletion_ttl=TTL_S)
    c.equal("mark stale", m.delete(key, stale_policy=marked), True)
    won = m.meta_get(key, look)
    c.equal("stale: its value", won.value, b"old")
    c.equal("stale: said so", won.flags.stale, True)
    c.equal("stale: the first wins", won.flags.win, True)
    c.that("stale: the token moved", won.flags.cas_token != token)
    lost = m.meta_get(key, look)
    c.equal("stale: its value again", lost.value, b"old")
    c.equal("stale: the second does not win", lost.flags.win, False)
    stored = m.set(key, b"new", TTL_S, cas_token=won.flags.cas_token)
    c.equal("stale: the winner refills", stored, True)
    fresh = m.meta_get(key, look)
    c.equal("refilled: the value", fresh.value, b"new")
    c.that("refilled: neither stale nor to be won", not fresh.flags.stale and not fresh.flags.win)

    low = m.set_cas("late", b"first", TTL_S)
    m.set("late", b"second", TTL_S)
    late = RequestFlags(cache_ttl=TTL_S, cas_token=low, mark_stale=True)
    stored = m.meta_set(Key("late"), b"third", late)
    c.that("a late write is stored", isinstance(stored, Success))
    c.equal("a late write: its value", (found := m.meta_get(Key("late"), look)).value, b"third")
    c.equal("a late write: marked stale", found.flags.stale, True)

    m.invalidate("lease")
    policy = LeasePolicy(ttl=30, miss_retries=1, miss_retry_wait=0.01)
    c.equal("lease: the first is told to fill", m.get_or_lease("lease", policy), None)
    vivified = m.meta_get(Key("lease"), look.replace(vivify_on_miss_ttl=30))
    c.equal("lease: the next waits", vivified.flags.win, False)
    m.set("lease", b"filled", TTL_S)
    c.equal("lease: the filled value", m.get_or_lease("lease", policy), b"filled")

    m.set("recache", b"v", 20)
    early = RecachePolicy(ttl=30)
    c.equal("recache: the first is told to fill", m.get("recache", recache_policy=early), None)
    c.equal("recache: the next is served", m.get("recache", recache_policy=early), b"v")


def lifetimes(c: Checks, m: Any) -> None:
    for key in ("touched", "fetched", "brief"):
        m.set(key, b"v", 2)
    m.set("long", b"v", TTL_S)
    c.equal("touch", m.touch("touched", TTL_S), True)
    c.equal("touch a missing key", m.touch("missing", TTL_S), False)
    c.equal("get and touch", m.get("fetched", touch_ttl=TTL_S), b"v")
    c.equal("touch to a second", m.touch("long", 1), True)
    c.soon("expiry after set", lambda: m.get("brief") is None)
    c.soon("expiry after touch", lambda: m.get("long") is None)
    c.equal("touch lengthened a life", m.get("touched"), b"v")
    c.equal("get and touch lengthened a life", m.get("fetched"), b"v")


def main() -> None:
    where = address()
    checks = Checks()
    # The refusals that are asked for below would each be logged with a trace.
    logging.disable(logging.ERROR)
    mixed, plain = connect(where), connect(where, Plain())
    mixed.invalidate("missing")
    storage(checks, mixed, plain)
    compare_and_swap(checks, mixed)
    counters(checks, mixed)
    multigets(checks, plain)
    types(checks, mixed)
    limits(checks, mixed, plain)
    item_facts(checks, mixed)
    winners(checks, mixed)
    lifetimes(checks, mixed)
    checks.done()


if __name__ == "__main__":
    main()
