"""The updates of a replay in the form of the protocol, and the tool calls already shown."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from holdfast.apps.acp.replay.log import CallAbout, plain
from holdfast.apps.wire.frames import member, object_in, objects_in, text_in
from holdfast.errors import InvalidData
from holdfast.model import Event
from holdfast.replay import WHY_NOT_RUN, Media, Stage, as_pieces, stage_after

UNDONE: dict[Stage, str] = {
    "begun": "interrupted, outcome unknown",
    **{stage: f"not run: {why}" for stage, why in WHY_NOT_RUN.items()},
}
"""The status text of a call that never ended, by how far it came."""

_TITLE_CHARS_MAX = 80
_SUBJECTS = ("command", "cmd", "file_path", "path", "pattern", "query", "url", "uri", "name")
# The first that occurs in a tool's name; the order decides ("web_search" fetches).
_KINDS = (
    ("fetch", ("web", "fetch", "http", "browse", "url", "download")),
    ("search", ("grep", "glob", "search", "find", "list", "ls")),
    ("read", ("read", "cat", "view", "open", "get")),
    ("edit", ("edit", "write", "patch", "replace", "create", "insert", "update")),
    ("delete", ("delete", "remove", "rm")),
    ("move", ("move", "rename", "mv")),
    ("execute", ("bash", "shell", "exec", "run", "command", "terminal")),
    ("think", ("think", "task", "plan", "todo", "agent")),
)
_STATUSES = frozenset({"pending", "in_progress", "completed"})
_PRIORITIES = frozenset({"high", "medium", "low"})


def content_updates(content: Any, kind: str) -> list[dict[str, Any]]:
    """Return updates for the content of a message: text, or blocks of any known dialect."""
    if isinstance(content, str):
        return [{"sessionUpdate": kind, "content": _text(content)}] if content else []
    blocks = content if isinstance(content, list) else [content]
    return [update for block in blocks for update in _block_updates(block, kind)]


def _block_updates(block: Any, kind: str) -> list[dict[str, Any]]:
    match block:
        case {"type": "tool_use"}:
            call = {"id": block.get("id"), "tool": block.get("name"), "params": block.get("input")}
            return [call_update(call, "call")]
        case {"type": "tool_result"}:
            failed = block.get("is_error") is True
            return [result_update(str(block.get("tool_use_id")), block.get("content"), failed=failed)]
        case {"type": "thinking"}:
            kind, block = "agent_thought_chunk", block.get("thinking")
    return [{"sessionUpdate": kind, "content": _as_block(piece)} for piece in as_pieces(block) if piece]


def _as_block(piece: str | Media) -> dict[str, Any]:
    """Return words as text, a picture as one; anything else is named."""
    if isinstance(piece, Media):
        data = piece.source.get("data")
        if piece.kind == "image" and isinstance(data, str) and piece.media_type:
            return {"type": "image", "data": data, "mimeType": piece.media_type}
    return _text(str(piece))


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call_update(data: dict[str, Any], fallback: str) -> dict[str, Any]:
    """Return a tool call that is under way; ``fallback`` is its id if it has none."""
    name, params = text_in(data, "tool") or "tool", data.get("params")
    update: dict[str, Any] = {
        "sessionUpdate": "tool_call",
        "toolCallId": text_in(data, "id") or fallback,
        "title": text_in(data, "title") or _title(name, params),
        "kind": kind_of(name),
        "status": "in_progress",
    }
    return update if params is None else update | {"rawInput": params}


def _title(name: str, params: Any) -> str:
    subjects = (member(params, key) for key in _SUBJECTS)
    subject = next((found for found in subjects if isinstance(found, str)), "")
    words = " ".join(f"{name} {subject[:1000]}".split())
    return words if len(words) <= _TITLE_CHARS_MAX else words[: _TITLE_CHARS_MAX - 1] + "…"


def kind_of(name: str) -> str:
    """Return which of the protocol's kinds of tools one is, by its name."""
    lower = name.lower()
    return next((kind for kind, hints in _KINDS if any(hint in lower for hint in hints)), "other")


