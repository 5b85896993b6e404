"""The answers of every operation: the structs that the command, HTTP, MCP and the bridge encode.

An operation whose result is a struct already (`Stats`, `Comparison`, `Erased` …) answers with that.
Members are added, never renamed or removed. Times are Unix milliseconds, unless a struct says
otherwise. Modules are imported where their answers are needed: a program that only records, or
lists for people, loads none of them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # loading `typing` takes longer than this module
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from msgspec import Struct

    A = TypeVar("A", bound=Struct)


def filled(kind: type[A], source: object, **more: Any) -> A:
    """Return an answer with the members of a result that have the same names, and ``more``."""
    names = [name for name in kind.__struct_fields__ if name not in more]
    return kind(**{name: getattr(source, name) for name in names}, **more)


def encoded(answer: Any) -> bytes:
    """Return an answer as JSON. Half a pair of surrogates, as a file's name may have, becomes ?."""
    import msgspec

    try:
        return msgspec.json.encode(answer)
    except UnicodeEncodeError:
        return msgspec.json.encode(whole_characters(msgspec.to_builtins(answer)))


def whole_characters(value: Any) -> Any:
    """Return JSON data without the halves of surrogate pairs, which no encoding takes."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {whole_characters(key): whole_characters(one) for key, one in value.items()}
    return [whole_characters(one) for one in value] if isinstance(value, list | tuple) else value
