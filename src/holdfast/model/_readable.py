"""Values as people read them at a prompt and in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

_CHARS_MAX = 200


def brief(value: object, chars: int = _CHARS_MAX) -> str:
    """Return the repr of a value, cut if it is long."""
    text = repr(value)
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def told_fields(value: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a struct that differ from their defaults."""
    told = {}
    for field in msgspec.structs.fields(value):
        found = getattr(value, field.name)
        factory = field.default_factory
        usual = field.default if factory is msgspec.NODEFAULT else factory()
        if usual is msgspec.NODEFAULT or found != usual:
            told[field.name] = found
    return told


def struct_repr(self: msgspec.Struct) -> str:
    """Return a report without its default fields; used as the ``__repr__`` of a struct."""
    fields = ", ".join(f"{name}={brief(value)}" for name, value in told_fields(self).items())
    return f"{type(self).__name__}({fields})"


def struct_html(self: msgspec.Struct) -> str:
    """Return a report as a table for a notebook; used as the ``_repr_html_`` of a struct."""
    rows = (
        (name.replace("_", " "), value if isinstance(value, str) else brief(value))
        for name, value in told_fields(self).items()
    )
    return html_table((type(self).__name__, ""), rows)


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in which every text is escaped."""
    from html import escape

    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
