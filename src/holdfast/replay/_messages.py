"""Lists of messages of any or no dialect: read, queried, repaired for a provider."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from itertools import groupby
from typing import Any

import msgspec

from holdfast.model import Event
from holdfast.replay._blocks import Block, Note, describe, is_soft, result_block, text_block
from holdfast.replay._dialects import DIALECTS, dialect_of
from holdfast.replay._dialects._form import NEUTRAL, Dialect, Message, Pair, Provider
from holdfast.replay._dialects.openai import ITEMS
from holdfast.replay._pieces import Incomplete, Issue, MessageDraft, check_incomplete, unreached
from holdfast.replay._rules import validate
from holdfast.replay._state import TODO_TOOLS, read_todos
from holdfast.replay._text import collector_paused, type_name
from holdfast.replay._thread import Thread

_CHAT = frozenset({"tool_calls", "function_call", "refusal", "audio", "reasoning_content"})
_CHAT_PARTS = frozenset({"image_url", "input_audio", "file", "refusal"})
_ITEM_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})


def read_message(message: Any, note: Note) -> list[Pair]:
    """Return the blocks of a message in whatever dialect. Anything that is not a message gives none."""
    if not isinstance(message, dict):
        note("invalid_structure", f"a {type_name(message)} is not a message: dropped", None)
        return []
    pairs = (admit(side, block, note) for side, block in recognise(message).read(message, note))
    return [pair for pair in pairs if pair is not None]


def recognise(message: Message) -> Dialect:
    """Return the dialect whose marks a message has; the neutral one if it has none."""
    if "parts" in message:
        return DIALECTS["pydantic-ai" if "kind" in message else "gemini"]
    role, kind = message.get("role"), message.get("type")
    if isinstance(kind, str) and (kind in ITEMS or role is None):
        return DIALECTS["openai-responses"]
    tool = isinstance(role, str) and role in {"tool", "function"}
    if tool or not _CHAT.isdisjoint(message):
        return DIALECTS["openai"]
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    # Of the dict itself: a hostile object is not a block, and no reason to drop the rest.
    found = [dict.get(one, "type") for one in parts if isinstance(one, dict)]
    kinds = {kind for kind in found if isinstance(kind, str)}
    if kinds & _ITEM_PARTS:
        return DIALECTS["openai-responses"]
    return DIALECTS["openai" if kinds & _CHAT_PARTS else "neutral"]


def admit(side: str, block: Block, note: Note) -> Pair | None:
    """Return a block on the side where it may be; None if it is allowed on none."""
    kind = block["type"]
    if kind == "tool_use":
        return "assistant", block
    if kind == "tool_result":
        return "user", block
    if side != "assistant" and is_soft(block):
        note("invalid_block", f"a {kind} block outside an assistant's turn was dropped", block)
        return None
    if side != "user" and kind in {"image", "document"}:
        note("invalid_block", f"a {kind} outside a user's turn was put into words", block)
        return side, text_block(describe(block))
    return side, block


# Conversion from the neutral form to a provider's and back, without repair.
def to_dialect(messages: list[Message], provider: Provider) -> list[Message]:
    """Return neutral messages in a provider's form.

    What the provider cannot accept is put into words or left out (docs/reference/provider-rules.md). Raises
    UsageError for an unknown provider.
    """
    dialect = dialect_of(provider)
    written: list[Message] = []
    before: list[Block] = []
    for side, blocks in _turns(messages, "neutral"):
        if side == "system":
            written += [{"role": "system", "content": block["text"]} for block in blocks]
        else:
            written += dialect.write(side, blocks, before)
            before = blocks
    return written


def from_dialect(messages: list[Message], provider: Provider) -> list[Message]:
    """Return a provider's messages, without anything else, in neutral form.

    Raises UsageError for an unknown provider.
    """
    return [message for side, blocks in _turns(messages, provider) for message in NEUTRAL.write(side, blocks, [])]


def _turns(messages: list[Message], provider: str) -> list[tuple[str, list[Block]]]:
    """Return the turns; neighbouring messages of one side are one turn."""
    dialect = dialect_of(provider)
    turns: list[tuple[str, list[Block]]] = []
    for message in messages:
        for side, block in dialect.read(message, ignore):
            pair = admit(side, block, ignore)
            if pair is None:
                continue
            if not turns or turns[-1][0] != pair[0]:
                turns.append((pair[0], []))
            turns[-1][1].append(pair[1])
    return turns


def ignore(type: str, detail: str, content: Any) -> None:
    """Do nothing."""


# Queries on a list of messages, and the small answers that callers need to go on.
def has_incomplete_tool_call(messages: list[Message]) -> bool:
    """Return whether the list ends with a call that has no result."""
    return last_tool_call(messages) is not None


def last_tool_call(messages: list[Message]) -> dict[str, Any] | None:
    """Return the call with which the list ends, as ``{id, name, input}``; the first if there are several.

    Of parallel calls with some results, the first one without. None if the list ends otherwise.
    """
    answered: set[Any] = set()
    for message in reversed(messages):
        pairs = _read(message)
        calls = [block for _, block in pairs if block["type"] == "tool_use"]
        if calls:
            asked = next((call for call in calls if call["id"] not in answered), None)
            return asked and {name: asked[name] for name in ("id", "name", "input")}
        if not pairs or any(block["type"] != "tool_result" for _, block in pairs):
            return None
        answered |= {block["tool_use_id"] for _, block in pairs}
    return None


def is_complete(messages: list[Message]) -> bool:
    """Return whether the assistant's message is last and waits for no result."""
    pairs = _read(messages[-1]) if messages else []
    return bool(pairs) and all(side == "assistant" and block["type"] != "tool_use" for side, block in pairs)


