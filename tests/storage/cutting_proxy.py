"""A small TCP proxy that cuts a connection after so many bytes."""

from __future__ import annotations

import contextlib
import socket
import threading

__all__ = ["CuttingProxy"]


class CuttingProxy:
    """Passes bytes on to a port, until a budget of bytes in one direction is used up.

    ``cut_after(n, "up" | "down")`` cuts the next connection that carries more than n bytes towards
    the server, or back; the bytes up to the cut arrive. After a cut everything passes again.
    """

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._left: dict[str, int | None] = {"up": None, "down": None}
        self.cuts = 0
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, size: int, direction: str) -> None:
        with self._lock:
            self._left[direction] = size

    def close(self) -> None:
        _shut(self._listener)  # which also wakes the thread that waits there
        for one in self._open:
            _shut(one)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target), timeout=120)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            self._open += [client, server]
            for source, sink, way in ((client, server, "up"), (server, client, "down")):
                threading.Thread(target=self._pass, args=(source, sink, way), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                allowed = self._allowed(way, len(data))
                sink.sendall(data[:allowed])
                if allowed < len(data):
                    self.cuts += 1
                    break
        _shut(source)
        _shut(sink)

    def _allowed(self, way: str, size: int) -> int:
        with self._lock:
            left = self._left[way]
            if left is None:
                return size
            if size <= left:
                self._left[way] = left - size
                return size
            self._left[way] = None
            return left


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
