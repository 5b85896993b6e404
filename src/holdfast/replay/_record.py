"""A message as a provider's library gives or takes it, as the events that say the same."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple

from holdfast.errors import InvalidData
from holdfast.replay._blocks import Block, is_paused, is_soft, is_thought, text_block
from holdfast.replay._dialects import DIALECTS, Dialect, Message
from holdfast.replay._dialects._answer import ProviderAnswer, open_answer
from holdfast.replay._dialects._form import bare_text
from holdfast.replay._messages import admit, ignore, recognise
from holdfast.replay._native import pack
from holdfast.replay._rules import check_alone
from holdfast.replay._text import fit_id, fit_name, is_blank, is_named, type_name

Words = list[tuple[str, dict[str, Any]]]
"""Types and data of events to be."""

WORDLESS = "(no words)"
"""What other providers read of a message that says nothing to anybody but its own."""

_DEPTH_MAX = 60
_REMEDY = "Leave it out, or record the words with s.user(…), s.assistant(…) or s.tool(…)."
# What tools are given and give back: a None in there means something.
_FREE = frozenset({"input", "args", "arguments", "response", "tools", "params"})
# A message without marks of its own may be any of these: the first whose rules know all of it.
_KIN = {"neutral": ("anthropic", "openai", "openai-responses", "mistral", "neutral"), "openai": ("openai", "mistral")}
_LISTS = {"gemini": "parts", "pydantic-ai": "parts"}
_URL_SAFE = re.compile(r"[A-Za-z0-9_-]+={0,2}\Z")
# Google's library writes bytes in the alphabet for addresses.
_STANDARD = str.maketrans("-_", "+/")


def tell(given: Any) -> Words:
    """The events that say what a message, a whole answer or a list of messages says.

    Takes what the libraries of OpenAI (chat completions and Responses), Anthropic, Google and
    Mistral give, as objects or as plain data. Raises InvalidData for anything that would not come
    back as it is.
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
    words: Words = []
    for saying in _joined(sayings):
        words += saying.words()
    spoken = [data for type, data in words if type == "assistant"]
    # What an answer used must be counted, also where it says nothing.
    if answer.about and not spoken:
        words.append(("assistant", {"role": "assistant", "content": ""}))
        spoken = [words[-1][1]]
    if spoken:
        spoken[-1].update(answer.about)
    return words


# --- from objects to plain data


def _plain(value: Any, depth: int) -> Any:
    """Plain data for what a library gives: its objects tell themselves as such."""
    if depth <= 0:
        raise InvalidData("the message is nested too deeply")
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, dict):
        return {_name(name): _plain(item, depth - 1) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth - 1) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    return _plain(_dumped(value), depth - 1)


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise InvalidData(f"a {type_name(name)} names a member: names are texts")
    return name


def _dumped(value: Any) -> Any:
    for name, options in _DUMPS:
        method = getattr(type(value), name, None)
        if callable(method):
            return _call(method, value, options)
    raise InvalidData(
        f"a {type_name(value)} is not a message of a provider",
        remedy="Record the message as plain data, or with the framework's own adapter.",
    )


def _call(method: Callable[..., Any], value: Any, options: dict[str, Any]) -> Any:
    try:
        try:
            return method(value, **options)
        except TypeError:
            return method(value)
    except Exception as error:
        name = type_name(value)
        raise InvalidData(f"a {name} could not be made plain data: {error!s:.200}") from error


_DUMPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("to_dict", {"mode": "json", "warnings": False}),
    ("model_dump", {"mode": "json", "by_alias": True, "exclude_none": True, "warnings": False}),
    ("to_json_dict", {}),
    ("dict", {}),
)


# --- which message it is


def _understand(message: Message) -> tuple[Dialect, Message]:
    """The dialect of a message, and the message as that dialect has it.

    Raises InvalidData for a role, a part or a member that nobody knows.
    """
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
    """A message without members that are None, and with what its library would fill in."""
    if provider == "openai-responses" and _is_verbatim(message):
        return message
    message = {name: _without_none(one) for name, one in message.items() if one is not None}
    if provider == "gemini":
        return {"role": "user"} | {name: _encoded(one) for name, one in message.items()}
    if provider == "openai" and message.get("annotations") == []:
        del message["annotations"]
    return message


