"""The shapes of what the command prints with `--json`, for `json_schemas.py` to write down.

Where a verb prints a struct of the library as it is, that struct is the shape; the others are here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from holdfast.apps.acp.doctor import Examination
from holdfast.apps.cli.keys import CheckedKeys, KnownKeys, NewKey
from holdfast.catalog._catalog import Reindexed
from holdfast.catalog._retention import Decision, Spared
from holdfast.catalog._stats_shapes import Stats
from holdfast.catalog._timeline import Timeline
from holdfast.catalog._topics import Topic
from holdfast.library._copy import Copied
from holdfast.library._export import Installed
from holdfast.library._imports import ImportedSession, Skipped
from holdfast.library._redaction import RedactionReport
from holdfast.library._seals import Resealed
from holdfast.library._trash import Erased, Trashed
from holdfast.model import Gap, SessionMetadata
from holdfast.replay import Comparison, Issue, LeftOut, MergeReport, TokenCount
from holdfast.session import Finding

__all__ = ["DOCUMENTS"]


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


class DeletedSession(Struct):
    """A session that was deleted."""

    session_id: str
    title: str | None
    """When it was deleted; null where nobody wrote it down, and of sealed ones."""
    deleted_at: int
    """Unix milliseconds; 0 where nobody wrote it down."""
    size_bytes: int


class TrashListed(Struct):
    """What can be brought back, the last deleted first."""

    sessions: list[DeletedSession]


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
    head: str
    """Stands for every event that is there now: keep it elsewhere, for `--since`."""
    kept: bool | None
    """With `--since`: whether what was there then is still there; null if it was not."""
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


class RepairedAgent(Struct):
    """Which documents of an agent could not be read, and what became of each."""

    agent_id: str
    documents: dict[str, str]


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


class MetricValue(Struct):
    """One figure, with what tells it from others of the same name."""

    labels: dict[str, str]
    value: float


class MetricLine(Struct):
    """One metric of the store."""

    name: str
    help: str
    unit: str
    values: list[MetricValue]


class Measured(Struct):
    """How the store is, in figures."""

    metrics: list[MetricLine]


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
    refused: list[str]
    """The tools that the agent was not allowed to use."""
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
    "list-trash": ("holdfast list --trash --json", TrashListed),
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
    "repair-agent": ("holdfast repair --agent AGENT --json", RepairedAgent),
    "redact": ("holdfast redact --json", RedactionReport),
    "copy": ("holdfast copy --json", Copied),
    "encrypt": (
        "holdfast encrypt --json, holdfast decrypt --json, holdfast rotate --json",
        Resealed,
    ),
    "keys": ("holdfast keys --json", KnownKeys),
    "keys-check": ("holdfast keys check --json", CheckedKeys),
    "keys-new": ("holdfast keys new --json, holdfast keys public --json", NewKey),
    "erase": ("holdfast erase --json", Erased),
    "prune": ("holdfast prune --json", Pruned),
    "config": ("holdfast config show --json", Settings),
    "config-check": ("holdfast config check --json", Checked),
    "config-path": ("holdfast config path --json", ConfigFiles),
    "reindex": ("holdfast reindex --json", Reindexed),
    "doctor": ("holdfast doctor --json", Doctored),
    "metrics": ("holdfast metrics --json", Measured),
    "run": ("holdfast run --json", Ran),
    "acp-prompt": ("holdfast acp prompt --json", AcpAnswer),
    "acp-doctor": ("holdfast acp doctor --json", Examination),
    "acp-install": ("holdfast acp install --json", AcpInstalled),
    "error": ("any command with --json, on standard error, if it fails", ErrorLine),
    "warning": ("any command with --json, on standard error", WarningLine),
}
