"""The output of a run, if not a text: a value of a type, given by a call that ends the run."""

from __future__ import annotations

import inspect
import types
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Union, get_args, get_origin  # noqa: TID251 - to know one that was given, and to make one of values

import msgspec

from holdfast.agent._context import ToolContext, plain_result
from holdfast.agent._result import blocks_of
from holdfast.agent._tools import Tool, fault_of
from holdfast.errors import UsageError

NAME = "final_result"
TRIES_MAX = 3
"""The number of answers without a valid value after which a run fails."""
_WRAPPED = "response"
_ABOUT = "Give the final answer. The work ends with it."


@dataclass(frozen=True, kw_only=True)
class _Way:
    """One call that gives a value. ``read`` makes the value from the call and its result. Raises ValueError."""

    tool: Tool
    read: Callable[[dict[str, Any], str], tuple[Any, str]]
    """Returns the value, and the same as JSON, for people and for the next request."""


@dataclass(frozen=True, kw_only=True)
class OutputForm:
    """The form of a run's output: the calls by which the model gives it, or the text that it may be."""

    ways: dict[str, _Way]
    allows_text: bool
    of_text: Callable[[ToolContext, str], Awaitable[Any]] | None = None
    """Makes the value from the text, if a function is given for it. Raises what that raises."""

    @property
    def tools(self) -> list[Tool]:
        """The tools that the model calls to give a value."""
        return [way.tool for way in self.ways.values()]

    @property
    def wish(self) -> str:
        """The prompt for a model that answered with text only."""
        return f"(give the answer by calling {' or '.join(self.ways)})"

    def find(self, messages: list[dict[str, Any]]) -> tuple[Any, str] | None:
        """Return the value that a conversation ends with, and its JSON; None if it does not end with one.

        It is read from the log, not remembered: a process that died after the call gives it to the next one.
        """
        tail = messages[-3:]
        if tail and tail[-1]["role"] == "assistant" and len(tail) > 1 and _is_text(tail[-1]):
            tail = tail[:-1]
        if len(tail) < 2:
            return None
        calls, results = blocks_of(tail[-2]), blocks_of(tail[-1])
        # A message since then asks for another answer.
        if any(block["type"] != "tool_result" for block in results):
            return None
        done = {block["tool_use_id"]: block["content"] for block in results if not block.get("is_error")}
        for block in calls:
            if block["type"] == "tool_use" and block["name"] in self.ways and block["id"] in done:
                return self.ways[block["name"]].read(block["input"], str(done[block["id"]]))
        return None


@dataclass(frozen=True, kw_only=True)
class _Member:
    """One alternative of an output: a type, or a function whose result it is."""

    form: Any
    name: str | None = None
    about: str | None = None
    is_of_text: bool = False
    is_call: bool = False
    """True if the value was given in a call of its own."""

    @property
    def is_function(self) -> bool:
        return inspect.isfunction(self.form) or inspect.ismethod(self.form)


def output_of(output_type: Any) -> OutputForm | None:
    """Return the form of an output; None for a text. Raises UsageError if it is neither a type nor a function."""
    members = list(_members(output_type))
    if not members:
        raise UsageError("output_type names no type", remedy="Give a type, or a list of types.")
    of_text = [each for each in members if each.is_of_text]
    if len(of_text) > 1:
        raise UsageError("output_type has two functions for words", remedy="Give one TextOutput.")
    wanted = [each for each in members if not each.is_of_text and (each.form is not str or each.is_call)]
    allows_text = len(wanted) < len(members)
    if not wanted and not of_text:
        return None
    # Types share one call, unless they were given as calls of their own.
    shared = [each for each in wanted if not each.is_call and not each.is_function]
    ways = [_way_of_types(NAME, shared)] if shared else []
    for each in wanted:
        if each not in shared:
            name = each.name or (NAME if len(wanted) == 1 else f"{NAME}_{getattr(each.form, '__name__', '')}")
            ways.append(_way_of_function(name, each) if each.is_function else _way_of_types(name, [each]))
    by_name = {way.tool.name: way for way in ways}
    if len(by_name) < len(ways):
        raise UsageError("output_type has two calls of one name", remedy="Name them: ToolOutput(…, name=…).")
    return OutputForm(
        ways=by_name, allows_text=allows_text, of_text=_reader_of_text(of_text[0].form) if of_text else None
    )