def result_update(call: str, result: Any, *, failed: bool) -> dict[str, Any]:
    """Return the end of a tool call."""
    parts = result if isinstance(result, list) else [result]
    if not all(isinstance(part, (dict, str)) for part in parts):
        parts = [result]
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": call,
        "status": "failed" if failed else "completed",
        "content": [told for part in parts for told in _result_parts(part)],
    }


def undone_update(call: str, stage: Stage) -> dict[str, Any]:
    """Return the end of a tool call that has none."""
    return result_update(call, UNDONE[stage], failed=True)


def question_of(frame: Any) -> dict[str, Any] | None:
    """Return what a recorded frame asks the user about a call; None if it asks nothing of the kind."""
    about = object_in(frame, "params", "toolCall")
    is_one = member(frame, "method") == "session/request_permission" and isinstance(about.get("toolCallId"), str)
    return about if is_one else None


def question_update(about: dict[str, Any], *, is_known: bool) -> dict[str, Any]:
    """Return the call in a question, as an update: for some agents it is the only word about the call."""
    if is_known:
        return {**about, "sessionUpdate": "tool_call_update", "status": "pending"}
    title = about.get("title")
    named = title if isinstance(title, str) else "tool"
    return {**about, "sessionUpdate": "tool_call", "title": named, "status": "pending"}


def _result_parts(part: Any) -> list[dict[str, Any]]:
    if isinstance(part, dict):
        if isinstance(part.get("path"), str) and isinstance(part.get("newText"), str):
            return [{"type": "diff", **part}]
        if part.get("error") is True and isinstance(part.get("message"), str):
            part = part["message"]  # how an agent of ours records what went wrong
    told = [_as_block(piece) for piece in as_pieces(part) if piece]
    return [{"type": "content", "content": block} for block in told]


def plan_update(data: dict[str, Any]) -> dict[str, Any]:
    """Return a list of todos as a plan."""
    entries = [
        {
            "content": str(todo.get("content", "")),
            "priority": rank if (rank := str(todo.get("priority"))) in _PRIORITIES else "medium",
            "status": status if (status := str(todo.get("status"))) in _STATUSES else "pending",
        }
        for todo in objects_in(data, "todos")
    ]
    return {"sessionUpdate": "plan", "entries": entries}


def prompt_of(raw: Any) -> list[Any] | None:
    """Return the blocks of a recorded prompt; None if what was recorded is none."""
    is_one = member(raw, "method") == "session/prompt" and isinstance(member(raw, "params", "prompt"), list)
    return objects_in(raw, "params", "prompt") if is_one else None


def is_echo(update: bytes, asked: list[dict[str, Any]]) -> bool:
    """Return whether an encoded user chunk repeats a prompt that the user has already been shown."""
    content = msgspec.json.decode(update).get("content")
    blocks = [one["content"] for one in asked]
    text = member(content, "text")
    if not isinstance(text, str):
        return content in blocks
    texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    return text.strip() in "\n".join(texts)


def is_text(update: dict[str, Any], kind: str) -> bool:
    """Return whether an update is a piece of an answer or thought of this kind, and text."""
    return bool(update["sessionUpdate"] == kind and update["content"].get("type") == "text")


_ENDS = frozenset({"completed", "failed"})
_EMPTY = (b"[]", b"null")
_LITTLE = 4  # bytes, which is what those have at most


