"""A model that follows a script, over the wire formats of real providers.

It listens on loopback, answers Anthropic messages, OpenAI chat completions, OpenAI responses and
Gemini content requests, streamed or whole, and refuses a conversation that breaks the provider's
rules with the status and the body that the provider would send. So an agent can be tested against
what a provider would do, without a network and without cost.

    with ScriptedModel([Call("Read", {"path": "a.txt"}), Say("It says hello.")]) as model:
        client = openai.OpenAI(base_url=model.openai_url, api_key="any")
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

import msgspec

from holdfast.replay import Provider, validate

Body = dict[str, Any]

__all__ = ["AskForTool", "Fail", "Request", "Say", "ScriptedModel", "Step", "Together"]


class Say(msgspec.Struct, frozen=True):
    """Answer with text; when streamed, word by word, with an optional pause between words."""

    text: str
    pause_s: float = 0.0
    thinking: str | None = None


class AskForTool(msgspec.Struct, frozen=True):
    """Request a tool call."""

    tool: str
    input: Body = {}
    id: str | None = None


class Together(msgspec.Struct, frozen=True):
    """Answer with text and several tool calls."""

    calls: Sequence[AskForTool]
    text: str = ""
    pause_s: float = 0.0


class Fail(msgspec.Struct, frozen=True):
    """Answer with an error, as an overloaded or broken provider does."""

    status: int = 500
    message: str = "the script says so"


Step = Say | AskForTool | Together | Fail


class Request(msgspec.Struct, frozen=True):
    """A request from a client: the provider, the messages in its form, and the whole body."""

    provider: str
    messages: list[Body]
    body: Body
    refused: list[str] = []
    """The rules that the conversation broke; empty if it breaks none."""


Script = Sequence[Step] | Callable[[Request], Step]


class ScriptedModel:
    """The server; ``requests`` has all requests. ``strict=False`` also answers conversations that break a rule."""

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
        """The address without a path, for Anthropic's and Gemini's clients."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def openai_url(self) -> str:
        """The address for OpenAI's clients."""
        return f"{self.url}/v1"

    @property
    def refused(self) -> list[Request]:
        """The requests that broke a rule."""
        return [request for request in self.requests if request.refused]

    def start(self) -> Self:
        """Start the server."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the server; running answers are cut off."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def next_step(self, request: Request) -> Step:
        """Return the next step of the answer; a finished script says so."""
        with self._lock:
            # A refused request is kept too, so that a test can see what was wrong.
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
        """Ignore a client that disconnected, perhaps killed by the test."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        wire = next((wire for wire in _WIRES if wire.serves(self.path)), None)
        body = self._body()
        if wire is None or body is None:
            self._send_json(404, {"error": {"message": f"nothing is served at {self.path}"}})
            return
        messages = wire.messages(body)
        # The list for a new session may be empty; a request may not.
        refused = validate(messages, wire.provider).errors if messages else ["the request has no messages"]
        step = self.server.model.next_step(Request(wire.provider, messages, body, refused))
        if isinstance(step, Fail):
            self._send_json(step.status, wire.error(step.status, step.message))
        else:
            self._answer(wire, body, step)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def _answer(self, wire: _Wire, body: Body, step: Say | AskForTool | Together) -> None:
        text, calls, pause_s, thinking = _parts(step)
        answer = wire.answer(body, text, calls, thinking)
        if not wire.is_streamed(self.path, body):
            self._send_json(200, answer)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        # The end of the connection ends a stream, since its length is not known.
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for chunk in wire.stream(body, answer):
            self.wfile.write(chunk)
            self.wfile.flush()
            if pause_s:
                time.sleep(pause_s)

    def _body(self) -> Body | None:
        length = int(self.headers.get("content-length") or 0)
        try:
            body = msgspec.json.decode(self.rfile.read(length))
        except msgspec.DecodeError:
            return None
        return body if isinstance(body, dict) else None

    def _send_json(self, status: int, value: Body) -> None:
        data = msgspec.json.encode(value)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _parts(step: Say | AskForTool | Together) -> tuple[str, list[AskForTool], float, str | None]:
    if isinstance(step, Say):
        return step.text, [], step.pause_s, step.thinking
    if isinstance(step, AskForTool):
        return "", [step], 0.0, None
    return step.text, list(step.calls), step.pause_s, None


# How each provider's requests are read and its answers written, whole and streamed.
_numbers = itertools.count(1)


def _new_id(prefix: str) -> str:
    return f"{prefix}{next(_numbers):08d}"


def _tokens(value: Any) -> int:
    """Return a stand-in for a count: one token for every four bytes of JSON."""
    return len(msgspec.json.encode(value)) // 4 + 1


