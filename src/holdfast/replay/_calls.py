"""Which events belong to the same tool call, as a resumable fold of bounded size.

A call may be announced in a message, begun by an event of its own, or both, in either order. One id in one run is one
call, by the rules of a conversation's thread: ids may be reused once a call is over, since some models number their
calls anew in each turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal
from zlib import crc32

import msgspec

# The fold is kept in a catalogue row for each session: it must stay small, whatever a log holds.
_KEPT_MAX = 256
_SAME_ID_MAX = 16
_ID_CHARS_MAX = 120
_ID_CHARS_CUT = 100

News = Literal["call", "arguments", "nothing"]
"""The contribution of one record of a call: the call, changed arguments, or nothing."""


class CallRecord(msgspec.Struct, array_like=True, gc=False):
    """A call that waits for its result, or for its other half."""

    tool: str
    since: int  # when it was last begun, or announced; 0 once its real duration cannot be known
    mark: int
    announced: bool = False
    begun: bool = False
    stale: bool = False  # whether the user has written since
    asked: bool = False  # whether it needed a decision


class Calls(msgspec.Struct, array_like=True):
    """The calls that may still get a result or another half; the oldest are forgotten first."""

    waiting: dict[str, list[CallRecord]] = {}
    answered: dict[str, CallRecord] = {}
    """By id, the call that was answered last and lacks a half, until the next user message."""

    def take(self, run: str | None, id: str | None, tool: str, mark: int, at: int, *, begun: bool) -> News:
        """Process one half of a call, begun or announced; one without an id cannot be continued."""
        if id is None:
            return "call"
        key = _key(run, id)
        known = self._same(key, mark, begun=begun)
        if known is None:
            calls = self.waiting.setdefault(key, [])
            calls.append(CallRecord(tool, at, mark, announced=not begun, begun=begun))
            del calls[:-_SAME_ID_MAX]
            _forget_oldest(self.waiting)
            return "call"
        if begun:
            known.begun = True
            known.since = at
        else:
            known.announced = True
        return "nothing" if known.mark == mark else "arguments"

    def amend(self, run: str | None, id: str | None, tool: str, mark: int, at: int) -> News:
        """Process more data of a call that was begun before; treat it as the call itself, if it is unknown."""
        calls = () if id is None else _of_this_turn(self.waiting.get(_key(run, id), ()))
        if not calls:
            return self.take(run, id, tool, mark, at, begun=True)
        calls[-1].mark = mark
        return "arguments"

    def decide(self, id: str, at: int) -> None:
        """Process a decision about a call: calls that were asked about run from the last decision on."""
        ending = _key("", id)
        key = next((one for one in reversed(self.waiting) if one.endswith(ending)), None)
        if key is None:
            return
        _of_this_turn(self.waiting[key])[-1].asked = True
        for call in (call for calls in self.waiting.values() for call in calls):
            if call.asked and call.since:
                call.since = at

    def answer(self, run: str | None, id: str | None) -> CallRecord | None:
        """Process a result; return the call that it ends, in whatever run. None if no call waits for it."""
        if id is None or not self.waiting:
            return None
        key: str | None = _key(run, id)
        if key not in self.waiting:
            # The result may be in another run than its call: the newest call of that id, then.
            ending = _key("", id)
            key = next((one for one in reversed(self.waiting) if one.endswith(ending)), None)
        if key is None:
            return None
        calls = self.waiting[key]
        call = _of_this_turn(calls)[0]
        calls.remove(call)
        if not calls:
            del self.waiting[key]
        if not (call.announced and call.begun):
            self.answered.pop(key, None)
            self.answered[key] = call
            _forget_oldest(self.answered)
        return call

    def speak(self, run: str | None) -> None:
        """Process a user message: calls that are over then may be forgotten."""
        beginning = _key(run, "")
        for key in [key for key in self.answered if key.startswith(beginning)]:
            del self.answered[key]
        for key, calls in self.waiting.items():
            if key.startswith(beginning):
                for call in calls:
                    call.stale = True

    def stop_clocks(self, run: str | None = None, *, all_runs: bool = False) -> None:
        """Process the end of the work: open calls now wait for an answer."""
        beginning = "" if all_runs else _key(run, "")
        for key, calls in self.waiting.items():
            if key.startswith(beginning):
                for call in calls:
                    call.since = 0

    def _same(self, key: str, mark: int, *, begun: bool) -> CallRecord | None:
        """Return the call of which this is the other half or another attempt; None if it is new."""
        calls = _of_this_turn(self.waiting.get(key, ()))
        for call in calls:
            if not (call.begun if begun else call.announced):
                return call
        # The very same call begun twice is another attempt at it, such as after a crash.
        if begun:
            for call in calls:
                if call.mark == mark:
                    return call
        answered = self.answered.get(key)
        if answered is None or (answered.begun if begun else answered.announced):
            return None
        return answered


def blocks_of(content: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the blocks of a message with their types; words, in whatever form, are "text"."""
    if isinstance(content, list):
        for block in content:
            is_block = isinstance(block, dict)
            yield (str(block.get("type")), block) if is_block else ("text", {"text": block})
    elif content:
        yield "text", {"text": content}


def mark_of(tool: str, params: bytes) -> int:
    """Return a number for the tool and its arguments, as recorded, by which calls are compared."""
    return crc32(params, crc32(tool.encode("utf-8", "surrogatepass")))


def _key(run: str | None, id: str) -> str:
    if len(id) > _ID_CHARS_MAX:
        # Long ids are distinguished by their beginning and a checksum of the rest.
        rest = crc32(id[_ID_CHARS_CUT:].encode("utf-8", "surrogatepass"))
        return f"{run or ''}\0{id[:_ID_CHARS_CUT]}{rest:08x}"
    return f"{run or ''}\0{id}"


def _of_this_turn(calls: Sequence[CallRecord]) -> Sequence[CallRecord]:
    """Return the calls since the last user message; all, if they are all older."""
    return [call for call in calls if not call.stale] or calls


def _forget_oldest(kept: dict[str, Any]) -> None:
    if len(kept) > _KEPT_MAX:
        del kept[next(iter(kept))]
