"""The tool calls of a session, each put together from all that its agent tells of it.

Agents tell of a call in pieces, each in an order of its own: announced with everything, announced
empty and completed later, told of only by asking the user about it, or not before it ends. Here
the pieces become one call: what is known of it, how far it came, and what the log lacks of it.
"""

from __future__ import annotations

from typing import Any

from holdfast.apps.acp.recording.values import places, printed_in, tool_name, tool_output
from holdfast.replay import Stage, stage_after

__all__ = ["OpenCall", "ToolCalls", "call_id"]

_PRINTED_CHARS = 256 * 1024
_ENDS = frozenset({"completed", "failed"})
_MERGED = ("title", "kind", "name", "locations", "rawInput", "rawOutput", "content", "_meta")
_ASKED = ("title", "kind", "name", "locations", "_meta")


class OpenCall:
    """One call that has not ended."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.stage: Stage = "begun"
        self.ends = False
        """Whether the newest update ended it."""
        self.failed = False
        self.has_begun = False
        """Whether it may be running, as far as updates say: more than a name is known of it."""
        self._known: dict[str, Any] = {}
        self._shown: Any = None
        self._recorded: dict[str, Any] | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether the log has it."""
        return self._recorded is not None

    @property
    def output(self) -> Any:
        """What it gave."""
        return tool_output(self._known)

    def update(self, update: dict[str, Any]) -> None:
        """Take in an announcement or an update; what comes later replaces what was said before."""
        known, status = self._known, update.get("status")
        printed = str(known.get("printed", "")) + printed_in(update.get("_meta"))
        known |= {key: update[key] for key in _MERGED if update.get(key) is not None}
        if printed:
            known["printed"] = printed[:_PRINTED_CHARS]
        self.ends = isinstance(status, str) and status in _ENDS
        self.failed = status == "failed"
        is_under_way = isinstance(status, str) and status != "pending"
        self.has_begun = self.has_begun or is_under_way or bool(known.get("rawInput"))
        if update.get("sessionUpdate") == "tool_call" and not self.ends:
            self._shown = update.get("content")

    def ask(self, question: dict[str, Any]) -> None:
        """Take in what the user is asked: it fills in what is not known, and often is all there is.

        It may say less than was said before (opencode leaves out the folder), and what it shows is
        no output: a preview, or why there is a question at all (Qwen).
        """
        known, given = self._known, question.get("rawInput")
        known |= {key: question[key] for key in _ASKED if question.get(key)}
        before = known.get("rawInput")
        if isinstance(before, dict) and isinstance(given, dict):
            known["rawInput"] = before | given
        elif given:
            known["rawInput"] = given
        self._shown = question.get("content") or self._shown
        self.has_begun = True
        self.stage = "asked"

    def decide(self, decision: str) -> None:
        """Take in what the user answered."""
        self.stage = stage_after(decision) or self.stage

    def data(self) -> dict[str, Any]:
        """The data of its ``tool_call``, as far as it is known."""
        tool, title = tool_name(self._known), self._known.get("title")
        data: dict[str, Any] = {"id": self.id, "tool": tool}
        data["params"] = self._known.get("rawInput") or self._about(tool, title)
        return data | ({"title": title} if isinstance(title, str) else {})

    def _about(self, tool: str, title: Any) -> dict[str, Any]:
        """What stands for the input of an agent that tells none: Gemini has only this."""
        about = places(self._known.get("locations"))
        if isinstance(title, str) and title and title != tool:
            about["title"] = title
        shown = tool_output({"content": self._shown})
        return about | ({"content": shown} if shown else {})

    def news(self) -> dict[str, Any] | None:
        """The ``tool_call`` that the log lacks; None if what it has of the call is all.

        At the end only the input can be: names and titles are worded anew by then.
        """
        data, before = self.data(), self._recorded
        if before is not None and self.ends:
            data = before | {"params": self._known.get("rawInput") or before["params"]}
        if _are_equal(data, before):
            return None
        self._recorded = data
        return data if before is None else data | {"amends": True}


class ToolCalls:
    """Those that have not ended, in the order in which they were told of."""

    def __init__(self) -> None:
        self._open: dict[str, OpenCall] = {}
        self._ended: set[str] = set()

    def __iter__(self) -> Any:
        return iter(self._open.values())

    def get(self, update: Any) -> OpenCall | None:
        """The call that an update is about, if it was told of before and has not ended."""
        return self._open.get(call_id(update) or "")

    def take(self, update: Any) -> OpenCall | None:
        """The call that an update is about; None if it names none, or one that has ended."""
        id = call_id(update)
        if id is None or id in self._ended:
            return None
        if id not in self._open:
            self._open[id] = OpenCall(id)
        return self._open[id]

    def end(self, call: OpenCall) -> None:
        """Nothing more is to be told of a call."""
        self._open.pop(call.id, None)
        self._ended.add(call.id)

    def begin_turn(self) -> None:
        """Another turn may use the same ids again."""
        self._ended.clear()

    def forget(self) -> None:
        """The agent died."""
        self._open.clear()
        self._ended.clear()


def call_id(update: Any) -> str | None:
    """The id of the call that an update or a question is about."""
    id = update.get("toolCallId") if isinstance(update, dict) else None
    return id if isinstance(id, str) and id else None


def _are_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except RecursionError:  # nested deeper than can be compared: it was told once
        return True