class ReplayedCalls:
    """Keeps what the editor was told of each call."""

    def __init__(self) -> None:
        self.open: dict[str, None] = {}
        self.ended: set[str] = set()  # those of this turn: in another, the same ids may be used again
        self._stages: dict[str, Stage] = {}
        self._before: set[str] = set()
        self._shaped: set[str] = set()

    def track(self, call: str, status: Any) -> None:
        """Note that the editor was sent a call, with its status."""
        if status in _ENDS:
            self.open.pop(call, None)
            self.ended.add(call)
        elif status is not None or call not in self.ended:
            self.open[call] = None
            self.ended.discard(call)

    def decide(self, call: Any, decision: Any) -> None:
        """Note that the user was asked about a call or has answered; without an id it is the last such call."""
        asked = call if isinstance(call, str) else next(reversed(self._stages), None)
        stage = stage_after(decision)
        if asked is not None and stage is not None:
            self._stages[asked] = stage

    def show(self, call: str, content: msgspec.Raw) -> None:
        """Note that the editor was sent content for it."""
        if call not in self._shaped and bytes(content) not in _EMPTY:
            self._shaped.add(call)

    def follow(self, abouts: list[CallAbout]) -> None:
        """Note that the editor was sent all of this, in order."""
        if not abouts:
            return
        last = {about.call: about.status for about in abouts}
        # An update without a status neither ends a call nor opens one that has ended.
        if None in last.values():
            for about in abouts:
                self.track(about.call, about.status)
        else:
            self._end(last)
        self._shaped.update([about.call for about in abouts if len(about.content) > _LITTLE])

    def _end(self, last: dict[str, Any]) -> None:
        """Apply the final state of each call after many updates, since most calls end soon."""
        under_way = [call for call, status in last.items() if status not in _ENDS]
        self.ended.update(last)
        self.ended.difference_update(under_way)
        for call in [call for call in self.open if call in self.ended]:
            del self.open[call]
        for call in under_way:
            self.open[call] = None

    def knows(self, call: str) -> bool:
        """Return whether the editor has been shown the call."""
        return call in self.ended or call in self.open or call in self._before

    def shows(self, call: str) -> bool:
        """Return whether a frame showed something for the call, such as a diff."""
        return call in self._shaped

    def leave(self) -> list[tuple[str, Stage]]:
        """Give up those that are under way, with their turn; how far each of them came."""
        left = [(call, self._stages.get(call, "begun")) for call in self.open]
        # Agents count calls from one in each turn: an id that has ended may begin again.
        self._before.update(self.ended, self.open)
        self.ended.clear()
        self.open.clear()
        self._stages.clear()
        return left


_AUDIT = "system"  # the name under which recorders note what they do themselves


class Cast:
    """The agents of a log. Child runs are identified by their run, in plain logs by their agent's name.

    ``children`` are the runs to leave out, ``left_out`` the tool calls that were left out,
    ``unsaid`` who begins work that the editor was not told of yet, with the task.
    """

    def __init__(self) -> None:
        self.children: set[str] = set()
        self.left_out: set[str] = set()
        self.unsaid: list[tuple[str, Any]] = []
        self._announced: set[Any] = set()
        self._top: Any = None
        self._names: set[str] = set()
        self._tasks: list[Any] = []

    def note(self, event: Event) -> None:
        """Take in an event that tells of agents; others say nothing."""
        if event.type not in {"agent_start", "delegation"}:
            return
        try:
            data = plain(event)
        except InvalidData:
            return
        if event.type == "delegation":
            self._announced |= {_name(data.get("child")), _name(data.get("child_run"))}
            self.unsaid.append((_name(data.get("child")), data.get("task")))
            if event.run is None:
                self._add(data.get("child"))
                self._tasks.append(data.get("task"))
            return
        depth = data.get("depth")
        if data.get("parent") is None and not (isinstance(depth, int) and depth > 0):
            self._top = self._top or data.get("agent")
        else:
            name = _name(data.get("agent"))
            if name != self._top and not self._announced & {event.run, name}:
                self._announced.add(event.run or name)
                self.unsaid.append((name, data.get("task")))
            if event.run is not None:
                self.children.add(event.run)
            else:
                self._add(data.get("agent"))

    def _add(self, name: Any) -> None:
        if isinstance(name, str) and name != self._top:
            self._names.add(name)

    def is_child(self, agent: Any) -> bool:
        """Return whether text under this name is not that of the top-level agent."""
        return agent is not None and (agent == _AUDIT or (isinstance(agent, str) and agent in self._names))

    def is_childs_task(self, data: dict[str, Any]) -> bool:
        """Return whether a user message is a task that one agent gave another."""
        if self.is_child(data.get("agent")):
            return True
        with contextlib.suppress(ValueError):
            self._tasks.remove(data.get("content"))
            return True
        return False


def _name(value: Any) -> str:
    return value if isinstance(value, str) else "another agent"
