"""The messages of orbitmesh: from its log, from the list in a session file, or from a snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from holdfast.formats._foreign import Draft, frame, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers._speech import as_json, as_text, digest, join, member, speak

__all__ = [
    "TOOL",
    "Said",
    "drafts_of",
    "embedded",
    "go_on_with",
    "is_log_line",
    "join_in_time",
    "logged",
]

TOOL = "orbitmesh"
_COMPARED_CHARS_MAX = 1_000_000_000
_SPOKEN = {"user": "user", "output": "assistant", "system": "system"}


class Said:
    """One message: what kind, its text, when, and how it came."""

    __slots__ = ("_pieces", "_raws", "kind", "own", "when")

    def __init__(self, kind: str, contents: str, when: int | None, raw: Any, own: Any) -> None:
        self.kind = kind
        self.when = when
        self.own = own
        """What the provider said, where it was kept."""
        self._pieces = [contents]
        self._raws = [raw]

    def go_on(self, contents: str, raw: Any) -> None:
        """Add a piece of what was streamed."""
        self._pieces.append(contents)
        self._raws.append(raw)

    @property
    def contents(self) -> str:
        """The whole text."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    @property
    def raw(self) -> Any:
        """The source as it came; of a message in pieces, all of them."""
        if len(self._raws) == 1:
            return self._raws[0]
        return [
            one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in self._raws
        ]

    @property
    def key(self) -> str:
        """The same for a message of the log and its copy elsewhere."""
        return f"{self.kind}.{digest(self.contents)}"


def is_log_line(value: Any) -> bool:
    """Whether a value is a line of a message log."""
    return isinstance(value, dict) and "projection" in value and "kind" in value


def logged(source: Source, name: str, problems: list[str]) -> list[Said]:
    """The messages of a log. A delta goes on with the message before it, if that is output."""
    found: list[Said] = []
    for line, value in source.values(name, problems):
        when = read_time(member(value, "timestamp"))
        seq = member(value, "seq")
        if not is_log_line(value) or type(seq) is not int or seq <= 0 or when is None:
            problems.append(f"{name}: a line without number, time or kind was left out")
            continue
        kind, contents = as_text(value["kind"]) or "output", as_text(value.get("contents"))
        joins = value["projection"] == "append_output_delta"
        if joins and found and found[-1].kind == "output":
            found[-1].go_on(contents, line)
            continue
        found.append(Said(kind, contents, when, line, value.get("raw")))
    return found


def embedded(messages: Any) -> list[Said]:
    """The messages that a session file holds itself."""
    return [
        Said(
            as_text(message.get("kind")) or "output",
            as_text(message.get("contents")),
            read_time(message.get("timestamp")),
            message,
            message.get("raw"),
        )
        for message in (messages if isinstance(messages, list) else [])
        if isinstance(message, dict)
    ]


def join_in_time(base: list[Said], other: list[Said]) -> list[Said]:
    """All of ``base`` and what only ``other`` has: where it stands there, or by time at the end."""
    last = max((one.when for one in base if one.when), default=None)
    if last is None:
        return other
    known = Counter(one.key for one in base)
    late = []
    for one in [one for one in other if one.when and one.when > last]:
        if known[one.key]:
            known[one.key] -= 1
        else:
            late.append(one)
    early = [one for one in other if not any(one is later for later in late)]
    return [*join(base, early, key=lambda one: one.key), *late]


def go_on_with(said: list[Said], messages: Any) -> list[Said]:
    """What was said, and, in its time, what only a snapshot has.

    There each piece of a streamed answer is a message by itself, thoughts among them.
    """
    if not said:
        return _snapped(messages)
    found = list(said)
    for one in _snapped(_unknown(said, messages if isinstance(messages, list) else [])):
        later = (n for n, other in enumerate(found) if one.when and (other.when or 0) > one.when)
        found.insert(next(later, len(found)), one)
    return found


def _unknown(said: list[Said], messages: list[Any]) -> list[Any]:
    """The messages of a snapshot whose words nobody said."""
    asked = {one.contents for one in said if one.kind == "user"}
    answers = "\n".join(one.contents for one in said if one.kind != "user")
    pieces = [one for one in messages if isinstance(one, dict)]
    if len(pieces) * len(answers) > _COMPARED_CHARS_MAX:
        last = max((one.when for one in said if one.when), default=0)
        return [piece for piece in pieces if (_when(piece) or 0) > last]
    return [piece for piece in pieces if not _is_known(piece, asked, answers)]