def _sse(value: Body, event: str | None = None) -> bytes:
    head = b"event: %b\n" % event.encode() if event else b""
    return head + b"data: %b\n\n" % msgspec.json.encode(value)


def _words(text: str) -> list[str]:
    return [piece for piece in text.replace(" ", " \0").split("\0") if piece]


class _Wire(ABC):
    """One provider's form of requests and answers."""

    provider: ClassVar[Provider]
    path: ClassVar[str]
    conversation: ClassVar[str] = "messages"
    """The member of a request that has the conversation; a system prompt may be separate."""

    def serves(self, path: str) -> bool:
        """Return whether a request to this path is for this provider."""
        return path.partition("?")[0].endswith(self.path)

    def is_streamed(self, path: str, body: Body) -> bool:
        """Return whether the client wants the answer streamed."""
        return bool(body.get("stream"))

    def messages(self, body: Body) -> list[Body]:
        """Return the conversation in the request."""
        return list(body.get(self.conversation) or [])

    @abstractmethod
    def answer(self, body: Body, text: str, calls: Sequence[AskForTool], thinking: str | None) -> Body:
        """Return the whole answer."""

    @abstractmethod
    def stream(self, body: Body, answer: Body) -> Iterator[bytes]:
        """Yield the answer in pieces."""

    def error(self, status: int, message: str) -> Body:
        """Return the body of an error."""
        return {"error": {"message": message, "type": _error_type(status), "code": status}}


def _error_type(status: int) -> str:
    return "invalid_request_error" if 400 <= status < 500 else "api_error"


class _Anthropic(_Wire):
    """``POST /v1/messages``."""

    provider = "anthropic"
    path = "/v1/messages"

    def answer(self, body: Body, text: str, calls: Sequence[AskForTool], thinking: str | None) -> Body:
        content: list[Body] = []
        if thinking:
            content.append({"type": "thinking", "thinking": thinking, "signature": "c2lnbmVk"})
        if text:
            content.append({"type": "text", "text": text})
        content += [
            {"type": "tool_use", "id": call.id or _new_id("toolu_"), "name": call.tool, "input": call.input}
            for call in calls
        ]
        return {
            "id": _new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "scripted"),
            "content": content,
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": _tokens(body), "output_tokens": _tokens(content)},
        }

    def stream(self, body: Body, answer: Body) -> Iterator[bytes]:
        start = answer | {"content": [], "stop_reason": None}
        yield _sse({"type": "message_start", "message": start}, "message_start")
        for index, block in enumerate(answer["content"]):
            for event in _anthropic_block(block):
                yield _sse(event | {"index": index}, event["type"])
        delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        usage = {"output_tokens": answer["usage"]["output_tokens"]}
        yield _sse({"type": "message_delta", "delta": delta, "usage": usage}, "message_delta")
        yield _sse({"type": "message_stop"}, "message_stop")

    def error(self, status: int, message: str) -> Body:
        kind = "overloaded_error" if status == 529 else _error_type(status)
        return {"type": "error", "error": {"type": kind, "message": message}}


def _anthropic_block(block: Body) -> Iterator[Body]:
    kind = block["type"]
    empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}
    shell: Body = block | empty.get(kind, {"input": {}})
    yield {"type": "content_block_start", "content_block": shell}
    if kind == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in _words(block["text"])]
    elif kind == "thinking":
        deltas = [{"type": f"{name}_delta", name: block[name]} for name in ("thinking", "signature")]
    else:
        deltas = [{"type": "input_json_delta", "partial_json": msgspec.json.encode(block["input"]).decode()}]
    for delta in deltas:
        yield {"type": "content_block_delta", "delta": delta}
    yield {"type": "content_block_stop"}