def _is_verbatim(message: Message) -> bool:
    """Whether an item is one whose members only its provider knows."""
    words = ("message", "function_call", "function_call_output", "reasoning")
    return message.get("type", "message") not in words


def _without_none(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: item if name in _FREE else _without_none(item) for name, item in value.items() if item is not None}


def _encoded(value: Any) -> Any:
    """Gemini's bytes in the alphabet that everybody reads."""
    if isinstance(value, list):
        return [_encoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: item.translate(_STANDARD)
        if name in _BYTES and isinstance(item, str) and _URL_SAFE.match(item)
        else item
        if name in _FREE
        else _encoded(item)
        for name, item in value.items()
    }


_BYTES = frozenset({"thoughtSignature", "thought_signature", "data"})


# --- what it says


class _Saying(NamedTuple):
    """What one side says in a message or in a part of one, and that part."""

    side: str
    dialect: Dialect
    blocks: list[Block]
    native: list[Message]

    def words(self) -> Words:
        """The events that say it."""
        if self.side == "system":
            texts = [block["text"] for block in self.blocks]
            said: Any = "\n\n".join(texts)
            same = self.native == [{"role": "system", "content": said}]
            return [("system", {"role": "system", "content": said, **self._native(said, same)})]
        if self.side == "tool":
            return [self._result(self.blocks[0])]
        # What others read is in an order that all can take; the message itself is kept as it was.
        blocks = _ordered(self.blocks)
        said = blocks
        if not blocks or (len(blocks) == 1 and bare_text(blocks[0])):
            said = blocks[0]["text"] if blocks else ""
        same = bool(blocks) and self._is_same(self.side, blocks)
        return [(self.side, {"role": self.side, "content": said, **self._native(said, same)})]

    def _result(self, block: Block) -> tuple[str, dict[str, Any]]:
        said = block["content"]
        data = {"toolCallId": block["tool_use_id"], "result": said}
        if block.get("is_error"):
            data["is_error"] = True
        same = self._is_same("user", [block])
        return "tool_result", data if same else data | self._native(said, same)

    def _native(self, said: Any, same: bool) -> dict[str, Any]:  # noqa: FBT001 - of this class only
        return {"native": [] if same else pack(self.native, said)}

    def _is_same(self, side: str, blocks: list[Block]) -> bool:
        """Whether our own form of it is the very message."""
        written = self.dialect.write(side, [_fitted(block) for block in blocks], [])
        return [_without_none(one) for one in written] == self.native


def _ordered(blocks: list[Block]) -> list[Block]:
    """The blocks as all can take them: calls last, and no thought at the end."""
    # The sort keeps the order of equals.
    ordered = sorted(blocks, key=lambda block: block["type"] == "tool_use")
    end = len(ordered)
    while end and is_thought(ordered[end - 1]):
        end -= 1
    return ordered[end:] + ordered[:end]


def _fitted(block: Block) -> Block:
    if block["type"] == "tool_use":
        return block | {"id": fit_id(block["id"]), "name": fit_name(block["name"])}
    if block["type"] == "tool_result":
        return block | {"tool_use_id": fit_id(block["tool_use_id"])}
    return block.copy()


def _sayings(message: Message) -> list[_Saying]:
    """What a message says, in parts: each result, and what stands between results."""
    dialect, message = _understand(message)
    member = _LISTS.get(dialect.name, "content")
    items = message.get(member)
    if message.get("role") in ("tool", "function") or message.get("type", "message") != "message":
        return [_whole(dialect, message)]
    if not isinstance(items, list):
        _check_content(message, member)
        return [_whole(dialect, message)]
    numbers = _Numbers()
    sayings: list[_Saying] = []
    for at, item in enumerate(items):
        part = {**message, member: [item]}
        pairs = list(_pairs(dialect, part, numbers))
        if not pairs and not _says_nothing(item):
            raise _unreadable(f"{member}[{at}]", item)
        sayings += [_Saying(side, dialect, [block], [part]) for side, block in pairs] or [
            _Saying("", dialect, [], [part])
        ]
    rest = {name: one for name, one in message.items() if name != member}
    extra = list(_pairs(dialect, rest | ({member: []} if member == "parts" else {}), numbers))
    return _gathered(dialect, message, member, sayings, extra)


