"""A message in a provider's form, converted to events."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Collection, Iterator
from enum import Enum
from typing import Any, NamedTuple

from holdfast.errors import InvalidData
from holdfast.replay._blocks import Block, is_paused, is_soft, is_thought, text_block
from holdfast.replay._dialects import DIALECTS
from holdfast.replay._dialects._answer import ProviderAnswer, open_answer
from holdfast.replay._dialects._form import Dialect, Message, bare_text
from holdfast.replay._messages import admit, ignore, recognise
from holdfast.replay._native import pack
from holdfast.replay._rules import check_alone
from holdfast.replay._text import fit_id, fit_name, is_blank, is_named, type_name

Words = list[tuple[str, dict[str, Any]]]  # types and data of future events

WORDLESS = "(no words)"  # what other providers read of a message that has content for its own only

_DEPTH_MAX = 60
_REMEDY = "Leave it out, or record the words with s.user(…), s.assistant(…) or s.tool(…)."
# Arguments and results of tools: a None in them is significant.
_FREE = frozenset({"input", "args", "arguments", "response", "tools", "params"})
# A message without marks of its own may be any of these: the first whose rules know all of it.
_KIN = {"neutral": ("anthropic", "openai", "openai-responses", "mistral", "neutral"), "openai": ("openai", "mistral")}
_WORDS = ("message", "function_call", "function_call_output", "reasoning")
_LISTS = {"gemini": "parts", "pydantic-ai": "parts"}
_URL_SAFE = re.compile(r"[A-Za-z0-9_-]+={0,2}\Z")
# Google's library writes bytes in the URL-safe alphabet.
_STANDARD = str.maketrans("-_", "+/")


def tell(given: Any) -> Words:
    """Return the events for a message, a complete answer or a list of messages.

    Takes the messages of the libraries of OpenAI (chat completions and Responses), Anthropic, Google and Mistral, as
    objects or as plain data. Raises InvalidData for anything that could not be given back unchanged.
    """
    value = _plain(given, _DEPTH_MAX)
    words: Words = []
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, dict):
            raise InvalidData(
                f"a {type_name(one)} is not a message of a provider",
                remedy="Record a message, a whole answer, or a list of messages.",
            )
        words += _tell_answer(open_answer(one))
    return words


def _tell_answer(answer: ProviderAnswer) -> Words:
    sayings: list[_Saying] = []
    for message in answer.messages:
        if not isinstance(message, dict):
            raise InvalidData(f"a {type_name(message)} is not a message")
        sayings += _sayings(message)
    words = [saying.words() for saying in _joined(sayings)]
    spoken = [data for type, data in words if type == "assistant"]
    # The usage of an answer must be counted, also if it has no content.
    if answer.about and not spoken:
        words.append(("assistant", {"role": "assistant", "content": ""}))
        spoken = [words[-1][1]]
    if spoken:
        spoken[-1].update(answer.about)
    return words


def _plain(value: Any, depth: int) -> Any:
    """Return plain data for a library's objects, which can dump themselves."""
    if depth <= 0:
        raise InvalidData("the message is nested too deeply")
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise InvalidData(f"a {type_name(name)} names a member: names are texts")
        return {name: _plain(item, depth - 1) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth - 1) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    return _plain(_dumped(value), depth - 1)


def _dumped(value: Any) -> Any:
    for name, options in _DUMPS:
        method = getattr(type(value), name, None)
        if not callable(method):
            continue
        try:
            try:
                return method(value, **options)
            except TypeError:
                return method(value)
        except Exception as error:
            raise InvalidData(f"a {type_name(value)} could not be made plain data: {error!s:.200}") from error
    raise InvalidData(
        f"a {type_name(value)} is not a message of a provider",
        remedy="Record the message as plain data, or with the framework's own adapter.",
    )


_DUMPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("to_dict", {"mode": "json", "warnings": False}),
    ("model_dump", {"mode": "json", "by_alias": True, "exclude_none": True, "warnings": False}),
    ("to_json_dict", {}),
    ("dict", {}),
)


def _understand(message: Message) -> tuple[Dialect, Message]:
    """Return the dialect of a message, and the message in its form. Raises InvalidData for unknown forms."""
    found = recognise(message).name
    unknown = ""
    for name in _KIN.get(found, (found,)):
        fitted = _canonical(message, name)
        rules = check_alone([fitted], name)
        if not rules.unknown:
            return DIALECTS[name], fitted
        unknown = unknown or rules.unknown[0]
    raise InvalidData(f"the message cannot be recorded: {unknown}", remedy=_REMEDY)


