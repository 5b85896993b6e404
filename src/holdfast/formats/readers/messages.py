"""Plain message lists, as programs send them to a provider: JSON or JSONL, of any dialect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.formats._foreign import Foreign, ForeignDraft, frame
from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v
from holdfast.replay import from_dialect, recognise

TOOL = "messages"
_ROLES = frozenset({"user", "assistant", "system", "developer", "tool", "function", "model", "human", "ai"})
_ITEMS = frozenset({"function_call", "function_call_output", "reasoning", "message"})
_LISTS = ("messages", "contents", "input", "items", "history", "conversation")
_PROMPTS = ("system", "instructions", "systemInstruction", "system_instruction", "systemPrompt")
_IDS = ("id", "session_id", "sessionId", "conversation_id", "conversationId")
_TIMES = ("timestamp", "created_at", "createdAt", "create_time", "time")


class MessageLists:
    """Reads plain message lists."""

    tool = TOOL

    def claims(self, source: Source) -> bool:
        """Return whether it is a list of messages, an object that has one, or a message on each line."""
        if not source.is_file:
            return False
        value = source.glimpse(source.name)
        return bool(_list_in(source.first(source.name))) if value is None else _list_in(value) is not None

    def read(self, source: Source) -> Iterator[Foreign]:
        """Yield the conversation; for a file with a conversation on each line, all of them."""
        problems: list[str] = []
        if source.glimpse(source.name) is not None:
            yield _foreign(source.name, source.json(source.name), problems)
            return
        lines = [value for _, value in source.values(source.name, problems)]
        if lines and all(_list_in(one) is not None and not _is_message(one) for one in lines):
            for number, value in enumerate(lines):
                yield _foreign(f"{source.name}-{number}", value, problems)
        else:
            yield _foreign(source.name, lines, problems)


READER = MessageLists()


def _list_in(value: Any) -> list[Any] | None:
    """Return the message list that a value is or has: of a request, of a response, or of both."""
    if isinstance(value, list):
        return value if value and all(_is_message(item) for item in value[:20]) else None
    if _is_message(value):
        return [value]
    asked, answered = _asked(value), _answered(value)
    return None if asked is None and not answered else [*(asked or []), *answered]


def _asked(value: Any) -> list[Any] | None:
    for name in _LISTS:
        found = v.member(value, name)
        if isinstance(found, list) and (not found or all(_is_message(item) for item in found[:20])):
            return found
    words = v.member(value, "input")
    if isinstance(words, str) and words and isinstance(v.member(value, "output"), list):
        return [{"role": "user", "content": words}]
    return None


def _answered(value: Any) -> list[Any]:
    """Return a model's answer: the first of its choices, or its items."""
    output, choices = v.member(value, "output"), v.items(v.member(value, "choices"))
    if isinstance(output, list):
        found = [item for item in output if isinstance(item, dict)]
    else:
        found = [v.member(one, "message") for one in choices[:1]]
    if not found or not all(_is_message(item) for item in found):
        return []
    usage = v.member(value, "usage")
    said = next((n for n, one in enumerate(found) if one.get("role") == "assistant"), None)
    if said is not None and isinstance(usage, dict):
        found[said] = {"usage": usage, **found[said]}
    return found


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    role, kind = value.get("role"), value.get("type")
    if isinstance(role, str):
        return role in _ROLES and bool({"content", "parts", "tool_calls", "function_call", "text"} & value.keys())
    if value.get("kind") in ("request", "response") and isinstance(value.get("parts"), list):
        return True
    return isinstance(kind, str) and kind in _ITEMS


def _foreign(name: str, value: Any, problems: list[str]) -> Foreign:
    messages, about = _list_in(value) or v.items(value), v.mapping(value)
    given = next((about[key] for key in _IDS if isinstance(about.get(key), str)), None)
    model = v.text(about.get("model")) or None
    return Foreign(
        TOOL,
        # A list that has grown since still begins the same.
        given or f"{name}-{v.digest(messages[:1])}",
        [*_prompts(about), *(draft for message in messages for draft in _drafts(message, model))],
        title=v.text(about.get("title") or about.get("name")) or None,
        tags=v.texts_in(about.get("tags")),
        created_at=_time(about),
        problems=problems,
    )


def _prompts(about: dict[str, Any]) -> Iterator[ForeignDraft]:
    for name in _PROMPTS:
        given = about.get(name)
        if isinstance(given, dict):
            given = given.get("parts", given.get("text"))
        parts = given if isinstance(given, list) else [given]
        texts = [part if isinstance(part, str) else v.member(part, "text") for part in parts]
        words = "\n\n".join(v.as_text(one) for one in texts if one)
        if words:
            yield ForeignDraft("system", {"content": words}, raw=about[name])


def _drafts(message: Any, model: str | None) -> list[ForeignDraft]:
    if not isinstance(message, dict):
        return [frame(TOOL, message)]
    when = _time(message)
    # Lists may be mixed, so the dialect is determined for each message.
    neutral = from_dialect([message], recognise(message).name)
    usage, own = message.get("usage"), message.get("model") or message.get("model_name")
    spoken = {"usage": usage if isinstance(usage, dict) else None, "model": own if isinstance(own, str) else model}
    drafts: list[ForeignDraft] = []
    for said in neutral:
        extra = spoken if said["role"] == "assistant" else {}
        drafts += v.speak(said["role"], said["content"], when, None, **extra)
    drafts = drafts or [frame(TOOL, message, when)]
    drafts[0].raw = message
    return drafts


def _time(value: dict[str, Any]) -> int | None:
    return v.first_time(*map(value.get, _TIMES))