def _is_known(piece: dict[str, Any], asked: set[str], answers: str) -> bool:
    text = _text_of(piece.get("content", piece.get("Content")))
    if as_text(piece.get("role", piece.get("Role"))) == "user":
        return text in asked
    return text in answers or text in asked


def _when(message: dict[str, Any]) -> int | None:
    return read_time(message.get("timestamp", message.get("Timestamp")))


def _snapped(messages: Any) -> list[Said]:
    """The messages of a snapshot, where each piece of a streamed answer is one by itself."""
    found: list[Said] = []
    for message in messages if isinstance(messages, list) else []:
        if not isinstance(message, dict):
            continue
        role = as_text(member(message, "role") or member(message, "Role"))
        kind = {"assistant": "output"}.get(role, role) or "output"
        contents = _text_of(message.get("content", message.get("Content")))
        when = _when(message)
        if kind == "output" and found and found[-1].kind == "output":
            found[-1].go_on(contents, message)
        else:
            found.append(Said(kind, contents, when, message, None))
    return found


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        texts = (member(block, "text") or member(block, "Text") for block in content)
        return "".join(as_text(text) for text in texts)
    return as_text(content)


def drafts_of(messages: list[Said]) -> Iterator[Draft]:
    """The messages as drafts."""
    counts: dict[str, int] = {}
    calls: set[str] = set()
    for said in messages:
        count = counts[said.key] = counts.get(said.key, 0) + 1
        drafts = _called_once(_drafts(said, count), calls, said)
        for number, draft in enumerate(drafts):
            draft.key = f"{said.key}.{count}.{number}"
            yield draft


def _called_once(drafts: list[Draft], calls: set[str], said: Said) -> list[Draft]:
    """The drafts; of news about a call that was told already only its result, or as it came."""
    if not drafts or drafts[0].type != "tool_call":
        return drafts
    id = drafts[0].data["id"]
    if id not in calls:
        calls.add(id)
        return drafts
    if len(drafts) == 1:
        return [frame(TOOL, said.raw, said.when)]
    drafts[1].raw = said.raw
    return drafts[1:]


def _drafts(said: Said, count: int) -> list[Draft]:
    if said.kind in _SPOKEN:
        return speak(_SPOKEN[said.kind], said.contents, said.when, said.raw)
    if said.kind == "thought":
        return [Draft("thinking", {"content": said.contents}, said.when, raw=said.raw)]
    if said.kind == "tool_use":
        return _call(said, count)
    if said.kind == "error":
        data = {"agent": TOOL, "error": said.contents}
        return [Draft("agent_error", data, said.when, raw=said.raw)]
    if said.kind == "plan":
        return _plan(said)
    return [frame(TOOL, said.raw, said.when)]


def _call(said: Said, count: int) -> list[Draft]:
    """A call as far as it was kept: its name and arguments from the provider's own words."""
    own = as_json(said.own)
    told = own if isinstance(own, dict) else as_json(said.contents)
    told = told if isinstance(told, dict) else {}
    names = ("id", "tool_call_id", "toolCallId", "call_id")
    id = next((told[name] for name in names if isinstance(told.get(name), str)), None)
    titled = next(
        (told[name] for name in ("name", "tool", "title", "kind") if told.get(name)), None
    )
    given = (told.get(name) for name in ("input", "arguments", "params", "args", "rawInput"))
    params = next((item for item in given if item is not None), {"contents": said.contents})
    id = id or f"log_{digest(said.contents)[:12]}_{count}"
    tool = as_text(titled) or said.contents.partition("(")[0].partition(":")[0][:64] or "unknown"
    data = {"id": id, "tool": tool, "params": as_json(params)}
    drafts = [Draft("tool_call", data, said.when, raw=said.raw)]
    results = (told.get(name) for name in ("result", "output", "rawOutput"))
    result = next((item for item in results if item is not None), None)
    if result is not None:
        drafts.append(Draft("tool_result", {"toolCallId": id, "result": result}, said.when))
    return drafts


def _plan(said: Said) -> list[Draft]:
    """A plan as todos where it is one, else as the words that the agent showed."""
    plan = as_json(said.own if said.own is not None else said.contents)
    items = plan.get("entries", plan.get("todos")) if isinstance(plan, dict) else plan
    if not isinstance(items, list):
        return speak("assistant", said.contents, said.when, said.raw, metadata={"kind": "plan"})
    todos = [_todo(item) for item in items]
    return [Draft("todo_update", {"todos": todos}, said.when, raw=said.raw)]


def _todo(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        return {"content": as_text(item), "status": "pending"}
    content = item.get("content") or item.get("step") or item.get("title")
    return {**item, "content": as_text(content), "status": as_text(item.get("status")) or "pending"}
