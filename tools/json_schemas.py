"""Write the JSON schemas of what the command prints, and the page that describes them.

    python tools/json_schemas.py

The shapes are those of the library's structs, and of the documents below that a verb makes of
them. A test compares what is written here with what is in the package, and every verb's real output
with its schema.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.apps.acp._doctor import Examination
from holdfast.apps.cli.keys import CheckedKeys, KnownKeys, NewKey
from holdfast.catalog._catalog import Reindexed
from holdfast.catalog._retention import Decision, Spared
from holdfast.catalog._stats_shapes import Stats
from holdfast.catalog._timeline import Timeline
from holdfast.catalog._topics import Topic
from holdfast.library._copy_to import Copied
from holdfast.library._erasing import Erased
from holdfast.library._exporting import Installed
from holdfast.library._import_report import ImportedSession, Skipped
from holdfast.library._redacting import RedactionReport
from holdfast.library._sealing import Resealed
from holdfast.library._trash import Trashed
from holdfast.model import Gap, SessionMetadata
from holdfast.replay import Comparison, Issue, LeftOut, MergeReport, TokenCount
from holdfast.session import Finding

ROOT = Path(__file__).parents[1]
SCHEMAS = ROOT / "src" / "holdfast" / "apps" / "cli" / "schemas"
PAGE = ROOT / "docs" / "reference" / "json-output.md"
MARK = "<!-- From here on written by tools/json_schemas.py. -->"


class HitDocument(Struct):
    """One event in which something was found."""

    session_id: str
    seq: int
    role: str
    """user, assistant, system, thinking, tool_call, tool_result, summary, title or tag."""
    tool: str | None
    """The tool of a call or of a result."""
    snippet: dict[str, Any]
    """`text`, and `marks`: pairs of where what was found begins and ends in it."""
    score: float
    """The higher the better; of no meaning beyond one search."""
    timestamp: int
    title: str | None
    """Of the session."""


class Listed(Struct):
    """The sessions, newest first."""

    sessions: list[SessionMetadata]
    next: str | None
    """For `--after`: the page after this one; null if this is the last."""


class Watched(Struct):
    """One change; one on each line."""

    change: Literal["added", "changed", "removed"]
    session: SessionMetadata


class Searched(Struct):
    """What was found, the best first."""

    query: str
    hits: list[HitDocument]


class EventLine(Struct, omit_defaults=True):
    """One event; with `--events` one on each line."""

    seq: int
    type: str
    timestamp: int
    """Unix milliseconds."""
    data: dict[str, Any]
    """As recorded: docs/reference/events.md has what each type holds."""
    run: str | None = None
    """The run of an agent that it belongs to."""
    key: str | None = None
    """The key by which it is recorded only once."""


class Located(SessionMetadata, frozen=True, kw_only=True):
    """What a list says of a session, and where it is."""

    location: str


class Shown(Struct):
    """A session and its conversation."""

    session: Located
    conversation: list[EventLine]


class StateDocument(Struct):
    """The state of a session after an event; what it has beyond this follows from its events."""

    session_id: str
    seq: int
    """The last event that counts."""


class Recovered(Struct):
    """A conversation that a provider accepts."""

    session_id: str | None
    system: str | None
    messages: list[dict[str, Any]]
    """In the form of `--provider`."""
    issues: list[Issue]
    left_out: LeftOut | None
    tokens: TokenCount | None


class SnapshotRow(Struct):
    """A snapshot; `whole` is false if it will be passed over."""

    seq: int
    taken_at: int
    whole: bool


class SnapshotList(Struct):
    """The snapshots of a session, newest first."""

    session_id: str
    snapshots: list[SnapshotRow]


class Imported(Struct):
    """What came of an import. Members that say nothing are left out of a session."""

    sessions: list[ImportedSession]
    skipped: list[Skipped]


class Made(Struct):
    """A new session."""

    session_id: str
    parent: str
    at: int | None
    """The last event that it has of its parent."""


class Merged(Struct):
    """A session made of two."""

    session_id: str
    report: MergeReport


class Titled(Struct):
    """What a session is called."""

    session_id: str
    title: str | None


class Tagged(Struct):
    """The tags of a session."""

    session_id: str
    tags: list[str]
    auto_tags: list[str]
    """What the catalogue calls it, by its content."""


class TagReasons(Struct):
    """What speaks for each automatic tag."""

    session_id: str
    topics: list[Topic]


class TagIdeas(Struct):
    """What a model would call a session."""

    session_id: str
    applied: bool
    title: str | None
    tags: list[str]


class VerifiedSnapshot(Struct):
    """A snapshot, and whether it is whole."""

    seq: int
    whole: bool


class VerifyReport(Struct):
    """What was found in one session."""

    session_id: str
    ok: bool
    events: int
    lost_events: int
    size_bytes: int
    torn_bytes: int
    """At the end, as a crash leaves them: no damage."""
    checksummed: bool
    gaps: list[Gap]
    missing_blobs: list[str]
    snapshots: list[VerifiedSnapshot]
    sealed: bool
    opened: bool
    """False for a sealed session whose key is not here: only checksums were compared."""
    tampered: list[Finding]
    explanation: list[str]
    """The same in sentences."""


class Verified(Struct):
    """What every session that was looked at is like."""

    reports: list[VerifyReport]


class Repaired(Struct):
    """What was lost, and where the old bytes are."""

    session_id: str
    gaps: list[Gap]
    quarantine: str | None


class Pruned(Struct):
    """What a prune did, or would do."""

    dry_run: bool
    decisions: list[Decision]
    """Sessions that were archived or deleted, each with the reason."""
    spared: list[Spared]
    """Sessions that a policy would let go, and what kept them."""
    emptied: list[Trashed]
    """What left the trash for good."""
    snapshots: int
    """How many old snapshots went."""
    failed: dict[str, str]
    """Sessions with which it did not work, and why; the others went on."""


class Setting(Struct, rename={"origin": "from"}):
    """A setting."""

    value: Any
    origin: str | None
    """What set it."""
    variable: str
    meaning: str


class Settings(Struct):
    """What is set, by name."""

    settings: dict[str, Setting]


class Checked(Struct):
    """Whether the configuration is right."""

    ok: bool
    problems: list[str]


class ConfigFile(Struct):
    """A file that is looked for."""

    path: str
    exists: bool
    whose: str


class ConfigFiles(Struct):
    """The files that are looked for, the strongest first."""

    files: list[ConfigFile]


class Check(Struct):
    """One thing that was looked at."""

    name: str
    state: Literal["ok", "warning", "bad"]
    finding: str
    remedy: str


class Extra(Struct):
    """An optional part of Holdfast."""

    name: str
    gives: str
    installed: bool
    missing: list[str]
    """The packages that are not there."""
    install: str
    """The command that installs it."""


class StoreHealth(Struct):
    """Where the store is, why, and how it is."""

    place: str
    reason: str
    checks: list[Check]


class Doctored(Struct):
    """Where the store is, how it is, and what is missing."""

    healthy: bool
    store: StoreHealth
    versions: dict[str, str | None]
    extras: list[Extra]


class Ran(Struct):
    """An answer."""

    output: Any
    session_id: str
    agent: str
    model: str
    usage: dict[str, Any]
    finish_reason: str | None
    suspended: bool
    """Whether it waits for somebody to decide."""


class AcpAnswer(Struct):
    """An answer of an external agent."""

    session_id: str
    acp_session_id: str | None
    agent: dict[str, Any]
    attached: str | None
    """How the agent got to know what was said before."""
    output: str
    stop_reason: str
    usage: Any
    warnings: list[str]
    cwd: str


class AcpInstalled(Struct):
    """What is in the settings of an editor."""

    file: str
    name: str
    entry: dict[str, Any]
    written: bool
    backup: str | None


class Problem(Struct):
    """Why a command failed."""

    code: str
    """The code of the error as in docs/reference/errors.md; also usage, system, stopped, defect."""
    message: str
    remedy: str
    exit_code: Annotated[int, Meta(ge=1)]


class ErrorLine(Struct):
    """A failure, on one line of standard error."""

    error: Problem


class Note(Struct):
    """Something to know."""

    message: str
    remedy: str


class WarningLine(Struct):
    """Something that is no failure, on one line of standard error."""

    warning: Note


# The name of a schema: what prints it, its shape, and whether each line is one.
DOCUMENTS: dict[str, tuple[str, Any]] = {
    "list": ("holdfast list --json", Listed),
    "list-watch": ("holdfast list --watch --json, each line", Watched),
    "search": ("holdfast search --json", Searched),
    "show": ("holdfast show --json", Shown),
    "show-event": ("holdfast show --events --json, each line", EventLine),
    "show-state": ("holdfast show --state", StateDocument),
    "recover": ("holdfast recover --json, holdfast show --messages --json", Recovered),
    "stats": ("holdfast stats --json", Stats),
    "stats-session": ("holdfast stats --session ID --json", Timeline),
    "snapshots": ("holdfast snapshots --json", SnapshotList),
    "import": ("holdfast import --json", Imported),
    "import-watch": ("holdfast import --watch --json, each line", ImportedSession),
    "export-install": ("holdfast export --install --json", Installed),
    "fork": ("holdfast fork --json, holdfast restore --json", Made),
    "compare": ("holdfast compare --json", Comparison),
    "merge": ("holdfast merge --json", Merged),
    "title": ("holdfast title --json", Titled),
    "tag": ("holdfast tag --json", Tagged),
    "tag-why": ("holdfast tag --why --json", TagReasons),
    "tag-suggest": ("holdfast tag --suggest --json", TagIdeas),
    "verify": ("holdfast verify --json", Verified),
    "repair": ("holdfast repair --json", Repaired),
    "redact": ("holdfast redact --json", RedactionReport),
    "copy": ("holdfast copy --json", Copied),
    "encrypt": (
        "holdfast encrypt --json, holdfast decrypt --json, holdfast rotate --json",
        Resealed,
    ),
    "keys": ("holdfast keys --json", KnownKeys),
    "keys-check": ("holdfast keys check --json", CheckedKeys),
    "keys-new": ("holdfast keys new --json", NewKey),
    "erase": ("holdfast erase --json", Erased),
    "prune": ("holdfast prune --json", Pruned),
    "config": ("holdfast config show --json", Settings),
    "config-check": ("holdfast config check --json", Checked),
    "config-path": ("holdfast config path --json", ConfigFiles),
    "reindex": ("holdfast reindex --json", Reindexed),
    "doctor": ("holdfast doctor --json", Doctored),
    "run": ("holdfast run --json", Ran),
    "acp-prompt": ("holdfast acp prompt --json", AcpAnswer),
    "acp-doctor": ("holdfast acp doctor --json", Examination),
    "acp-install": ("holdfast acp install --json", AcpInstalled),
    "error": ("any command with --json, on standard error, if it fails", ErrorLine),
    "warning": ("any command with --json, on standard error", WarningLine),
}


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
        body = tree.body[0].body  # type: ignore[attr-defined]
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