class _OpenAIChat(_Wire):
    """``POST /v1/chat/completions``."""

    provider = "openai"
    path = "/chat/completions"

    def answer(self, body: Body, text: str, calls: Sequence[AskForTool], thinking: str | None) -> Body:
        message: Body = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = [
                {
                    "id": call.id or _new_id("call_"),
                    "type": "function",
                    "function": {"name": call.tool, "arguments": msgspec.json.encode(call.input).decode()},
                }
                for call in calls
            ]
        used = {"prompt_tokens": _tokens(body), "completion_tokens": _tokens(message)}
        return {
            "id": _new_id("chatcmpl-"),
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": body.get("model", "scripted"),
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": used | {"total_tokens": sum(used.values())},
        }

    def stream(self, body: Body, answer: Body) -> Iterator[bytes]:
        choice = answer["choices"][0]
        message = choice["message"]
        deltas: list[Body] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in _words(message["content"] or "")]
        deltas += [{"tool_calls": [call | {"index": n}]} for n, call in enumerate(message.get("tool_calls", []))]
        head = {key: answer[key] for key in ("id", "created", "model")}
        head["object"] = "chat.completion.chunk"
        for delta, reason in [*((delta, None) for delta in deltas), ({}, choice["finish_reason"])]:
            yield _sse(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
        yield _sse(head | {"choices": [], "usage": answer["usage"]})
        yield b"data: [DONE]\n\n"


class _OpenAIResponses(_Wire):
    """``POST /v1/responses``."""

    provider = "openai-responses"
    path = "/responses"

    def messages(self, body: Body) -> list[Body]:
        given = body.get("input") or []
        return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)

    def answer(self, body: Body, text: str, calls: Sequence[AskForTool], thinking: str | None) -> Body:
        output: list[Body] = []
        if text:
            part = {"type": "output_text", "text": text, "annotations": []}
            message = {"type": "message", "id": _new_id("msg_"), "role": "assistant", "status": "completed"}
            output.append(message | {"content": [part]})
        output += [
            {
                "type": "function_call",
                "id": _new_id("fc_"),
                "call_id": call.id or _new_id("call_"),
                "name": call.tool,
                "arguments": msgspec.json.encode(call.input).decode(),
                "status": "completed",
            }
            for call in calls
        ]
        used = {"input_tokens": _tokens(body), "output_tokens": _tokens(output)}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        return {
            "id": _new_id("resp_"),
            "object": "response",
            "created_at": 1_700_000_000,
            "status": "completed",
            "model": body.get("model", "scripted"),
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": used | details | {"total_tokens": sum(used.values())},
        }

    def stream(self, body: Body, answer: Body) -> Iterator[bytes]:
        number = itertools.count()

        def event(type: str, **members: Any) -> bytes:
            return _sse({"type": type, "sequence_number": next(number), **members}, type)

        begun = answer | {"output": [], "status": "in_progress", "usage": None}
        yield event("response.created", response=begun)
        for index, item in enumerate(answer["output"]):
            place = {"output_index": index}
            empty: Body = {"content": []} if item["type"] == "message" else {"arguments": ""}
            yield event("response.output_item.added", item=item | empty | {"status": "in_progress"}, **place)
            at = place | {"item_id": item["id"]}
            if item["type"] == "message":
                part = item["content"][0]
                at |= {"content_index": 0}
                yield event("response.content_part.added", part=part | {"text": ""}, **at)
                for piece in _words(part["text"]):
                    yield event("response.output_text.delta", delta=piece, logprobs=[], **at)
                yield event("response.output_text.done", text=part["text"], logprobs=[], **at)
                yield event("response.content_part.done", part=part, **at)
            else:
                arguments = item["arguments"]
                yield event("response.function_call_arguments.delta", delta=arguments, **at)
                yield event("response.function_call_arguments.done", arguments=arguments, **at)
            yield event("response.output_item.done", item=item, **place)
        yield event("response.completed", response=answer)


class _Gemini(_Wire):
    """``POST /v1beta/models/<name>:generateContent`` and ``:streamGenerateContent``."""

    provider = "gemini"
    path = "enerateContent"
    conversation = "contents"

    def is_streamed(self, path: str, body: Body) -> bool:
        return ":streamGenerateContent" in path

    def answer(self, body: Body, text: str, calls: Sequence[AskForTool], thinking: str | None) -> Body:
        parts: list[Body] = [{"text": text}] if text else []
        parts += [
            {"functionCall": {"name": call.tool, "args": call.input, "id": call.id or _new_id("call_")}}
            for call in calls
        ]
        used = {"promptTokenCount": _tokens(body), "candidatesTokenCount": _tokens(parts)}
        return {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": used | {"totalTokenCount": sum(used.values())},
            "modelVersion": "scripted",
            "responseId": _new_id("resp-"),
        }

    def stream(self, body: Body, answer: Body) -> Iterator[bytes]:
        candidate = answer["candidates"][0]
        pieces: list[Body] = []
        for part in candidate["content"]["parts"]:
            pieces += [{"text": word} for word in _words(part["text"])] if "text" in part else [part]
        for number, piece in enumerate(pieces, 1):
            partial = {"content": {"role": "model", "parts": [piece]}, "index": 0}
            end = {"finishReason": "STOP"} if number == len(pieces) else {}
            yield _sse(answer | {"candidates": [partial | end]})

    def error(self, status: int, message: str) -> Body:
        kind = "INVALID_ARGUMENT" if status == 400 else "UNAVAILABLE"
        return {"error": {"code": status, "message": message, "status": kind}}


_WIRES: tuple[_Wire, ...] = (_Anthropic(), _OpenAIChat(), _OpenAIResponses(), _Gemini())
