"""The real memcached_exporter (Prometheus) against HOST:PORT. Empties the server.

The environment variable EXPORTER is the path of the exporter's program. The program is scraped
three times: with the server as it is found (empty, if no other client has used it yet), with one
item, and after requests of every kind. Each time it must answer with HTTP status 200, must report
`memcached_up 1`, and must agree with the server's own `stats`. It must log no error.

With EXPORTER_ITEMS=N it is scraped once more, with N items more. The server needs memory for them:
some 100 MiB for a million.
"""

import os
import re
import socket
import subprocess
import urllib.error
import urllib.request

from checks import MARK, Checks, address, fail

TIMEOUT_S = 10
# Items stored before the server is asked whether it has them.
BATCH = 10_000
# The line by which the exporter says on which port the system let it listen.
LISTENING = re.compile(r'msg="Listening on" address=(127\.0\.0\.1:\d+)')

# Metrics of the exporter, and the names in `stats` that they are read from.
METRICS = {
    "memcached_current_items": "curr_items",
    "memcached_items_total": "total_items",
    "memcached_items_evicted_total": "evictions",
    "memcached_limit_bytes": "limit_maxbytes",
    'memcached_commands_total{command="get",status="hit"}': "get_hits",
    'memcached_commands_total{command="get",status="miss"}': "get_misses",
    'memcached_commands_total{command="delete",status="hit"}': "delete_hits",
}
# Metrics that there must be while the cell holds an item: `stats items`, `stats slabs`, both.
METRICS_OF_CLASS = (
    'memcached_slab_current_items{slab="1"}',
    'memcached_slab_chunk_size_bytes{slab="1"}',
    'memcached_slab_mem_requested_bytes{slab="1"}',
)


class Server:
    """One connection that sends requests and reads whole replies."""

    def __init__(self, host: str, port: int) -> None:
        self.replies = socket.create_connection((host, port), TIMEOUT_S).makefile("rwb")

    def ask(self, request: bytes, last: bytes) -> list[bytes]:
        self.replies.write(request + b"\r\n")
        self.replies.flush()
        lines = []
        while line := self.replies.readline():
            lines.append(line.rstrip(b"\r\n"))
            if lines[-1] == last:
                return lines
        fail(f"{request!r}: the connection ended before {last!r}")

    def stats(self) -> dict[str, float]:
        lines = [line.decode().split(" ", 2) for line in self.ask(b"stats", b"END")[:-1]]
        return {line[1]: float(line[2]) for line in lines if line[1] in METRICS.values()}


def scrape(c: Checks, state: str, url: str, server: Server) -> dict[str, float]:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
            c.equal(f"HTTP status, {state}", response.status, 200)
            text = response.read().decode()
    except urllib.error.HTTPError as error:
        body = " ".join(error.read().decode().split())
        fail(f"{state}: HTTP status {error.code}, want 200: {body}")
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("memcached_")]
    metrics = {name: float(value) for name, value in lines}
    c.equal(f"memcached_up, {state}", metrics["memcached_up"], 1.0)
    stats = server.stats()
    for metric, name in METRICS.items():
        c.equal(f"{metric}, {state}", metrics.get(metric), stats[name])
    return metrics


def conversation(c: Checks, url: str, server: Server) -> None:
    scrape(c, "as found", url, server)
    server.ask(b"flush_all", b"OK")
    server.ask(b"set one 0 0 %d\r\n%s" % (len(MARK), MARK), b"STORED")
    server.ask(b"get one", b"END")
    metrics = scrape(c, "one item", url, server)
    for metric in METRICS_OF_CLASS:
        c.that(f"{metric} is there", metric in metrics)
    server.ask(b"set number 0 0 1\r\n9", b"STORED")
    server.ask(b"incr number 1", b"10")
    server.ask(b"touch number 0", b"TOUCHED")
    server.ask(b"cas number 0 0 1 1\r\nx", b"EXISTS")
    server.ask(b"get missing", b"END")
    server.ask(b"delete one", b"DELETED")
    scrape(c, "after requests of every kind", url, server)
    if items := int(os.environ.get("EXPORTER_ITEMS", "0")):
        for first in range(0, items, BATCH):
            keys = range(first, min(first + BATCH, items))
            server.ask(b"".join(b"set %d 0 0 1 noreply\r\nx\r\n" % key for key in keys) + b"mn", b"MN")
        metrics = scrape(c, f"{items} items", url, server)
        c.that(f"{items} items are held", metrics["memcached_current_items"] >= items)


def main() -> None:
    host, port = address()
    command = [
        os.environ["EXPORTER"],
        f"--memcached.address={host}:{port}",
        "--web.listen-address=127.0.0.1:0",
    ]
    c = Checks()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as exporter:
        try:
            log = []
            for line in exporter.stderr:
                log.append(line)
                if listening := LISTENING.search(line):
                    break
            else:
                fail("the exporter did not start: " + "".join(log))
            conversation(c, f"http://{listening[1]}/metrics", Server(host, port))
        finally:
            exporter.terminate()
        log += exporter.stderr
    c.equal("errors that the exporter logged", [l for l in log if "level=INFO" not in l], [])
    c.done()


if __name__ == "__main__":
    main()
