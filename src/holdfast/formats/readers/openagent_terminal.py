"""OpenAgent-Terminal: one file per session, and an index that may have more or fewer sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.formats._foreign import Foreign, ForeignDraft, check_version, frame, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v
from holdfast.formats.readers._files import document_beside

TOOL = "openagent-terminal"
_VERSION = 1
_INDEX = "index.json"
_TOLD = frozenset({"session_id", "title", "tags", "created_at", "updated_at"})


class OpenAgentTerminal:
    """Reads sessions of OpenAgent-Terminal."""

    tool = TOOL

    def claims(self, source: Source) -> bool:
        """Return whether it is a session file or the index."""
        if not source.is_file:
            return False
        value = source.glimpse(source.name)
        return _is_session(value) or _is_index(value)

    def read(self, source: Source) -> Iterator[Foreign]:
        """Yield the session of the file; for the index, those that it lists and that exist."""
        value = source.json(source.name)
        if _is_session(value):
            yield _foreign(value, _row_of(source, value["metadata"]["session_id"]))
            return
        check_version(source.name, TOOL, value["version"], _VERSION)
        _tell_unsaved(source, value)
        for row in value["sessions"]:
            name = _file_of(row)
            if name is None or not source.has(name):
                continue  # it was reported
            try:
                if _is_session(found := source.json(name)):
                    yield _foreign(found, row)
            except HoldfastError as error:
                yield Foreign(TOOL, row["session_id"], [], problems=[str(error)])


READER = OpenAgentTerminal()


def _is_session(value: Any) -> bool:
    is_talk = isinstance(v.member(value, "metadata", "session_id"), str) and isinstance(
        v.member(value, "messages"), list
    )
    return is_talk and "format" not in value  # documents of other tools say whose they are


def _is_index(value: Any) -> bool:
    sessions = v.member(value, "sessions")
    is_list = isinstance(sessions, list) and "version" in value and "agentId" not in value
    return is_list and all(isinstance(v.member(row, "session_id"), str) for row in sessions)


def _row_of(source: Source, id: str) -> Any:
    """Return the session's row in the index, if there is one: the two may have drifted apart."""

    def rows() -> dict[str, Any]:
        is_own = source.name == _INDEX
        index = None if is_own else document_beside(source, _INDEX, TOOL, _VERSION, _is_index)
        if index is None:
            return {}
        _tell_unsaved(source, index)
        return {row["session_id"]: row for row in reversed(index["sessions"])}

    return source.remember("openagent rows", _INDEX, rows).get(id)


def _tell_unsaved(source: Source, index: dict[str, Any]) -> None:
    """Report what the index lists though it is missing: it was created, and never saved."""
    for row in index["sessions"]:
        name = _file_of(row)
        if name is None or not source.has(name):
            named = v.first_text(row.get("title"), row["session_id"])
            source.pass_over(name or row["session_id"], f"{named!r} was never saved to a file")


def _file_of(row: dict[str, Any]) -> str | None:
    """Return the name of a session's file; None for an id that is not a name."""
    id = row["session_id"]
    return None if "/" in id or "\\" in id or "\0" in id else f"{id}.json"


def _foreign(value: dict[str, Any], row: Any) -> Foreign:
    about = value["metadata"]
    updated = v.first_time(about.get("updated_at"), v.member(row, "updated_at"))
    drafts = _Conversation(about["session_id"]).drafts(value["messages"])
    data = {TOOL: {name: item for name, item in about.items() if name not in _TOLD}}
    drafts.append(ForeignDraft("metadata", data, updated, key=f"about.{v.digest(data, updated)}"))
    return Foreign(
        TOOL,
        about["session_id"],
        drafts,
        title=v.first_text(about.get("title"), v.member(row, "title")),
        tags=v.texts_in(about.get("tags"), v.member(row, "tags")),
        created_at=v.first_time(about.get("created_at"), v.member(row, "created_at")),
        version=v.as_text(value["version"]) if "version" in value else None,
    )


class _Conversation:
    """Gives calls ids, which that system lacks, and results to the calls before them."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._open: list[str] = []
        self._count = 0

    def drafts(self, messages: list[Any]) -> list[ForeignDraft]:
        """Return the messages as drafts. A key is the message's place: nothing is ever removed there."""
        found: list[ForeignDraft] = []
        for place, message in enumerate(messages):
            for number, draft in enumerate(self._message(message)):
                draft.key = f"{place}.{number}.{v.digest(message)}"
                found.append(draft)
        return found

    def _message(self, message: Any) -> list[ForeignDraft]:
        if not isinstance(message, dict) or "role" not in message:
            return [frame(TOOL, message)]
        when = read_time(message.get("timestamp"))
        if str(message["role"]).lower() == "tool":
            return self._tool(message, when)
        count = message.get("token_count")
        tokens = count if type(count) is int and count > 0 else None
        spoken = message["role"] == "assistant"
        extra = {"metadata": message.get("metadata") or None, "token_count": tokens}
        extra["usage"] = {"output_tokens": tokens} if tokens and spoken else None
        drafts = v.speak(message["role"], message.get("content"), when, message, **extra)
        if tokens and not spoken:
            drafts.append(ForeignDraft("usage", {"input_tokens": tokens, "requests": 0}, when))
        return drafts + self._calls(message.get("tool_calls"), when)

    def _calls(self, calls: Any, when: int | None) -> list[ForeignDraft]:
        drafts = []
        for call in v.items(calls):
            id = self._id(call)
            tool = v.member(call, "tool") or v.member(call, "name") or v.member(call, "function", "name")
            ways = (("args",), ("arguments",), ("params",), ("input",), ("function", "arguments"))
            params = next((given for way in ways if (given := v.member(call, *way)) is not None), None)
            data = {"id": id, "tool": v.as_text(tool) or "unknown", "params": v.as_json(params)}
            drafts.append(ForeignDraft("tool_call", data, when))
            result = v.member(call, "result")
            if result is not None:
                drafts.append(ForeignDraft("tool_result", {"toolCallId": id, "result": result}, when))
            else:
                self._open.append(id)
        return drafts

    def _tool(self, message: dict[str, Any], when: int | None) -> list[ForeignDraft]:
        """Process a tool's message: the result of the oldest open call, or of one that is missing."""
        about = message.get("metadata")
        named = message.get("tool_call_id") or v.member(about, "tool_call_id")
        drafts = []
        if named in self._open:
            self._open.remove(named)
        # Results have no id there: they come in the order of the calls.
        elif named is None and self._open:
            named = self._open.pop(0)
        else:
            named = self._id({"id": named})
            tool = v.as_text(message.get("tool") or v.member(about, "tool")) or "unknown"
            call = {"id": named, "tool": tool, "params": {}, "metadata": {"recorded": False}}
            drafts.append(ForeignDraft("tool_call", call, when))
        data: dict[str, Any] = {"toolCallId": named, "result": message.get("content")}
        return [*drafts, ForeignDraft("tool_result", data, when, raw=message)]

    def _id(self, call: Any) -> str:
        self._count += 1
        return v.text(v.member(call, "id")) or f"call_{self._count}"