def tool_result_message(
    tool_call_id: str, result: Any, *, is_error: bool = False, provider: Provider = "neutral"
) -> Message:
    """Return the message that answers a call. Raises UsageError for an unknown provider."""
    block = result_block(tool_call_id, result, ignore, failed=is_error)
    return dialect_of(provider).write("user", [block], [])[0]


def recover_todos(events: Iterable[Event], names: Collection[str] = TODO_TOOLS) -> list[dict[str, Any]]:
    """Return the todos as last written, by a call to one of these tools or by a ``todo_update`` event.

    Names are compared case-insensitively. Empty if there are none, or if the last ones are malformed.
    """
    wanted = {name.lower() for name in names}
    todos: list[dict[str, Any]] = []
    for event in events:
        try:
            if event.type == "todo_update":
                todos = read_todos(event.data)
            elif event.type == "tool_call" and str(event.data.get("tool")).lower() in wanted:
                todos = read_todos(event.data.get("params"))
        except Exception:  # noqa: BLE001, S112 - an unreadable event says nothing about todos
            continue
    return todos


def _read(message: Any) -> list[Pair]:
    try:
        return read_message(message, ignore)
    except Exception:  # noqa: BLE001 - what cannot be read says nothing
        return []


# Any list in, a list out that the provider accepts, and a report of what was changed.
# The layers: 1 structure (what is not a message is dropped), 2 relationships (calls and results are paired), 3 sequence
# (turns alternate, results follow their calls), 4 emptiness (a message that lost everything goes; after the
# relationships, because dropping calls empties messages), 5 validation by the provider's rules. If the last one should
# ever fail, a ladder of cruder cuts leads down to the empty list.
_LAST_DROPPED_MAX = 5


class Sanitized(msgspec.Struct, frozen=True):
    """A list that the provider accepts, and what was changed to make it so.

    ``system`` holds system prompts that the provider does not accept inside the list. ``recovered`` is always True:
    every input can be recovered from, if only to a fresh start.
    """

    messages: list[Message]
    issues: list[Issue] = []
    recovered: bool = True
    system: str | None = None