def _members(given: Any) -> Iterator[_Member]:
    """Yield the alternatives of the output."""
    kind = type(given).__name__
    if kind == "ToolOutput":
        found = list(_members(given.output))
        # A named union is one call.
        form = found[0].form if len(found) == 1 else given.output
        yield _Member(form=form, name=given.name, about=given.description, is_call=True)
    # The mode of asking is up to us: the wanted type is the same.
    elif kind in ("NativeOutput", "PromptedOutput"):
        for each in _members(given.outputs):
            yield replace(each, about=each.about or given.description)
    elif kind == "TextOutput":
        yield _Member(form=given.output_function, is_of_text=True)
    elif isinstance(given, (list, tuple)):
        for each in given:
            yield from _members(each)
    elif get_origin(given) in (Union, types.UnionType):
        for each in get_args(given):
            yield _Member(form=each)
    else:
        yield _Member(form=given)


def _way_of_types(name: str, members: list[_Member]) -> _Way:
    """Return the call whose arguments are the value."""
    adapter, wraps = _as_arguments(Union[tuple(each.form for each in members)])  # noqa: UP007 - made of values

    def read(args: dict[str, Any], _result: str = "") -> tuple[Any, str]:
        found = adapter.validate_json(msgspec.json.encode(args))
        dumped = adapter.dump_json(found)
        if wraps:
            return found.response, msgspec.json.encode(msgspec.json.decode(dumped)[_WRAPPED]).decode()
        return found, dumped.decode()

    def accept(**args: Any) -> str:
        try:
            read(args)
        except ValueError as error:
            raise UsageError(f"this does not fit: {fault_of(error)}", remedy="Call it again, corrected.") from error
        return "taken"

    about = next((each.about for each in members if each.about), _ABOUT)
    # Reading a value is harmless: it is repeated after a crash.
    tool = Tool(accept, name=name, description=about, schema=adapter.json_schema(), read_only=True)
    return _Way(tool=tool, read=read)


class _Giver(Tool):
    """A function whose result is the output: recorded as JSON, from which every process makes the same value."""

    write: Callable[[Any], str]

    async def call(self, context: ToolContext, args: dict[str, Any]) -> Any:
        return self.write(await super().call(context, args))


def _way_of_function(name: str, member: _Member) -> _Way:
    """Return the call of a function, made like that of any tool: one of unknown outcome is not repeated."""
    tool = _Giver(member.form, name=name, description=member.about)
    adapter = _adapter(tool.returns)

    def write(value: Any) -> str:
        try:
            text = str(adapter.dump_json(value, warnings="error").decode())
        except ValueError:  # it has no form in JSON; then its text is the value
            text = msgspec.json.encode(plain_result(value)).decode()
        adapter.validate_json(text)
        return text

    tool.write = write
    tool.describe()
    return _Way(tool=tool, read=lambda _args, result: (adapter.validate_json(result), result))


def _reader_of_text(function: Callable[..., Any]) -> Callable[[ToolContext, str], Awaitable[Any]]:
    tool = Tool(function, name="text")
    names = list(tool.schema["properties"])
    if len(names) != 1:
        raise UsageError("the function of a TextOutput takes the words, and nothing else")
    return lambda context, text: tool.call(context, {names[0]: text})


def _adapter(wanted: Any) -> Any:
    """Return the validator for values of a type. Raises UsageError."""
    try:
        from pydantic import TypeAdapter
    except ModuleNotFoundError as error:
        raise UsageError(
            f"output_type needs the package {error.name}, which is not installed",
            remedy="Install it with: pip install 'holdfast[agent]'",
        ) from error
    try:
        adapter: Any = TypeAdapter(wanted)
        adapter.json_schema()
    except Exception as error:
        raise UsageError(f"output_type {wanted!r:.60} is no type that can be checked: {error}") from error
    return adapter


def _as_arguments(wanted: Any) -> tuple[Any, bool]:
    """Return the validator of a type as arguments of a call, and whether the value is wrapped in a member of these."""
    adapter = _adapter(wanted)
    if adapter.json_schema().get("type") == "object":
        return adapter, False
    from pydantic import create_model

    members: Any = {_WRAPPED: (wanted, ...)}
    return _adapter(create_model(NAME, **members)), True


def _is_text(message: dict[str, Any]) -> bool:
    return all(block["type"] == "text" for block in blocks_of(message))
