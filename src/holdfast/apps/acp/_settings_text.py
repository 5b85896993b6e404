"""Editors' settings: JSON with comments and stray commas, changed at one place and nowhere else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.errors import InvalidData

__all__ = ["read_settings", "with_member"]

_REMEDY = "Mend the file, or write the entry by hand: --print shows it."
_SKIPPED = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STRAY_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])')
_SPACE = re.compile(r"\s*")
_decoder = json.JSONDecoder()


class _Member(NamedTuple):
    """Where the value of a member begins and ends."""

    name: str
    start: int
    end: int


def read_settings(text: str) -> dict[str, Any]:
    """What the settings say. Raises InvalidData if they are no object."""
    if not text.strip():
        return {}
    try:
        found = json.loads(_bare(text))
    except ValueError as error:
        raise InvalidData(f"the settings cannot be read: {error}", remedy=_REMEDY) from error
    if not isinstance(found, dict):
        raise InvalidData("the settings are not an object", remedy=_REMEDY)
    return found


def with_member(text: str, path: tuple[str, str], value: dict[str, Any]) -> str:
    """The settings with one member of one object set; all other bytes, comments too, stay.

    Raises InvalidData for settings that cannot be read, or whose shape is another.
    """
    wanted = read_settings(text)
    outer, inner = path
    group = wanted.setdefault(outer, {})
    if not isinstance(group, dict):
        raise InvalidData(f"{outer!r} in the settings is not an object", remedy=_REMEDY)
    group[inner] = value
    changed = _changed(text or "{}\n", outer, inner, value)
    if read_settings(changed) != wanted:
        raise InvalidData("the settings have a shape that cannot be changed safely", remedy=_REMEDY)
    return changed


def _changed(text: str, outer: str, inner: str, value: dict[str, Any]) -> str:
    bare = _bare(text)
    top = bare.index("{")
    groups = [member for member in _members(bare, top) if member.name == outer]
    if not groups:
        body = _indented({inner: value}, 1)
        return _inserted(text, bare, top, f"{json.dumps(outer)}: {body}", 1)
    at = groups[-1].start
    there = [member for member in _members(bare, at) if member.name == inner]
    if there:
        return text[: there[-1].start] + _indented(value, 2) + text[there[-1].end :]
    return _inserted(text, bare, at, f"{json.dumps(inner)}: {_indented(value, 2)}", 2)


def _inserted(text: str, bare: str, brace: int, member: str, depth: int) -> str:
    """The text with a member as the first of the object whose brace is there."""
    rest = _SPACE.match(bare, brace + 1)
    is_empty = rest is not None and bare[rest.end()] == "}"
    tail = f"\n{'  ' * (depth - 1)}" if is_empty else ","
    return f"{text[: brace + 1]}\n{'  ' * depth}{member}{tail}{text[brace + 1 :]}"


def _indented(value: dict[str, Any], depth: int) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + "  " * depth)


def _members(bare: str, brace: int) -> Iterator[_Member]:
    """The members of the object whose brace is there."""
    at = brace + 1
    while True:
        at = _skip(bare, at)
        if bare[at] == "}":
            return
        name, at = _decoder.raw_decode(bare, at)
        start = _skip(bare, _skip(bare, at) + 1)  # after the colon
        _, at = _decoder.raw_decode(bare, start)
        yield _Member(str(name), start, at)
        at = _skip(bare, at)
        at += bare[at] == ","


def _skip(bare: str, at: int) -> int:
    space = _SPACE.match(bare, at)
    return at if space is None else space.end()


def _bare(text: str) -> str:
    """The same without comments and stray commas; every other character is at its place."""
    blank = _SKIPPED.sub(lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]), text)
    return _STRAY_COMMA.sub(lambda m: m[0] if m[0][0] == '"' else " ", blank)
