"""Bytes as they come, cut into lines, without ever holding more than one line's limit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import HoldfastError, UsageError

LINE_BYTES_MAX = 64 * 1024 * 1024
"""One frame: it may carry a picture or a file, and has to fit into memory several times over."""

_HEAD_BYTES = 256
_BYTES_AT_ONCE = 128 * 1024


class TooLong(NamedTuple):
    """Stands for a line that was longer than the limit: how it began; the rest of it is gone."""

    head: bytes


def next_lines(lines: Iterator[bytes]) -> bytes:
    """Return the next lines, as many as are worth a write; nothing at the end."""
    found: list[bytes] = []
    size = 0
    for line in lines:
        found.append(line)
        size += len(line)
        if size >= _BYTES_AT_ONCE:
            break
    return b"".join(found)


class Splitter:
    """Cuts a stream into lines. A line over the limit is skipped and told of, once."""

    def __init__(self, limit: int = LINE_BYTES_MAX) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """Return the lines that are whole now, without their ends; blank ones do not count."""
        if b"\n" not in data:
            return self._hold(data)
        first, *rest = data.split(b"\n")
        last = rest.pop()
        found = self._hold(first) + self.end()
        for line in rest:
            self._add(found, line)
        return found + self._hold(last)

    def end(self) -> list[bytes | TooLong]:
        """Return the stream is over: a last line without its end is a line too."""
        found: list[bytes | TooLong] = []
        if not self._skipping:
            self._add(found, b"".join(self._parts))
        self._parts, self._held, self._skipping = [], 0, False
        return found

    def _add(self, found: list[bytes | TooLong], line: bytes) -> None:
        if len(line) > self._limit:
            found.append(TooLong(line[:_HEAD_BYTES]))
        elif line and not line.isspace():
            found.append(line)

    def _hold(self, data: bytes) -> list[bytes | TooLong]:
        if self._skipping or not data:
            return []
        self._parts.append(data)
        self._held += len(data)
        if self._held <= self._limit:
            return []
        # The line is dropped from here on; its beginning identifies the sender.
        head = b"".join(self._parts)[:_HEAD_BYTES]
        self._parts, self._held, self._skipping = [], 0, True
        return [TooLong(head)]


# JSON-RPC 2.0 frames: one line of JSON each, read tolerantly and written strictly.
Frame = dict[str, Any]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
CANCELLED = -32800
AUTH_REQUIRED = -32000
NOT_FOUND = -32002

# By the status of an error: what is not the caller's mistake is an internal error to JSON-RPC.
_BY_STATUS = {400: INVALID_PARAMS, 404: NOT_FOUND}

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class RpcError(Exception):
    """The error that answers a request which cannot be served."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return (RpcError, (self.code, self.message, self.data))


def rpc_code(error: HoldfastError) -> int:
    """Return the code that JSON-RPC has for an error."""
    return _BY_STATUS.get(error.status, INVALID_PARAMS if isinstance(error, UsageError) else INTERNAL)


def as_rpc_error(error: Exception) -> RpcError:
    """Return the error for the other side."""
    if isinstance(error, RpcError):
        return error
    if isinstance(error, HoldfastError):
        return RpcError(INTERNAL, str(error), {"code": error.code})
    return RpcError(INTERNAL, f"{type(error).__name__}: {error}")


def error_in(answer: Frame) -> RpcError | None:
    """Return the error that an answer tells; None if it has a result."""
    error = answer.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        return RpcError(code if isinstance(code, int) else INTERNAL, str(error.get("message")), error.get("data"))
    return RpcError(INTERNAL, str(error)) if "error" in answer and "result" not in answer else None


# Data from a wire may be anything: these read a member of it, of the expected type.
def member(value: Any, *names: str) -> Any:
    """Return what stands under these names, one inside of the other; None where there is no such thing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text_in(value: Any, *names: str) -> str:
    """Return a text; an empty one for anything else."""
    found = member(value, *names)
    return found if isinstance(found, str) else ""


def object_in(value: Any, *names: str) -> Frame:
    """Return an object; an empty one for anything else."""
    found = member(value, *names)
    return found if isinstance(found, dict) else {}


def objects_in(value: Any, *names: str) -> list[Frame]:
    """Return the objects of a list; none for anything else."""
    found = member(value, *names)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def parse_object(line: bytes) -> Frame:
    """Return one JSON object, whatever is in it. Raises RpcError with the code that JSON-RPC asks for."""
    try:
        frame = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Half a surrogate pair is JSON all the same: an agent that cuts a text in two writes it.
        try:
            frame = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            raise RpcError(PARSE_ERROR, f"not JSON: {str(error)[:200]}") from error
    if not isinstance(frame, dict):
        raise RpcError(INVALID_REQUEST, "a frame is one JSON object; batches are not supported")
    return frame


def parse(line: bytes | TooLong) -> Frame:
    """Return one frame. Raises RpcError with the code that JSON-RPC asks for."""
    if isinstance(line, TooLong):
        raise RpcError(INVALID_REQUEST, "the line is too long")
    frame = parse_object(line)
    method = frame.get("method")
    if method is None:
        if "result" not in frame and "error" not in frame:
            raise RpcError(INVALID_REQUEST, "a frame has a method, a result or an error")
    elif not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "the method of a frame is a text")
    if not isinstance(frame.get("id"), (str, int, float, type(None))):
        raise RpcError(INVALID_REQUEST, "the id of a frame is a text, a number or null")
    return frame


def encode(frame: Frame) -> bytes:
    """Return the line of a frame, with its line feed."""
    try:
        return _encode(frame) + b"\n"
    # Half a surrogate pair, or a number that msgspec does not take: json writes both.
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(frame, separators=(",", ":")).encode() + b"\n"


def request(id: Any, method: str, params: Any) -> Frame:
    """Return a call that wants an answer."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(method: str, params: Any) -> Frame:
    """Return a call that wants none."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def response(id: Any, result: Any) -> Frame:
    """Return the answer to a call."""
    return {"jsonrpc": "2.0", "id": id, "result": result}


def error_frame(id: Any, error: RpcError) -> Frame:
    """Return the answer to a call that failed."""
    body: Frame = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "id": id, "error": body}


# Moments for programs in other languages.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = datetime(1, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


def utc(ms: int) -> str:
    """Return a moment as RFC 3339 has it, to the millisecond; one that no calendar has is cut off."""
    try:
        when = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        when = _LAST if ms > 0 else _FIRST
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
