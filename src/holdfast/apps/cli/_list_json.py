"""A list as JSON for programs, as the whole command writes it, without what that loads."""

from __future__ import annotations

from holdfast.catalog._newest import FIELDS, Number

TYPE_CHECKING = False  # loading `typing` would take longer than this module
if TYPE_CHECKING:
    from typing import Any

    from holdfast.catalog._newest import Newest

__all__ = ["document_of"]

_STEP = "  "


def document_of(found: Newest) -> str:
    """The document: the sessions, and the cursor of those that follow."""
    rows = [{name: getattr(row, name) for name in FIELDS} for row in found.rows]
    return _text({"sessions": rows, "next": found.next}, "\n")


def _text(value: Any, line: str) -> str:
    """A value; ``line`` is what a line begins with where it stands."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Number):
        return value.text
    below = line + _STEP
    if isinstance(value, dict):
        parts = [f"{quoted(name)}: {_text(member, below)}" for name, member in value.items()]
        return f"{{{below}{f',{below}'.join(parts)}{line}}}"
    parts = [_text(member, below) for member in value]
    return f"[{below}{f',{below}'.join(parts)}{line}]" if parts else "[]"


def quoted(text: str) -> str:
    """A text in quotes, with escapes for what JSON does not take as it is."""
    try:
        from _json import encode_basestring
    except ImportError:
        from json.encoder import encode_basestring
    return encode_basestring(text)
