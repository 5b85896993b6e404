"""``holdfast schema``: what the JSON of a command looks like, for programs that read it."""

from __future__ import annotations

import json
from pkgutil import resolve_name
from typing import Any

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import suggestion
from holdfast.apps.cli._options import verb
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.errors import NotFound

# By name: what prints it, and the struct that is printed, of ``library.answers`` unless another package is named:
# a list of the names loads none of them.
DOCUMENTS: dict[str, tuple[str, str]] = {
    "list": ("holdfast list --json", "sessions:SessionPage"),
    "list-watch": ("holdfast list --watch --json, each line", "sessions:SessionChange"),
    "list-trash": ("holdfast list --trash --json", "sessions:TrashPage"),
    "waiting": ("holdfast waiting --json", "sessions:OpenQuestions"),
    "search": ("holdfast search --json", "search:SearchAnswer"),
    "show": ("holdfast show --json", "events:SessionDocument"),
    "show-event": ("holdfast show --events --json, each line", "events:EventRecord"),
    "show-state": ("holdfast show --state", "events:SessionState"),
    "recover": ("holdfast recover --json, holdfast show --messages --json", "recovery:RecoveredMessages"),
    "stats": ("holdfast stats --json", "holdfast.catalog:Stats"),
    "stats-session": ("holdfast stats --session ID --json", "holdfast.catalog:Timeline"),
    "snapshots": ("holdfast snapshots --json", "events:SessionSnapshots"),
    "import": ("holdfast import --json", "store:ImportedSessions"),
    "import-watch": ("holdfast import --watch --json, each line", "holdfast.library:ImportedSession"),
    "export-install": ("holdfast export --install --json", "holdfast.library:Installed"),
    "fork": ("holdfast fork --json, holdfast restore --json", "sessions:SessionForked"),
    "compare": ("holdfast compare --json", "holdfast.replay:Comparison"),
    "merge": ("holdfast merge --json", "sessions:SessionMerged"),
    "title": ("holdfast title --json", "sessions:SessionTitle"),
    "tag": ("holdfast tag --json", "sessions:SessionTags"),
    "tag-why": ("holdfast tag --why --json", "sessions:SessionTopics"),
    "tag-suggest": ("holdfast tag --suggest --json", "sessions:TagSuggestion"),
    "verify": ("holdfast verify --json", "store:VerifyReports"),
    "repair": ("holdfast repair --json", "store:RepairedSession"),
    "repair-agent": ("holdfast repair --agent AGENT --json", "store:RepairedAgent"),
    "redact": ("holdfast redact --json", "holdfast.library:RedactionReport"),
    "copy": ("holdfast copy --json", "holdfast.library:Copied"),
    "encrypt": (
        "holdfast encrypt --json, holdfast decrypt --json, holdfast rotate --json",
        "holdfast.library:Resealed",
    ),
    "keys": ("holdfast keys --json", "store:KeyList"),
    "keys-check": ("holdfast keys check --json", "store:KeyCheck"),
    "keys-new": ("holdfast keys new --json, holdfast keys public --json", "store:KeyMade"),
    "erase": ("holdfast erase --json", "holdfast.library:Erased"),
    "prune": ("holdfast prune --json", "store:Pruned"),
    "config": ("holdfast config show --json", "store:SettingList"),
    "config-check": ("holdfast config check --json", "store:SettingCheck"),
    "config-path": ("holdfast config path --json", "store:ConfigFiles"),
    "reindex": ("holdfast reindex --json", "holdfast.catalog:Reindexed"),
    "doctor": ("holdfast doctor --json", "store:DoctorAnswer"),
    "metrics": ("holdfast metrics --json", "store:MetricList"),
    "serve-token": ("holdfast serve token create --json", "store:TokenMade"),
    "serve-tokens": ("holdfast serve token list --json", "store:TokenList"),
    "serve-spaces": ("holdfast serve space list --json", "store:SpaceList"),
    "run": ("holdfast run --json", "turns:RunAnswer"),
    "acp-prompt": ("holdfast acp prompt --json", "turns:AcpAnswer"),
    "acp-doctor": ("holdfast acp doctor --json", "holdfast.apps.acp.doctor:Examination"),
    "acp-install": ("holdfast acp install --json", "turns:AcpInstalled"),
    "error": ("any command with --json, on standard error, if it fails", "failures:ErrorLine"),
    "warning": ("any command with --json, on standard error", "failures:WarningLine"),
}
_COLUMNS = (Column("NAME"), Column("PRINTED BY", flexible=True))


def _complete(_ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in sorted(DOCUMENTS) if name.startswith(incomplete)]


@verb("schema")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=_complete)
def schema_verb(app: App, name: str | None) -> None:
    """Print the JSON schema of a command's --json output, or list all schemas.

    Existing members keep their name, type and meaning; new ones may be added.

    Examples:
      holdfast schema                  the names, and what prints each
      holdfast schema list
      holdfast schema error > error.schema.json
    """
    if name is not None:
        text = json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n"
        app.out.sink(is_json=True).write(text.encode())
        return
    rows: list[list[Piece]] = [[Span(one, "name"), printed_by] for one, (printed_by, _) in sorted(DOCUMENTS.items())]
    app.out.table(_COLUMNS, rows)


def schema_of(name: str) -> dict[str, Any]:
    """Return the schema of that name. Raises NotFound, with the nearest name."""
    if name not in DOCUMENTS:
        told = f"there is no schema {name[:60]!a}{suggestion(name, DOCUMENTS)}"
        raise NotFound(told, remedy="`holdfast schema` lists them.")
    from holdfast.library.answers.schema import DRAFT, schemas_of

    printed_by, shape = DOCUMENTS[name]
    place = shape if shape.startswith("holdfast.") else f"holdfast.library.answers.{shape}"
    (root,), parts = schemas_of([resolve_name(place)])
    about = {"$schema": DRAFT, "title": name, "description": f"Printed by: {printed_by}"}
    return {**about, **root, "$defs": dict(sorted(parts.items()))}
