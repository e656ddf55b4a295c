"""Three clients that find their servers by `config get cluster` follow a ring that changes.

    discovery_check.py VOLVOX PORT

Starts a ring of three cells and a spare on PORT and the ports after it. A cell is divided, then one
is killed, then it is there again: each time each client must come to use the cells that lead
something, and store and read keys through them without an error. The version must rise. NODE names
the folder in which memcached-elasticache is installed.
"""

import asyncio
import json
import logging
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import emcache
from elasticache_auto_discovery import discover

CELLS = 3
KEYS = 200
# Longest until a client has followed, or the ring has healed.
DEADLINE_S = 30.0
POLL_S = 0.1
REPLY_S = 5.0


def until(what: str, is_so: Callable[[], object]) -> None:
    """Waits until something is so."""
    end = time.monotonic() + DEADLINE_S
    seen = None
    while time.monotonic() < end:
        seen = is_so()
        if seen is True:
            return
        time.sleep(POLL_S)
    sys.exit(f"{what}: not within {DEADLINE_S} s; last seen: {seen}")


class Ring:
    """`volvox up`, and what its cells say."""

    def __init__(self, volvox: str, port: int, directory: str) -> None:
        self.volvox = volvox
        flags = ["--cells", str(CELLS), "--spares", "1", "--json", "--port", str(port)]
        flags += ["--directory", directory, "--", "--workers", "1", "--memory-limit", "64M"]
        self.up = subprocess.Popen([volvox, "up", *flags], stdout=subprocess.PIPE, text=True)
        assert self.up.stdout is not None
        for line in self.up.stdout:
            if line.startswith("{") and "cells" in json.loads(line):
                cells = json.loads(line)["cells"]
                break
        self.ports = {cell["cell"]: int(cell["clients"].rsplit(":", 1)[1]) for cell in cells}
        self.processes = {cell["cell"]: cell["process"] for cell in cells}

    def ctl(self, *words: str) -> None:
        servers = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        command = [self.volvox, "ctl", "--server", servers, *words]
        subprocess.run(command, check=True, timeout=DEADLINE_S, stdout=subprocess.DEVNULL)

    def version(self, cell: int) -> int:
        """The version that a cell answers with, and the whole answer is as it should be."""
        with socket.create_connection(("127.0.0.1", self.ports[cell]), REPLY_S) as connection:
            connection.settimeout(REPLY_S)
            connection.sendall(b"config get cluster\r\n")
            answer = b""
            while not answer.endswith(b"END\r\n"):
                more = connection.recv(4096)
                if not more:
                    break
                answer += more
        head, _, rest = answer.partition(b"\r\n")
        name, of, zero, count = head.split(b" ")
        assert (name, of, zero) == (b"CONFIG", b"cluster", b"0"), answer
        payload = rest[: int(count)]
        assert rest == payload + b"\r\nEND\r\n", answer
        return int(payload.split(b"\n")[0])

    def stop(self) -> None:
        self.up.send_signal(signal.SIGCONT)
        self.up.send_signal(signal.SIGTERM)
        self.up.wait(DEADLINE_S)


class Elasticache:
    """elasticache-auto-discovery: asks once, whenever it is asked."""

    name = "elasticache-auto-discovery"

    def __init__(self, port: int) -> None:
        self.port = port

    def nodes(self) -> set[int]:
        return {int(node[2]) for node in discover(f"127.0.0.1:{self.port}", REPLY_S)}

    def use(self, _: str) -> int:
        return 0

    def stop(self) -> None:
        pass


class Emcache:
    """emcache: looks for its servers again and again."""

    name = "emcache"

    def __init__(self, port: int) -> None:
        # It logs that it was closed.
        logging.getLogger("emcache").setLevel(logging.CRITICAL)
        self.loop = asyncio.new_event_loop()
        address = emcache.MemcachedHostAddress("127.0.0.1", port)
        options = {"autodiscovery": True, "autodiscovery_poll_interval": POLL_S}
        self.client = self.loop.run_until_complete(emcache.create_client([address], **options))

    def nodes(self) -> set[int]:
        # It looks only while its loop runs.
        self.loop.run_until_complete(asyncio.sleep(2 * POLL_S))
        metrics = self.client.cluster_managment().nodes()
        return {node.port for node in metrics}

    async def _use(self, name: str) -> int:
        failed = 0
        for nth in range(KEYS):
            key = f"{name}-{nth}".encode()
            try:
                await self.client.set(key, b"value of " + key)
                item = await self.client.get(key)
                failed += item is None or item.value != b"value of " + key
            except Exception:
                failed += 1
        return failed

    def use(self, name: str) -> int:
        return self.loop.run_until_complete(self._use(name))

    def stop(self) -> None:
        self.loop.run_until_complete(self.client.close())


class Node:
    """memcached-elasticache, of Node.js."""

    name = "memcached-elasticache"

    def __init__(self, port: int) -> None:
        script = pathlib.Path(__file__).with_name("discovery.js")
        environment = {**os.environ, "NODE_PATH": f"{os.environ['NODE']}/node_modules"}
        self.process = subprocess.Popen(
            ["node", str(script), f"127.0.0.1:{port}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, line: str) -> object:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def nodes(self) -> set[int]:
        return {int(node.rsplit(":", 1)[1]) for node in self.ask("nodes")}

    def use(self, name: str) -> int:
        return int(self.ask(f"use {name} {KEYS}"))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def follows(client: "Elasticache | Emcache | Node", ports: set[int], when: str) -> int:
    """Whether a client comes to use these servers, and can."""

    def has_followed() -> object:
        nodes = client.nodes()
        return True if nodes == ports else sorted(nodes)

    until(f"{client.name}, {when}: it uses {sorted(ports)}", has_followed)
    # Connections to what has ended are found broken first.
    until(f"{client.name}, {when}: keys fail", lambda: client.use(when) == 0 or "some do")
    return 1 if isinstance(client, Elasticache) else 2


def end(*_: object) -> None:
    sys.exit("it takes too long")


def main() -> None:
    # So that the ring is ended, too.
    signal.signal(signal.SIGTERM, end)
    volvox, port = sys.argv[1], int(sys.argv[2])
    checks = 0
    with tempfile.TemporaryDirectory() as directory:
        ring = Ring(volvox, port, f"{directory}/ring")
        clients: list[Elasticache | Emcache | Node] = []
        try:
            leading = {ring.ports[cell] for cell in range(1, CELLS + 1)}
            # The first cell is asked; it is not killed.
            clients += [of(ring.ports[1]) for of in (Elasticache, Emcache, Node)]
            version = ring.version(1)
            for client in clients:
                checks += follows(client, leading, "formed")
            ring.ctl("divide", "2")
            assert ring.version(1) > version, "the version has not risen"
            leading.add(ring.ports[CELLS + 1])
            for client in clients:
                checks += follows(client, leading, "divided")
            ring.up.send_signal(signal.SIGSTOP)
            os.kill(ring.processes[3], signal.SIGKILL)
            for client in clients:
                checks += follows(client, leading - {ring.ports[3]}, "killed")
            ring.up.send_signal(signal.SIGCONT)
            for client in clients:
                checks += follows(client, leading, "returned")
        finally:
            for client in clients:
                client.stop()
            ring.stop()
    print(f"{checks + 1} checks passed")


main()