def sanitize(messages: Any, provider: Provider = "anthropic", incomplete: Incomplete = "drop") -> Sanitized:
    """Make any value a list of messages that the provider's rules accept.

    Takes messages of every dialect, mixtures and garbage. A valid list is returned unchanged, without issues; other
    lists change as little as possible. ``incomplete`` determines how calls without results are treated: "drop", "mark"
    or "keep" (then the list need not be valid). Takes linear time. Never raises for anything in ``messages``;
    UsageError for an unknown provider or word.
    """
    dialect = dialect_of(provider)
    check_incomplete(incomplete)
    if _is_valid(messages, provider):
        return Sanitized(list(list.__iter__(messages)))
    if not issubclass(type(messages), (list, tuple)):  # isinstance would call the value's own code
        detail = f"a {type_name(messages)} is no list: a fresh start"
        return Sanitized([], [Issue("not_a_list", "list", detail)])
    # By the list's own methods: a subclass may return anything, or nothing.
    items = list((list if isinstance(messages, list) else tuple).__iter__(messages))
    try:
        with collector_paused(len(items)):
            return _Repair(dialect, incomplete, items).run()
    except Exception as error:  # noqa: BLE001 - the last rung: a fresh start instead of a crash
        detail = f"nothing could be kept ({type_name(error)}): a fresh start"
        return Sanitized([], [Issue("fallback", "list", detail)])


class _Repair:
    """One repair of one list."""

    def __init__(self, dialect: Dialect, incomplete: str, items: list[Any]) -> None:
        self._dialect = dialect
        self._incomplete = incomplete
        self._thread = Thread(incomplete, "message")
        self._system: list[tuple[int, str]] = []
        self._items = items
        self._index = 0
        self._noted = False
        self._begun = False

    def run(self) -> Sanitized:
        for index, message in enumerate(self._items):
            self._index, self._noted = index, False
            self._read(message)
        rendered = self._finish()
        issues = self._thread.report()
        issues += unreached(self._thread.drafts(), self._dialect, issues.unit)
        if not issues:
            issues.note("reshaped", "list", "turns were put into the order and form demanded")
        system = None if self._dialect.has_system else "\n\n".join(text for _, text in self._system) or None
        return Sanitized(rendered, list(issues), system=system)

    def _note(self, type: str, detail: str, content: Any) -> None:
        self._noted = True
        self._thread.issues.note(type, self._index, detail, content)

    def _read(self, message: Any) -> None:
        try:
            pairs = read_message(message, self._note)
        except Exception as error:  # noqa: BLE001 - an object that fights back is no message
            self._note("invalid_structure", f"unreadable message ({type_name(error)}): dropped", None)
            return
        if not pairs and not self._noted:
            self._note("empty_message", "a message without content was dropped", None)
        for side, block in pairs:
            if side != "system":
                self._begun = True
                self._thread.take(self._index, side, block)
                continue
            place, text = self._index, block["text"]
            if self._begun or not self._dialect.has_system:
                where = "to the beginning" if self._dialect.has_system else "out of the list"
                self._note("system_moved", f"a system message was moved {where}", text)
                place = -1
            self._system.append((place, text))

    # --- layer 5
    def _finish(self) -> list[Message]:
        """Return the repaired list: with the original messages where they still say the same."""
        name = self._dialect.name
        drafts = list(self._thread.drafts())
        rendered = self._render(drafts, originals=True)
        if self._incomplete == "keep" or _is_valid(rendered, name):
            return rendered
        rendered = self._render(drafts, originals=False)
        if _is_valid(rendered, name):
            return rendered
        kept = fall_back(rendered, lambda part: _is_valid(part, name))
        detail = f"{len(rendered) - len(kept)} messages were cut off to make the rest valid"
        self._thread.issues.note("fallback", "list", detail, rendered[len(kept) :])
        return kept

    def _render(self, drafts: list[MessageDraft], *, originals: bool) -> list[Message]:
        rendered: list[Message] = []
        for index, draft in enumerate(drafts):
            before = drafts[index - 1].blocks if index else []
            messages = self._dialect.write(draft.role, draft.blocks, before)
            sources = [source for source, _ in groupby(draft.seqs)]
            if originals and len(sources) == len(messages):
                messages = list(map(self._original, sources, messages))
            rendered += messages
        if not self._dialect.has_system or not self._system:
            return rendered
        if self._dialect.name == "pydantic-ai":
            # They are the first parts of the first request.
            parts = [{"part_kind": "system-prompt", "content": text} for _, text in self._system]
            if rendered:
                rendered[0] = {**rendered[0], "parts": parts + rendered[0]["parts"]}
            return rendered
        system = [(source, {"role": "system", "content": text}) for source, text in self._system]
        return [self._original(*one) if originals else one[1] for one in system] + rendered

    def _original(self, source: int, message: Message) -> Message:
        """Return the original message, if the rewritten one says exactly the same."""
        given = self._items[source] if source >= 0 else None
        try:
            same = isinstance(given, dict) and covers(given, message, self._dialect.name)
        except Exception:  # noqa: BLE001 - an object that fights back is not handed on
            same = False
        return given if same else message  # type: ignore[return-value]  # same: it is a dict


