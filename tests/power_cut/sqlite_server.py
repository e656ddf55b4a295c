"""SQLite behind a socket, so that it can be killed like the servers it stands beside.

    sqlite_server.py PORT FILE FULL|NORMAL

Speaks three commands of memcached: `set`, `delete` and `get` of one key. Each change is a
transaction of its own, in WAL mode, and is answered when it has been committed.
"""

import selectors
import socket
import sqlite3
import sys

# The most bytes of one request.
REQUEST_MAX = 1 << 20


def answer(database, words, value):
    verb, key = words[0], words[1]
    if verb == "get":
        row = database.execute("SELECT v FROM kv WHERE k = ?", (key,)).fetchone()
        if row is None:
            return b"END\r\n"
        return b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key.encode(), len(row[0]), row[0])
    if verb == "delete":
        found = database.execute("DELETE FROM kv WHERE k = ?", (key,)).rowcount
        return b"DELETED\r\n" if found else b"NOT_FOUND\r\n"
    database.execute("INSERT OR REPLACE INTO kv VALUES (?, ?)", (key, value))
    return b"STORED\r\n"


def requests(buffer):
    """The whole requests at the beginning of the buffer; they are removed from it."""
    while True:
        end = buffer.find(b"\r\n")
        if end < 0:
            return
        words, value = buffer[:end].decode().split(" "), None
        taken = end + 2
        if words[0] == "set":
            value = bytes(buffer[taken : taken + int(words[4])])
            taken += int(words[4]) + 2
        if len(buffer) < taken:
            return
        del buffer[:taken]
        yield words, value


def receive(database, selector, connection, buffer):
    part = connection.recv(65536)
    buffer += part
    if not part or len(buffer) > REQUEST_MAX:
        selector.unregister(connection)
        connection.close()
        return
    for words, value in requests(buffer):
        connection.sendall(answer(database, words, value))


def main(port, path, synchronous):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {synchronous}")
    database.execute("CREATE TABLE IF NOT EXISTS kv (k TEXT PRIMARY KEY, v BLOB) WITHOUT ROWID")
    listener = socket.create_server(("127.0.0.1", int(port)))
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ, None)
    while True:
        for ready, _ in selector.select():
            if ready.data is not None:
                receive(database, selector, ready.fileobj, ready.data)
                continue
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ, bytearray())


if __name__ == "__main__":
    main(*sys.argv[1:])
