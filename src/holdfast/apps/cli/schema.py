"""``holdfast schema``: what the JSON of a command looks like, for programs that read it."""

from __future__ import annotations

from importlib.resources import files

import click
import msgspec

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import suggestion
from holdfast.apps.cli._options import store_option
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.errors import NotFound

__all__ = ["command", "names", "schema_text"]

_COLUMNS = (Column("NAME"), Column("PRINTED BY", flexible=True))


def _complete(_ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in names() if name.startswith(incomplete)]


@click.command(
    "schema",
    short_help="Print the JSON schema of what a command prints.",
    epilog="""\b
Examples:
  holdfast schema                  the names, and what prints each
  holdfast schema list
  holdfast schema error > error.schema.json
""",
)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=_complete)
@store_option
@click.pass_obj
def command(app: App, name: str | None) -> None:
    """Print the JSON schema of what a command prints with --json, or list the schemas.

    Members that a schema has keep their name, type and meaning; new ones may come.
    """
    if name is not None:
        app.out.sink(is_json=True).write(schema_text(name).encode())
        return
    rows: list[list[Piece]] = [[Span(one, "name"), _printed_by(one)] for one in names()]
    app.out.table(_COLUMNS, rows)


def names() -> list[str]:
    """The names of the schemas, sorted."""
    folder = files("holdfast.apps.cli") / "schemas"
    return sorted(one.name.removesuffix(".json") for one in folder.iterdir())


def schema_text(name: str) -> str:
    """The schema of that name. Raises NotFound, with the nearest name."""
    known = names()
    if name not in known:
        raise NotFound(
            f"there is no schema {name[:60]!a}{suggestion(name, known)}",
            remedy="`holdfast schema` lists them.",
        )
    path = files("holdfast.apps.cli") / "schemas" / f"{name}.json"
    return path.read_text(encoding="utf-8")


def _printed_by(name: str) -> str:
    described: str = msgspec.json.decode(schema_text(name))["description"]
    return described.removeprefix("Printed by: ")
