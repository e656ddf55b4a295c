"""Hit ratios of item-level S3-FIFO, as the package libcachesim computes it, for dumped streams.

    reference.py STREAM.csv CAPACITY_BYTES [POLICY]

The stream is what `volvox load hit-ratio --stream NAME --dump STREAM.csv` writes: lines of
second,key,bytes,op,ttl,counted. The capacity is `held_bytes` of the replay it is compared with:
the items that the cell held on average while hits were counted, each with its header, its expiry
and its padding. The reference is charged the same for every item and nothing for anything else: no
index, no free segments, no dead ground. So the two differ in the policy alone.

A missed get is followed by a set. A set is a use, as in the package; where the size changed, the old
item is removed first. The package keeps no lifetimes: an expired item is removed when it is next
asked for. Hits are counted on the lines that say so, after the cache has filled.
"""

import sys

import libcachesim as lcs

HEADER_BYTES = 16
EXPIRY_BYTES = 4
WORD_BYTES = 8
# Pointers of the package's hash table, as a power of two: memory, not results, depends on it.
HASH_POWER = 20


def steps(path):
    """Yields (second, key, bytes in memory, is get, ttl, is counted)."""
    with open(path, encoding="ascii") as lines:
        for line in lines:
            at_s, key, content_bytes, op, ttl_s, counted = line.rstrip("\n").split(",")
            ttl_s = int(ttl_s)
            item_bytes = HEADER_BYTES + int(content_bytes) + (EXPIRY_BYTES if ttl_s else 0)
            item_bytes = -(-item_bytes // WORD_BYTES) * WORD_BYTES
            yield int(at_s), int(key), item_bytes, op == "get", ttl_s, counted == "1"


def replay(path, cache):
    """Returns how many gets counted, and how many of them hit."""
    request = lcs.Request()
    request.valid = True
    request.op = lcs.ReqOp.OP_GET
    expires, sizes = {}, {}
    gets = hits = 0
    for at_s, key, item_bytes, is_get, ttl_s, counted in steps(path):
        request.clock_time, request.obj_id, request.obj_size = at_s, key, item_bytes
        if expires.get(key, at_s + 1) <= at_s:
            del expires[key]
            cache.remove(key)
        if sizes.get(key, item_bytes) != item_bytes and not is_get:
            cache.remove(key)
        # A miss evicts and inserts: the refill of a get, or the set itself.
        hit = cache.get(request)
        if is_get and counted:
            gets += 1
            hits += hit
        if is_get and hit:
            continue
        sizes[key] = item_bytes
        if ttl_s:
            expires[key] = at_s + ttl_s
        else:
            expires.pop(key, None)
    return gets, hits


def main():
    """Prints one line: policy, gets, hits, hit ratio."""
    if len(sys.argv) not in (3, 4) or not sys.argv[2].isdigit():
        sys.exit(__doc__)
    policy = sys.argv[3] if len(sys.argv) == 4 else "S3FIFO"
    cache = getattr(lcs, policy)(int(sys.argv[2]), hashpower=HASH_POWER)
    gets, hits = replay(sys.argv[1], cache)
    print(f"{policy} gets {gets} hits {hits} hit_ratio {hits / max(gets, 1):.6f}")


if __name__ == "__main__":
    main()
