"""What a run is to give, if not a text: a value of a type, asked for by a call that ends the run."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin  # noqa: TID251 - to know one that was given, and to make one of values

import msgspec

from holdfast.agent._result import blocks_of
from holdfast.agent._tools import Tool, fault_of
from holdfast.errors import UsageError

NAME = "final_result"
TRIES_MAX = 3
"""How often a model may answer otherwise before the run fails."""
_WRAPPED = "response"
_ABOUT = "Give the final answer. The work ends with it."


@dataclass(frozen=True, kw_only=True)
class OutputForm:
    """The form of what a run gives: the tool that the model calls to give it, and how the value is read and written."""

    tool: Tool
    allows_text: bool
    read: Callable[[dict[str, Any]], Any]
    """The value that a call's arguments stand for. Raises ValueError."""
    write: Callable[[Any], str]
    """The value as JSON, for people and for the next request."""

    @property
    def wish(self) -> str:
        """What a model is told that answered with words only."""
        return f"(give the answer by calling {self.tool.name})"

    def find(self, messages: list[dict[str, Any]]) -> tuple[Any] | None:
        """The value that a conversation ends with, alone in a tuple; None if it does not end with one.

        It is read from the record, not remembered: a process that died after the call gives it to the next one.
        """
        tail = messages[-3:]
        if tail and tail[-1]["role"] == "assistant" and len(tail) > 1 and _is_text(tail[-1]):
            tail = tail[:-1]
        if len(tail) < 2:
            return None
        calls, results = blocks_of(tail[-2]), blocks_of(tail[-1])
        # Whoever said something since then wants another answer.
        if any(block["type"] != "tool_result" for block in results):
            return None
        done = {block["tool_use_id"] for block in results if not block.get("is_error")}
        for block in calls:
            if block["type"] == "tool_use" and block["name"] == self.tool.name and block["id"] in done:
                return (self.read(block["input"]),)
        return None


def output_of(output_type: Any) -> OutputForm | None:
    """Return the form of an output; None for a text. Raises UsageError for what is no type."""
    name, about, members = _members(output_type)
    wanted = [each for each in members if each is not str]
    if not members:
        raise UsageError("output_type names no type", remedy="Give a type, or a list of types.")
    if not wanted:
        return None
    for each in wanted:
        if isinstance(each, (types.FunctionType, types.MethodType)) or type(each).__name__ == "TextOutput":
            raise UsageError(
                f"output_type is a type, not the function {getattr(each, '__name__', each)!r}",
                remedy="Give what it returns as the type, and call the function with the output.",
            )
    adapter, wraps, schema = _adapt(Union[tuple(wanted)])  # noqa: UP007 - made of values

    def read(args: dict[str, Any]) -> Any:
        found = adapter.validate_json(msgspec.json.encode(args))
        return found.response if wraps else found

    def write(value: Any) -> str:
        dumped = adapter.dump_json(adapter.type_.model_construct(response=value) if wraps else value)
        return str((msgspec.json.encode(msgspec.json.decode(dumped)[_WRAPPED]) if wraps else dumped).decode())

    def accept(**args: Any) -> str:
        try:
            read(args)
        except ValueError as error:
            raise UsageError(f"this does not fit: {fault_of(error)}", remedy="Call it again, corrected.") from error
        return "taken"

    # Reading a value does no harm: it is done again after a crash.
    tool = Tool(accept, name=name, description=about, schema=schema, read_only=True)
    return OutputForm(tool=tool, allows_text=str in members, read=read, write=write)


def _members(given: Any) -> tuple[str, str, list[Any]]:
    """The name and the words of the call, and the types of which the output is one."""
    kind = type(given).__name__
    if kind == "ToolOutput":
        return given.name or NAME, given.description or _ABOUT, _members(given.output)[2]
    # How a model is asked is our part: what is wanted is the same.
    if kind in ("NativeOutput", "PromptedOutput"):
        return NAME, given.description or _ABOUT, _members(given.outputs)[2]
    if isinstance(given, (list, tuple)):
        return NAME, _ABOUT, [one for each in given for one in _members(each)[2]]
    if get_origin(given) in (Union, types.UnionType):
        return NAME, _ABOUT, list(get_args(given))
    return NAME, _ABOUT, [given]


def _adapt(wanted: Any) -> tuple[Any, bool, dict[str, Any]]:
    """What checks values of a type, whether they stand in a member of an object, and the schema of that object."""
    try:
        from pydantic import TypeAdapter, create_model
    except ModuleNotFoundError as error:
        raise UsageError(
            f"output_type needs the package {error.name}, which is not installed",
            remedy="Install it with: pip install 'holdfast[agent]'",
        ) from error
    try:
        adapter: Any = TypeAdapter(wanted)
        schema = adapter.json_schema()
        # The arguments of a call are an object.
        if schema.get("type") == "object":
            return adapter, False, schema
        members: Any = {_WRAPPED: (wanted, ...)}
        model = create_model(NAME, **members)
        boxed: Any = TypeAdapter(model)
        boxed.type_ = model
        return boxed, True, boxed.json_schema()
    except Exception as error:
        raise UsageError(f"output_type {wanted!r:.60} is no type that can be checked: {error}") from error


def _is_text(message: dict[str, Any]) -> bool:
    return all(block["type"] == "text" for block in blocks_of(message))
