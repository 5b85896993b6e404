"""The items of a oneringai conversation: what each says, in the neutral form."""

from __future__ import annotations

import posixpath
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.formats._foreign import ForeignDraft, check_version, frame, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers._speech import as_json, as_text, digest, member, speak

TOOL = "oneringai"


class ConversationItem:
    """One item of the conversation, with its time and line where the journal has them."""

    __slots__ = ("item", "raw", "role", "when")

    def __init__(self, item: Any, when: int | None = None, raw: Any = None, role: str = "") -> None:
        self.item = item
        self.when = when
        self.raw = item if raw is None else raw
        self.role = role

    @property
    def id(self) -> str | None:
        """The item's own id, which it need not have."""
        own = member(self.item, "id")
        return own if isinstance(own, str) and own else None

    @property
    def words(self) -> str:
        """A name for what the item says."""
        return digest(member(self.item, "role") or self.role, member(self.item, "content"))

    @property
    def key(self) -> str:
        """The name under which its events are known."""
        return self.id or self.words


def with_calls(items: list[ConversationItem], records: Any) -> list[ConversationItem]:
    """The items, and among them, by their times, the calls that are kept in a list of their own.

    A call that an item tells too is left to it. An item that only repeats what a call gave back is
    the call's result, and is kept beside it.
    """
    told = {
        as_text(member(part, "id"))
        for one in items
        for part in _parts(member(one.item, "content"))
        if member(part, "type") == "tool_use"
    }
    calls = [_Call(record) for record in (records if isinstance(records, list) else [])]
    calls = [call for call in calls if call.id and call.id not in told]
    found = [one for one in items if not any(call.takes(one) for call in calls)]
    for call in calls:
        later = (n for n, one in enumerate(found) if call.when and (one.when or 0) > call.when)
        found.insert(next(later, len(found)), call)
    return found


class _Call(ConversationItem):
    """A record of a call: its name, arguments and end."""

    __slots__ = ("_repeated",)

    def __init__(self, record: Any) -> None:
        super().__init__(record, read_time(member(record, "timestamp")))
        self._repeated: list[Any] = []

    def takes(self, item: ConversationItem) -> bool:
        """Whether an item says what came of this call; no second one does."""
        result = member(self.item, "result")
        words = result if isinstance(result, str) else as_text(result)
        if self._repeated or not words or member(item.item, "role") != "tool":
            return False
        if member(item.item, "content") != words:
            return False
        self._repeated.append(item.raw)
        return True

    def drafts(self) -> list[ForeignDraft]:
        """The call, and its result once it ended."""
        record = self.item
        took = record.get("durationMs")
        began = self.when
        if began and isinstance(took, (int, float)) and 0 < took < began:
            began -= int(took)
        call = {
            "id": self.id,
            "tool": as_text(record.get("name")) or "unknown",
            "params": as_json(record.get("args", record.get("arguments"))),
        }
        raw = [record, *self._repeated] if self._repeated else record
        drafts = [ForeignDraft("tool_call", call, began, raw=raw)]
        error = record.get("error")
        if error or "result" in record:
            ended = {"toolCallId": self.id, "result": error or record.get("result")}
            ended |= {"is_error": True} if error else {}
            drafts.append(ForeignDraft("tool_result", ended, self.when))
        return drafts


def said(entry: ConversationItem, model: str | None = None) -> list[ForeignDraft]:
    """The events of an item, each with a key of its own."""
    item = entry.item
    role = member(item, "role") or entry.role
    if isinstance(entry, _Call):
        drafts = entry.drafts()
    elif not role or member(item, "type") == "compaction":
        drafts = [frame(TOOL, entry.raw, entry.when)]
    else:
        content = member(item, "content") if isinstance(item, dict) else item
        blocks = [_block(part) for part in _parts(content)]
        extra = {"model": model, "usage": _usage(item)} if role == "assistant" else {}
        drafts = speak(role, blocks, entry.when, entry.raw, **extra)
    for number, draft in enumerate(drafts):
        draft.key = f"{entry.key}.{number}"
    return drafts


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _usage(item: Any) -> Any:
    usage = member(item, "usage") or member(item, "metadata", "usage")
    return usage if isinstance(usage, dict) else None


