"""Write the JSON schemas of what the command prints, and the page that describes them.

    python tools/json_schemas.py

The shapes are those of the library's structs, and of what a verb makes of them, in
`json_documents.py`. A test compares what is written here with what is in the package, and every
verb's real output with its schema.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from json_documents import DOCUMENTS

ROOT = Path(__file__).parents[1]
SCHEMAS = ROOT / "src" / "holdfast" / "apps" / "cli" / "schemas"
PAGE = ROOT / "docs" / "reference" / "json-output.md"
MARK = "<!-- From here on written by tools/json_schemas.py. -->"


def schema(name: str) -> dict[str, Any]:
    """The schema of that name."""
    printed_by, shape = DOCUMENTS[name]
    (root,), parts = msgspec.json.schema_components([shape], ref_template="#/$defs/{name}")
    kinds = {kind.__name__: kind for kind in _kinds(shape)}
    for part, found in parts.items():
        _complete(found, kinds.get(part))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        "description": f"Printed by: {printed_by}",
        **root,
        "$defs": dict(sorted(parts.items())),
    }


def _kinds(shape: Any) -> list[Any]:
    """Every class that a shape is made of."""
    found: list[Any] = []

    def look(one: Any) -> None:
        if isinstance(one, msgspec.inspect.Type):
            kind = getattr(one, "cls", None)
            if kind is not None and kind not in found:
                found.append(kind)
            for member in one.__struct_fields__:
                look(getattr(one, member))
        elif isinstance(one, msgspec.inspect.Field):
            look(one.type)
        elif isinstance(one, tuple):
            for part in one:
                look(part)

    look(msgspec.inspect.type_info(shape))
    return found


def _complete(found: dict[str, Any], kind: Any) -> None:
    """Say which members are always there, what they mean, and nothing of defaults."""
    members = found.get("properties")
    if members is None or kind is None:
        return
    found.pop("title", None)
    meanings = _meanings(kind)
    for name, member in members.items():
        member.pop("default", None)
        if name in meanings:
            member["description"] = meanings[name]
    omits = getattr(getattr(kind, "__struct_config__", None), "omit_defaults", False)
    if not omits:
        found["required"] = list(members)


def _meanings(kind: Any) -> dict[str, str]:
    """What the source says about each member, in the string below it."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__[:-1]):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(one)))
        except (OSError, TypeError):
            continue
        body = tree.body[0].body
        for member, after in pairwise(body):
            if (
                isinstance(member, ast.AnnAssign)
                and isinstance(member.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                said = " ".join(str(after.value.value).split())
                found[member.target.id] = said.replace("``", "`").replace("None", "null")
    return found


def page() -> str:
    """What follows the mark on the page: a table for each part, where it comes first."""
    lines: list[str] = []
    home: dict[str, str] = {}
    for name, (printed_by, _) in DOCUMENTS.items():
        document = schema(name)
        lines += ["", f"## {name}", "", _by(printed_by)]
        for part in _in_order(document):
            if part not in home:
                home[part] = name
                lines += _table(part, document["$defs"][part])
            elif home[part] != name:
                lines += ["", f"{part} is described under [{home[part]}](#{home[part]})."]
    return "\n".join(lines) + "\n"


def _by(printed_by: str) -> str:
    """The commands that print it as code, the rest as it stands."""
    commands = [f"`{one}`" if one.startswith("holdfast") else one for one in printed_by.split(", ")]
    return f"Printed by {', '.join(commands)}."


def _in_order(document: dict[str, Any]) -> list[str]:
    """The parts of a document, each after the one that needs it."""
    text, order = json.dumps({"$ref": document.get("$ref")}), []
    while True:
        new = [part for part in document["$defs"] if f'/{part}"' in text and part not in order]
        if not new:
            return order
        order += new
        text += json.dumps([document["$defs"][part] for part in new])


def _table(part: str, found: dict[str, Any]) -> list[str]:
    lines = ["", f"**{part}.** {found.get('description', '')}", "", "| member | is | meaning |"]
    lines.append("|---|---|---|")
    always = set(found.get("required", ()))
    for name, member in found.get("properties", {}).items():
        is_ = _is(member) + ("" if name in always else ", if there is one")
        lines.append(f"| `{name}` | {is_} | {member.get('description', '')} |".replace("  |", " |"))
    return lines


def _is(member: dict[str, Any]) -> str:
    """The type of a member in words."""
    if "anyOf" in member:
        return " or ".join(_is(one) for one in member["anyOf"])
    if "enum" in member:
        return " or ".join(f"`{one}`" for one in member["enum"] if one is not None)
    if "$ref" in member:
        return member["$ref"].rpartition("/")[2]
    kind = member.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"array of {_is(member.get('items', {}))}"
    more = member.get("additionalProperties")
    return f"object of {_is(more)}" if kind == "object" and more else kind


def written() -> dict[Path, str]:
    """Every file with what is to be in it."""
    files = {
        SCHEMAS / f"{name}.json": json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"
        for name in DOCUMENTS
    }
    head = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    return files | {PAGE: f"{head}{MARK}\n{page()}"}


def main() -> None:
    """Write them all."""
    SCHEMAS.mkdir(exist_ok=True)
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
