"""A proxy in front of a bucket that passes requests on and does as it likes with the answers."""

from __future__ import annotations

import http.client
import http.server
import threading
from random import Random

__all__ = ["FAULTS", "AnsweringProxy"]

FAULTS = ("lost", "refused", "error", "slow", "doubled", "late")
SLOW_S = 0.05


class AnsweringProxy:
    """Passes on requests for one server; what becomes of the writes among them is said beforehand.

    ``next_writes`` holds a fault for each write to come, or None. ``lost``: done, and the connection ends without an
    answer. ``error``: done, and answered with 500. ``refused``: 500, and not done. ``slow``: done, and answered after
    ``meanwhile`` was called. ``doubled``: done twice, and the second answer is given. ``late``: 500, and done after the
    next write. ``part`` of the writes have a fault by chance.
    """

    def __init__(self, target_port: int, seed: int = 0, part: float = 0.0) -> None:
        self._target = target_port
        self._chance = Random(seed)
        self._part = part
        self._lock = threading.Lock()
        self._late: list[tuple[str, bytes, dict[str, str]]] = []
        self.next_writes: list[str | None] = []
        self.faults = dict.fromkeys(FAULTS, 0)
        self.meanwhile = lambda: None
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                proxy._answer(self, body)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one  # noqa: N815 - named by the library

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, real: str) -> str:
        """The address of a store, by way of this proxy."""
        return real.replace(f":{self._target}", f":{self.port}")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _fault(self, method: str) -> str | None:
        if method != "PUT":
            return None
        with self._lock:
            fault = self.next_writes.pop(0) if self.next_writes else None
            if fault is None and self._chance.random() < self._part:
                fault = self._chance.choice(FAULTS)
            if fault is not None:
                self.faults[fault] += 1
            return fault

    def _answer(self, request: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
        fault = self._fault(request.command)
        whole = (request.path, body, dict(request.headers.items()))
        if fault == "late":
            with self._lock:
                self._late.append(whole)
        if fault in ("late", "refused"):
            self._give(request, 500, {}, b"<Error><Code>InternalError</Code></Error>")
            return
        status, headers, data = self._forward(request.command, *whole)
        with self._lock:
            late, self._late = (self._late, []) if request.command == "PUT" else ([], self._late)
        for one in late:
            self._forward("PUT", *one)
        if fault == "doubled":
            status, headers, data = self._forward(request.command, *whole)
        if fault is not None:
            self.meanwhile()
        if fault == "slow":
            threading.Event().wait(SLOW_S)
        if fault == "lost":
            request.close_connection = True
            return
        if fault == "error":
            status, headers, data = 500, {}, b"<Error><Code>InternalError</Code></Error>"
        self._give(request, status, headers, data)

    def _forward(self, method: str, path: str, body: bytes, headers: dict[str, str]):
        connection = http.client.HTTPConnection("127.0.0.1", self._target, timeout=60)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    @staticmethod
    def _give(request: http.server.BaseHTTPRequestHandler, status: int, headers: dict[str, str], data: bytes) -> None:
        request.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                request.send_header(name, value)
        length = headers.get("Content-Length", "0") if request.command == "HEAD" else str(len(data))
        request.send_header("Content-Length", length)
        request.end_headers()
        request.wfile.write(data)