def _gathered(dialect: Dialect, message: Message, member: str, parts: list[_Saying], extra: list[Any]) -> list[_Saying]:
    """The parts of a message by side: all of an assistant's are one, results are by themselves."""
    role = {"model": "assistant", "developer": "system", "response": "assistant"}
    own = str(message.get("role") or message.get("kind"))
    own = role.get(own, "user" if own == "request" else own)
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
    """A message that is one thing."""
    pairs = list(_pairs(dialect, message, _Numbers()))
    side = pairs[0][0] if pairs else str(message.get("role") or "system")
    blocks = [block for _, block in pairs]
    if side in ("assistant", "user"):
        blocks = _audible(dialect, message, blocks)
    return _Saying("system" if side == "developer" else side, dialect, blocks, [message])


def _audible(dialect: Dialect, message: Message, blocks: list[Block]) -> list[Block]:
    """The blocks, and words for others if there are none though the provider takes the message."""
    silent = all(map(is_soft, blocks)) and message.get("type") != "reasoning"
    if silent and not is_paused(blocks) and not check_alone([message], dialect.name).errors:
        return [*blocks, text_block(WORDLESS)]
    return blocks


class _Numbers:
    """Tells calls of one message apart that have a name and no id."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def apart(self, identity: str) -> str:
        """The id, or a variation of it for those after the first."""
        count = self._counts[identity] = self._counts.get(identity, 0) + 1
        return identity if count == 1 else f"{identity}-{count}"


def _pairs(dialect: Dialect, message: Message, numbers: _Numbers) -> Iterator[tuple[str, Block]]:
    """Sides and blocks of a message; the side of a result is "tool"."""
    for side, block in dialect.read(message, ignore):
        pair = admit(side, block, ignore)
        if pair is None:
            raise _unreadable(f"a {block['type']} of the {side}", block)
        side, block = pair  # noqa: PLW2901 - where it may stand
        # A form without ids pairs by names: several calls of one tool are told apart by their
        # order.
        for name in ("id", "tool_use_id"):
            if block["type"] in ("tool_use", "tool_result") and name in block:
                if not block[name]:
                    raise InvalidData(f"a {block['type']} has no id", remedy="Give it its id.")
                if is_named(block[name]):
                    block[name] = numbers.apart(block[name])
        yield ("tool" if block["type"] == "tool_result" else side), block


def _check_content(message: Message, member: str) -> None:
    content = message.get(member)
    optional = message.get("role") in ("assistant", "model")
    if (content is None and not optional) or not isinstance(content, (str, type(None))):
        raise _unreadable(member, content)
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise _unreadable("tool_calls", calls)


def _unreadable(where: str, value: Any) -> InvalidData:
    return InvalidData(
        f"the message cannot be recorded: {where} is a {type_name(value)} that says nothing", remedy=_REMEDY
    )


def _says_nothing(item: Any) -> bool:
    """Whether a part holds nothing but blank texts, which nobody has to be told."""
    if not isinstance(item, dict):
        return False
    kinds = {"type", "part_kind", "signature", "thought", "thoughtSignature", "thought_signature"}
    values = [value for name, value in item.items() if name not in kinds]
    return all(isinstance(value, str) and is_blank(value) for value in values)


def _joined(sayings: list[_Saying]) -> list[_Saying]:
    """The sayings of one answer: what the assistant says in several items is one event."""
    joined: list[_Saying] = []
    for saying in sayings:
        last = joined[-1] if joined else None
        if last is not None and saying.side == last.side == "assistant":
            blocks = [block for block in last.blocks + saying.blocks if block != _NO_WORDS]
            both = last.native + saying.native
            joined[-1] = _Saying("assistant", saying.dialect, blocks or [text_block(WORDLESS)], both)
        else:
            joined.append(saying)
    return joined


_NO_WORDS = text_block(WORDLESS)