def _block(part: Any) -> Any:
    """A part of a message in the neutral form."""
    kind = member(part, "type")
    if kind in ("input_text", "output_text"):
        return {"type": "text", "text": as_text(part.get("text"))}
    if kind == "input_image_url":
        return {"type": "image_url", "image_url": part.get("image_url")}
    if kind == "tool_use":
        block = {"type": "tool_use", "id": part.get("id"), "name": part.get("name")}
        block["input"] = as_json(part.get("arguments", part.get("input")))
        return block | {"thought_signature": part.get("thoughtSignature")}
    if kind == "tool_result":
        return _result(part)
    if kind == "thinking":
        return {name: part.get(name) for name in ("type", "thinking", "signature")}
    return part


def _result(part: dict[str, Any]) -> dict[str, Any]:
    content: Any = part.get("content")
    error = part.get("error")
    if error and not content:
        content = as_text(error)
    images = part.get("__images")
    if isinstance(images, list) and images:
        words = [{"type": "text", "text": as_text(content)}] if content else []
        content = words + [_image(image) for image in images]
    return {
        "type": "tool_result",
        "tool_use_id": part.get("tool_use_id"),
        "content": content,
        "is_error": bool(error),
    }


def _image(image: Any) -> dict[str, Any]:
    source = {
        "type": "base64",
        "media_type": as_text(member(image, "mediaType")) or "image/png",
        "data": as_text(member(image, "base64")),
    }
    return {"type": "image", "source": source}


# What oneringai keeps beside the sessions of an agent: its memory, plugins and instructions.


SESSION = "session.json"
_MEMORY = "memory.json"
_PLUGINS = "plugins/"
_INSTRUCTIONS = "custom_instructions.json"
_OLD_INSTRUCTIONS = "custom_instructions.md"
_VERSION = 1
_INSTRUCTIONS_VERSION = 2
_OLD_INSTRUCTIONS_BYTES_MAX = 1024 * 1024


class AgentFiles:
    """The files of one agent, as far as they are there; what is damaged is told as passed over."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.plugins = self._plugins()
        self.instructions = self._instructions()

    def _plugins(self) -> dict[str, Any]:
        """The states that lie in files of their own; beside a single file only the memory."""
        plugins = [name for name in self._source.names(".json") if name.startswith(_PLUGINS)]
        found = {}
        for name in [_MEMORY, *plugins]:
            value = self._json(name, _VERSION)
            if isinstance(value, dict):
                found[posixpath.basename(name).removesuffix(".json")] = value
        return found

    def _instructions(self) -> Any:
        """What a person told the agent for good: texts with their ids and times, or one text."""
        entries = member(self._json(_INSTRUCTIONS, _INSTRUCTIONS_VERSION), "entries")
        if isinstance(entries, list):
            return entries or None
        if not self._source.has(_OLD_INSTRUCTIONS):
            return None
        data = self._source.read(_OLD_INSTRUCTIONS, _OLD_INSTRUCTIONS_BYTES_MAX)
        text = data.decode("utf-8", "replace").strip()
        return [{"id": "legacy_instructions", "content": text}] if text else None

    def _json(self, name: str, newest: int) -> Any:
        if not self._source.has(name):
            return None
        try:
            value = self._source.json(name)
            check_version(name, TOOL, member(value, "version"), newest)
            return value
        except HoldfastError as error:
            self._source.pass_over(name, str(error))
            return None


def is_agent_folder(source: Source) -> bool:
    """Whether a folder has such files directly in it."""
    return not source.is_file and any(
        source.has(name) for name in (SESSION, _INSTRUCTIONS, _OLD_INSTRUCTIONS)
    )