def _is_valid(messages: Any, provider: Provider) -> bool:
    return validate(messages, provider, errors_max=1).valid


def fall_back(messages: list[Message], is_valid: Callable[[list[Message]], bool]) -> list[Message]:
    """Return the list without its last one to five messages; else its first half; else nothing: whatever is valid."""
    shorter = [messages[:-count] for count in range(1, _LAST_DROPPED_MAX + 1)]
    return next((part for part in (*shorter, messages[: len(messages) // 2]) if is_valid(part)), [])


# Whether an original message says exactly what the rewritten one says.
# If so, the original is handed on: with members that only its sender understands, and with the text of its arguments
# byte for byte.
_EXTRA: dict[str, frozenset[str]] = {
    "neutral": frozenset({"cache_control", "caller", "toolset_name"}),
    "anthropic": frozenset({"cache_control", "caller", "toolset_name"}),
    "openai": frozenset({"name", "refusal", "audio", "annotations", "detail"}),
    "openai-responses": frozenset({"type", "id", "status", "phase", "annotations", "logprobs", "detail"}),
    "gemini": frozenset(),
    "mistral": frozenset({"name"}),
    "pydantic-ai": frozenset(
        {"timestamp", "instructions", "run_id", "conversation_id", "metadata", "state", "usage"}
        | {"model_name", "provider_name", "provider_details", "finish_reason", "id", "outcome"}
    ),
}


def covers(given: Any, written: Any, provider: str) -> bool:
    """Return whether ``given`` says what ``written`` says, and otherwise has only harmless members."""
    if given is written:
        return True
    if isinstance(written, dict):
        if not isinstance(given, dict) or not (_EXTRA[provider] | written.keys()).issuperset(given):
            return False
        return all(_covers_member(name, given.get(name), value, provider) for name, value in written.items())
    if isinstance(written, list):
        return (
            isinstance(given, list)
            and len(given) == len(written)
            and all(covers(a, b, provider) for a, b in zip(given, written, strict=True))
        )
    return type(given) is type(written) and bool(given == written)


def _covers_member(name: str, given: Any, written: Any, provider: str) -> bool:
    if name == "arguments" and isinstance(given, str):
        return bool(json.loads(given) == json.loads(written))
    if name == "content" and written is None:
        return given is None or given == ""
    if name in {"content", "output"} and isinstance(written, str) and isinstance(given, list):
        # One part that is this text and nothing else: a string would say the same.
        part = given[0] if len(given) == 1 and isinstance(given[0], dict) else {}
        return part.get("text") == written and ({"type", "text"} | _EXTRA[provider]).issuperset(part)
    if name == "role" and written == "system":
        return given in ("system", "developer")
    return covers(given, written, provider)
