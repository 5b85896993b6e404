"""A model that says what a script tells it to, over the wire formats of real providers.

It listens on loopback, answers Anthropic messages, OpenAI chat completions, OpenAI responses and
Gemini content requests, streamed or whole, and refuses a conversation that breaks the provider's
rules with the status and the body that the provider would send. So an agent can be tested against
what a provider would do, without a network and without cost.

    with ScriptedModel([Call("Read", {"path": "a.txt"}), Say("It says hello.")]) as model:
        client = openai.OpenAI(base_url=model.openai_url, api_key="any")
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import msgspec

from holdfast.replay import validate
from holdfast.testing._wires import WIRES, Wire

__all__ = ["AskForTool", "Fail", "Request", "Say", "ScriptedModel", "Step", "Together"]


class Say(msgspec.Struct, frozen=True):
    """Answer with text; streamed in words, with a pause between them if asked for."""

    text: str
    pause_s: float = 0.0
    thinking: str | None = None


class AskForTool(msgspec.Struct, frozen=True):
    """Ask for a tool."""

    tool: str
    input: dict[str, Any] = {}
    id: str | None = None


class Together(msgspec.Struct, frozen=True):
    """Say something and ask for several tools in one answer."""

    calls: Sequence[AskForTool]
    text: str = ""
    pause_s: float = 0.0


class Fail(msgspec.Struct, frozen=True):
    """Answer with an error, as an overloaded or broken provider does."""

    status: int = 500
    message: str = "the script says so"


Step = Say | AskForTool | Together | Fail


class Request(msgspec.Struct, frozen=True):
    """What a client sent: the provider, the messages in its form, and the whole body."""

    provider: str
    messages: list[dict[str, Any]]
    body: dict[str, Any]
    refused: list[str] = []
    """The rules that the conversation broke; empty if it breaks none."""


Script = Sequence[Step] | Callable[[Request], Step]


class ScriptedModel:
    """The server. ``requests`` holds all that came, refused ones too.

    ``strict=False`` answers a conversation that breaks a rule, too; the request tells which.
    """

    def __init__(self, script: Script, *, port: int = 0, strict: bool = True) -> None:
        self.requests: list[Request] = []
        self._strict = strict
        self._script = script
        self._answered = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.model = self
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The address without a path: what Anthropic's and Gemini's clients take."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def openai_url(self) -> str:
        """The address that OpenAI's clients take."""
        return f"{self.url}/v1"

    @property
    def refused(self) -> list[Request]:
        """The requests that broke a rule."""
        return [request for request in self.requests if request.refused]

    def start(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the server; answers under way are cut off."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def next_step(self, request: Request) -> Step:
        """What to answer; a script that has come to its end says so."""
        with self._lock:
            self.requests.append(request)
            if request.refused and self._strict:
                return Fail(400, "; ".join(request.refused))
            number, self._answered = self._answered, self._answered + 1
        if callable(self._script):
            return self._script(request)
        if number >= len(self._script):
            return Say("The script has ended.")
        return self._script[number]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    model: ScriptedModel

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, perhaps killed by the test, is no news."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """One request for an answer."""
        wire = next((wire for wire in WIRES if wire.serves(self.path)), None)
        body = self._body()
        if wire is None or body is None:
            self._send_json(404, {"error": {"message": f"nothing is served at {self.path}"}})
            return
        messages = wire.messages(body)
        refused = _broken_rules(messages, wire)
        request = Request(wire.provider, messages, body, refused)
        step = self.server.model.next_step(request)
        if isinstance(step, Fail):
            self._send_json(step.status, wire.error(step.status, step.message))
        else:
            self._answer(wire, body, step)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the tests speak."""

    def _answer(self, wire: Wire, body: dict[str, Any], step: Say | AskForTool | Together) -> None:
        text, calls, pause_s, thinking = _parts(step)
        answer = wire.answer(body, text, calls, thinking)
        if not wire.is_streamed(self.path, body):
            self._send_json(200, answer)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for chunk in wire.stream(body, answer):
            self.wfile.write(chunk)
            self.wfile.flush()
            if pause_s:
                time.sleep(pause_s)

    def _body(self) -> dict[str, Any] | None:
        length = int(self.headers.get("content-length") or 0)
        try:
            body = msgspec.json.decode(self.rfile.read(length))
        except msgspec.DecodeError:
            return None
        return body if isinstance(body, dict) else None

    def _send_json(self, status: int, value: dict[str, Any]) -> None:
        data = msgspec.json.encode(value)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _broken_rules(messages: list[dict[str, Any]], wire: Wire) -> list[str]:
    """What the provider would object to. A list for a fresh start may be empty; a request not."""
    if not messages:
        return ["the request has no messages"]
    return validate(messages, wire.provider).errors


def _parts(step: Say | AskForTool | Together) -> tuple[str, list[AskForTool], float, str | None]:
    if isinstance(step, Say):
        return step.text, [], step.pause_s, step.thinking
    if isinstance(step, AskForTool):
        return "", [step], 0.0, None
    return step.text, list(step.calls), step.pause_s, None
