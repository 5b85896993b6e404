"""The minimum of any store: encode a typed struct, write the line; read and decode it."""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec

from bench.workload import AssistantLine, CallLine, ResultLine, UserLine, step, typed_event
from holdfast.storage import Disk

__all__ = ["SlowDisk", "append_floor", "decode_raw", "decode_tail", "decode_typed", "open_plain"]


class _Envelope(msgspec.Struct):
    type: str
    timestamp: int
    data: msgspec.Raw


_typed = msgspec.json.Decoder(UserLine | AssistantLine | CallLine | ResultLine)
_raw = msgspec.json.Decoder(_Envelope)


class SlowDisk(Disk):
    """The real disk, with longer syncs during which the processor is free."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def sync(self, descriptor: int) -> None:
        """Sync like the disk, then wait for the rest of the time."""
        super().sync(descriptor)
        if self.seconds:
            time.sleep(self.seconds)


def open_plain(folder: str) -> int:
    """Open a fresh file to append to."""
    path = os.path.join(folder, f"floor-{time.monotonic_ns()}")
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o600)


def append_floor(folder: str, count: int) -> list[int]:
    """Return the nanoseconds for each of ``count`` appends: encode an existing struct, one write."""
    encode = msgspec.json.Encoder().encode
    clock = time.perf_counter_ns
    write = os.write
    descriptor = open_plain(folder)
    spent = []
    for index in range(count):
        event = typed_event(step(index))
        begin = clock()
        write(descriptor, encode(event) + b"\n")
        spent.append(clock() - begin)
    os.close(descriptor)
    return spent


def decode_typed(path: str) -> list[Any]:
    """Read a log and decode its lines into typed structs. Nothing is verified."""
    with open(path, "rb") as file:
        content = file.read()
    # The few events that a session records about itself are not of the four types.
    begin = content.rindex(b"\n", 0, content.index(b'"type":"user"')) + 1
    end = content.rindex(b"\n", 0, -1) + 1
    lines: list[Any] = _typed.decode_lines(memoryview(content)[begin:end])
    return lines


def decode_tail(path: str, size: int, *, find: int = 0) -> int:
    """Read the last bytes of a log and decode them into typed structs; return their number.

    With ``find`` nothing is decoded: how many bytes the last turns take, by their number.
    """
    with open(path, "rb") as file:
        file.seek(-min(size, os.path.getsize(path)), os.SEEK_END)
        content = file.read()
    end = content.rindex(b"\n", 0, content.rindex(b'"type":"tool_result"')) + 1
    end = content.index(b"\n", end) + 1
    begin = len(content)
    for _ in range(find):
        begin = content.rindex(b"\n", 0, content.rindex(b'"type":"user"', 0, begin)) + 1
    if not find:
        _typed.decode_lines(memoryview(content)[:end])
    return len(content) - begin


def decode_raw(path: str) -> list[Any]:
    """Read a log and decode its envelopes; the data of each line is left as it is."""
    with open(path, "rb") as file:
        lines: list[Any] = _raw.decode_lines(file.read())
    return lines
