"""``holdfast schema``: what the JSON of a command looks like, for programs that read it."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import click
import msgspec

from holdfast.apps.acp.doctor import Examination
from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import suggestion
from holdfast.apps.cli._options import store_option
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.catalog import Reindexed, Stats, Timeline
from holdfast.errors import NotFound
from holdfast.library import (
    Copied,
    Erased,
    ImportedSession,
    Installed,
    RedactionReport,
    Resealed,
)
from holdfast.library.answers import care, events, failures, sessions, store, turns
from holdfast.replay import Comparison

__all__ = ["DOCUMENTS", "command", "schema_of"]

# By name: what prints it, and the struct that is printed.
DOCUMENTS: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "list": ("holdfast list --json", sessions.SessionPage),
    "list-watch": ("holdfast list --watch --json, each line", sessions.SessionChange),
    "list-trash": ("holdfast list --trash --json", sessions.TrashPage),
    "search": ("holdfast search --json", events.SearchAnswer),
    "show": ("holdfast show --json", events.SessionDocument),
    "show-event": ("holdfast show --events --json, each line", events.EventRecord),
    "show-state": ("holdfast show --state", events.SessionState),
    "recover": (
        "holdfast recover --json, holdfast show --messages --json",
        events.RecoveredMessages,
    ),
    "stats": ("holdfast stats --json", Stats),
    "stats-session": ("holdfast stats --session ID --json", Timeline),
    "snapshots": ("holdfast snapshots --json", events.SessionSnapshots),
    "import": ("holdfast import --json", care.ImportedSessions),
    "import-watch": ("holdfast import --watch --json, each line", ImportedSession),
    "export-install": ("holdfast export --install --json", Installed),
    "fork": ("holdfast fork --json, holdfast restore --json", sessions.SessionForked),
    "compare": ("holdfast compare --json", Comparison),
    "merge": ("holdfast merge --json", sessions.SessionMerged),
    "title": ("holdfast title --json", sessions.SessionTitle),
    "tag": ("holdfast tag --json", sessions.SessionTags),
    "tag-why": ("holdfast tag --why --json", sessions.SessionTopics),
    "tag-suggest": ("holdfast tag --suggest --json", sessions.TagSuggestion),
    "verify": ("holdfast verify --json", care.VerifyReports),
    "repair": ("holdfast repair --json", care.RepairedSession),
    "repair-agent": ("holdfast repair --agent AGENT --json", care.RepairedAgent),
    "redact": ("holdfast redact --json", RedactionReport),
    "copy": ("holdfast copy --json", Copied),
    "encrypt": (
        "holdfast encrypt --json, holdfast decrypt --json, holdfast rotate --json",
        Resealed,
    ),
    "keys": ("holdfast keys --json", care.KeyList),
    "keys-check": ("holdfast keys check --json", care.KeyCheck),
    "keys-new": ("holdfast keys new --json, holdfast keys public --json", care.KeyMade),
    "erase": ("holdfast erase --json", Erased),
    "prune": ("holdfast prune --json", care.Pruned),
    "config": ("holdfast config show --json", store.SettingList),
    "config-check": ("holdfast config check --json", store.SettingCheck),
    "config-path": ("holdfast config path --json", store.ConfigFiles),
    "reindex": ("holdfast reindex --json", Reindexed),
    "doctor": ("holdfast doctor --json", store.DoctorAnswer),
    "metrics": ("holdfast metrics --json", store.MetricList),
    "serve-token": ("holdfast serve token create --json", store.TokenMade),
    "serve-tokens": ("holdfast serve token list --json", store.TokenList),
    "serve-spaces": ("holdfast serve space list --json", store.SpaceList),
    "run": ("holdfast run --json", turns.RunAnswer),
    "acp-prompt": ("holdfast acp prompt --json", turns.AcpAnswer),
    "acp-doctor": ("holdfast acp doctor --json", Examination),
    "acp-install": ("holdfast acp install --json", turns.AcpInstalled),
    "error": ("any command with --json, on standard error, if it fails", failures.ErrorLine),
    "warning": ("any command with --json, on standard error", failures.WarningLine),
}
_COLUMNS = (Column("NAME"), Column("PRINTED BY", flexible=True))


def _complete(_ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in sorted(DOCUMENTS) if name.startswith(incomplete)]


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
        text = json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n"
        app.out.sink(is_json=True).write(text.encode())
        return
    rows: list[list[Piece]] = [
        [Span(one, "name"), printed_by] for one, (printed_by, _) in sorted(DOCUMENTS.items())
    ]
    app.out.table(_COLUMNS, rows)


def schema_of(name: str) -> dict[str, Any]:
    """Return the schema of that name. Raises NotFound, with the nearest name."""
    if name not in DOCUMENTS:
        raise NotFound(
            f"there is no schema {name[:60]!a}{suggestion(name, DOCUMENTS)}",
            remedy="`holdfast schema` lists them.",
        )
    printed_by, shape = DOCUMENTS[name]
    (root,), parts = msgspec.json.schema_components([shape], ref_template="#/$defs/{name}")
    kinds = {kind.__name__: kind for kind in _kinds(msgspec.inspect.type_info(shape), set())}
    for part, found in parts.items():
        if part in kinds and "properties" in found:
            _describe(found, kinds[part])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        "description": f"Printed by: {printed_by}",
        **root,
        "$defs": dict(sorted(parts.items())),
    }


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


def _describe(found: dict[str, Any], kind: Any) -> None:
    """Say which members are always there and what they mean, and nothing of defaults."""
    members = found["properties"]
    found.pop("title", None)
    meanings = _meanings(kind)
    for name, member in members.items():
        member.pop("default", None)
        if name in meanings:
            member["description"] = meanings[name]
    # What we print has every member, with a default or without, unless the struct leaves it out.
    config = getattr(kind, "__struct_config__", None)  # a dataclass has none
    if config is None or not config.omit_defaults:
        found["required"] = list(members)


def _meanings(kind: type) -> dict[str, str]:
    """Return what the source says about each member, in the string below it."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__[:-1]):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(one)))
        except (OSError, TypeError):  # a class without a source: msgspec's own
            continue
        for member, after in pairwise(getattr(tree.body[0], "body", ())):
            match member, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(said))):
                    found[name] = " ".join(said.split()).replace("``", "`").replace("None", "null")
    return found