def _canonical(message: Message, provider: str) -> Message:
    """Return a message without members that are None, and with its library's defaults."""
    # Only the provider knows the members of other items.
    if provider == "openai-responses" and message.get("type", "message") not in _WORDS:
        return message
    bytes_in = _BYTES if provider == "gemini" else ()
    message = {name: _without_none(one, bytes_in) for name, one in message.items() if one is not None}
    if provider == "gemini":
        return {"role": "user"} | message
    if provider == "openai" and message.get("annotations") == []:
        del message["annotations"]
    return message


def _without_none(value: Any, translated: Collection[str] = ()) -> Any:
    """Return a value without members that are None; bytes, by name, in the standard alphabet."""
    if isinstance(value, list):
        return [_without_none(item, translated) for item in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, item in value.items():
        if name in translated and isinstance(item, str) and _URL_SAFE.match(item):
            found[name] = item.translate(_STANDARD)
        elif item is not None:
            found[name] = item if name in _FREE else _without_none(item, translated)
    return found


_BYTES = frozenset({"thoughtSignature", "thought_signature", "data"})


class _Saying(NamedTuple):
    """The content of one side in a message or a part of one, and that part."""

    side: str
    dialect: Dialect
    blocks: list[Block]
    native: list[Message]

    def words(self) -> tuple[str, dict[str, Any]]:
        """Return the type and data of its event."""
        if self.side == "tool":
            (block,) = self.blocks
            data = {"toolCallId": block["tool_use_id"], "result": block["content"]}
            if block.get("is_error"):
                data["is_error"] = True
            is_same = self._is_same("user", self.blocks)
            return "tool_result", data if is_same else data | {"native": pack(self.native, block["content"])}
        said: Any
        if self.side == "system":
            said = "\n\n".join(block["text"] for block in self.blocks)
            is_same = self.native == [{"role": "system", "content": said}]
        else:
            # Others read it in an order that all accept: calls last, and no thinking at the end. The message itself is
            # kept unchanged.
            said = sorted(self.blocks, key=lambda block: block["type"] == "tool_use")
            end = len(said)
            while end and is_thought(said[end - 1]):
                end -= 1
            said = said[end:] + said[:end]
            is_same = bool(said) and self._is_same(self.side, said)
            if not said or (len(said) == 1 and bare_text(said[0])):
                said = said[0]["text"] if said else ""
        native = [] if is_same else pack(self.native, said)
        return self.side, {"role": self.side, "content": said, "native": native}

    def _is_same(self, side: str, blocks: list[Block]) -> bool:
        """Return whether our own form of it is the very message."""
        fitted = [block.copy() for block in blocks]
        for block in fitted:
            if block["type"] == "tool_use":
                block |= {"id": fit_id(block["id"]), "name": fit_name(block["name"])}
            elif block["type"] == "tool_result":
                block["tool_use_id"] = fit_id(block["tool_use_id"])
        return [_without_none(one) for one in self.dialect.write(side, fitted, [])] == self.native


def _sayings(message: Message) -> list[_Saying]:
    """Return the content of a message in parts: each result, and what is between results."""
    dialect, message = _understand(message)
    member = _LISTS.get(dialect.name, "content")
    items = message.get(member)
    if message.get("role") in ("tool", "function") or message.get("type", "message") != "message":
        return [_whole(dialect, message)]
    if not isinstance(items, list):
        optional = message.get("role") in ("assistant", "model")
        if (items is None and not optional) or not isinstance(items, (str, type(None))):
            raise _unreadable(member, items)
        calls = message.get("tool_calls")
        if calls is not None and not isinstance(calls, list):
            raise _unreadable("tool_calls", calls)
        return [_whole(dialect, message)]
    numbers: Counter[str] = Counter()
    sayings: list[_Saying] = []
    for at, item in enumerate(items):
        part = {**message, member: [item]}
        pairs = list(_pairs(dialect, part, numbers))
        if not pairs and not _says_nothing(item):
            raise _unreadable(f"{member}[{at}]", item)
        said = [_Saying(side, dialect, [block], [part]) for side, block in pairs]
        sayings += said or [_Saying("", dialect, [], [part])]
    rest = {name: one for name, one in message.items() if name != member}
    extra = list(_pairs(dialect, rest | ({member: []} if member == "parts" else {}), numbers))
    return _gathered(dialect, message, member, sayings, extra)


def _gathered(dialect: Dialect, message: Message, member: str, parts: list[_Saying], extra: list[Any]) -> list[_Saying]:
    """Return the parts of a message by side: all of an assistant's are one, results are by themselves."""
    own = str(message.get("role") or message.get("kind"))
    own = {"model": "assistant", "response": "assistant", "developer": "system", "request": "user"}.get(own, own)
    sides = {part.side for part in parts} | {side for side, _ in extra}
    if not sides <= _MAY_STAND.get(own, {own, ""}):
        wrong = ", ".join(sorted(sides - _MAY_STAND.get(own, {own})))
        raise InvalidData(
            f"a message of the {own} holds what the {wrong} side says",
            remedy="Record calls in the assistant's message and results in the user's.",
        )
    if "tool" not in sides:
        blocks = [block for part in parts for block in part.blocks]
        systems = [part for part in parts if part.side == "system" != own]
        if systems:
            blocks = [block for part in parts if part.side != "system" for block in part.blocks]
        blocks += [block for _, block in extra]
        saying = _Saying(own, dialect, _audible(dialect, message, blocks), [message])
        return [*(one._replace(native=[]) for one in systems), saying]
    gathered: list[_Saying] = []
    for part in parts:
        side = part.side or "user"
        if gathered and side == "user" == gathered[-1].side:
            last = gathered.pop()
            items = [item for one in (last, part) for item in one.native[0][member]]
            whole = {**message, member: items}
            part = _Saying(side, dialect, last.blocks + part.blocks, [whole])  # noqa: PLW2901
        gathered.append(part._replace(side=side))
    return gathered


_MAY_STAND = {"user": {"user", "tool", "system", ""}, "system": {"system", ""}}


def _whole(dialect: Dialect, message: Message) -> _Saying:
    """Return a message that is a single part."""
    pairs = list(_pairs(dialect, message, Counter()))
    side = pairs[0][0] if pairs else str(message.get("role") or "system")
    blocks = [block for _, block in pairs]
    if side in ("assistant", "user"):
        blocks = _audible(dialect, message, blocks)
    return _Saying("system" if side == "developer" else side, dialect, blocks, [message])


def _audible(dialect: Dialect, message: Message, blocks: list[Block]) -> list[Block]:
    """Return the blocks, and words for others if there are none though the provider accepts the message."""
    silent = all(map(is_soft, blocks)) and message.get("type") != "reasoning"
    if silent and not is_paused(blocks) and not check_alone([message], dialect.name).errors:
        return [*blocks, text_block(WORDLESS)]
    return blocks


def _pairs(dialect: Dialect, message: Message, numbers: Counter[str]) -> Iterator[tuple[str, Block]]:
    """Return sides and blocks of a message; the side of a result is "tool"."""
    for side, block in dialect.read(message, ignore):
        pair = admit(side, block, ignore)
        if pair is None:
            raise _unreadable(f"a {block['type']} of the {side}", block)
        side, block = pair  # noqa: PLW2901 - where it may stand
        # A form without ids pairs by names: several calls of one tool are distinguished by their order.
        for name in ("id", "tool_use_id"):
            if block["type"] in ("tool_use", "tool_result") and name in block:
                if not block[name]:
                    raise InvalidData(f"a {block['type']} has no id", remedy="Give it its id.")
                if is_named(block[name]):
                    numbers[block[name]] += 1
                    count = numbers[block[name]]
                    block[name] = block[name] if count == 1 else f"{block[name]}-{count}"
        yield ("tool" if block["type"] == "tool_result" else side), block


def _unreadable(where: str, value: Any) -> InvalidData:
    what = f"{where} is a {type_name(value)} that says nothing"
    return InvalidData(f"the message cannot be recorded: {what}", remedy=_REMEDY)


def _says_nothing(item: Any) -> bool:
    """Return whether a part holds only blank texts."""
    if not isinstance(item, dict):
        return False
    kinds = {"type", "part_kind", "signature", "thought", "thoughtSignature", "thought_signature"}
    values = [value for name, value in item.items() if name not in kinds]
    return all(isinstance(value, str) and is_blank(value) for value in values)


def _joined(sayings: list[_Saying]) -> list[_Saying]:
    """Join the parts of one answer: several items of the assistant are one event."""
    joined: list[_Saying] = []
    for saying in sayings:
        if joined and saying.side == joined[-1].side == "assistant":
            last, silence = joined.pop(), text_block(WORDLESS)
            blocks = [block for block in last.blocks + saying.blocks if block != silence] or [silence]
            saying = saying._replace(blocks=blocks, native=last.native + saying.native)  # noqa: PLW2901
        joined.append(saying)
    return joined
