"""JSON schemas of answers, derived from their structs on demand."""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

Schema = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
REFERENCE = "#/$defs/{name}"


def schemas_of(
    shapes: Sequence[type[msgspec.Struct]], *, defaults: bool = False
) -> tuple[list[Schema], dict[str, Schema]]:
    """Return a reference for each shape, and the schemas of all their parts, by name.

    The description of a member is the string below it in the source. Our output has every member, with a default
    or without, unless its struct leaves defaults out; ``defaults`` also gives their values, for input from others.
    """
    roots, parts = msgspec.json.schema_components(shapes, ref_template=REFERENCE)
    seen: set[type] = set()
    kinds = {kind.__name__: kind for shape in shapes for kind in _kinds(msgspec.inspect.type_info(shape), seen)}
    for part, found in parts.items():
        if part in kinds and "properties" in found:
            members, kind = found["properties"], kinds[part]
            found.pop("title", None)
            for name, meaning in _meanings(kind).items():
                if name in members:
                    members[name]["description"] = meaning
            for member in () if defaults else members.values():
                member.pop("default", None)
            config = getattr(kind, "__struct_config__", None)  # a dataclass has none
            if config is None or not config.omit_defaults:
                found["required"] = list(members)
    return list(roots), parts


def _kinds(shape: Any, seen: set[type]) -> Iterator[type]:
    """Yield every class that a shape is made of."""
    if isinstance(shape, tuple):
        for part in shape:
            yield from _kinds(part, seen)
    elif isinstance(shape, msgspec.inspect.Type | msgspec.inspect.Field):
        kind = getattr(shape, "cls", None)
        if kind in seen:
            return
        if kind is not None:
            seen.add(kind)
            yield kind
        for member in shape.__struct_fields__:
            yield from _kinds(getattr(shape, member), seen)


def _meanings(kind: type) -> dict[str, str]:
    """Return the descriptions of members: the strings below them in the source."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__[:-1]):
        for member, after in pairwise(_body_of(one)):
            match member, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(said))):
                    found[name] = " ".join(said.split()).replace("``", "`").replace("None", "null")
    return found


def _body_of(kind: type) -> Sequence[ast.stmt]:
    """Return the statements of a class of a module; none of one without a source, such as msgspec's own."""
    # By its text alone: `inspect.getsource` parses the whole module for each class of it.
    module = vars(sys.modules[kind.__module__])
    source = "".join(linecache.getlines(module.get("__file__") or "", module))
    found = re.search(rf"^class {kind.__name__}\b.*(?:\n(?![^\s)]).*)*", source, re.MULTILINE)
    parsed = None if found is None else ast.parse(found[0]).body[0]
    return parsed.body if isinstance(parsed, ast.ClassDef) else ()
