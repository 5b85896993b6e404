"""Answers about the store: its health, figures, settings, tokens and spaces."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from holdfast.catalog import RetentionDecision, Spared
from holdfast.library._imports import ImportedSession, Skipped
from holdfast.library._keys import KeyInfo
from holdfast.library._trash import Trashed
from holdfast.library.answers import filled
from holdfast.library.answers.turns import OfSession
from holdfast.model import Gap
from holdfast.session import Report, TamperedPlace


class ServerHealth(Struct, frozen=True, kw_only=True):
    """The state of the server."""

    status: Literal["ok", "stopping"]
    version: str


class Check(Struct, frozen=True):
    """One check and its finding."""

    name: str
    state: Literal["ok", "warning", "bad"]
    finding: str
    remedy: str = ""


class OptionalPart(Struct, frozen=True):
    """An optional part of Holdfast."""

    name: str
    gives: str
    installed: bool
    missing: tuple[str, ...]
    """The packages that are missing."""
    install: str
    """The command that installs it."""


class StoreHealth(Struct, frozen=True, kw_only=True):
    """The location of the store, the reason for it, and its health."""

    place: str
    reason: str
    checks: list[Check]


class DoctorAnswer(Struct, frozen=True, kw_only=True):
    """The location and health of the store, and the missing parts."""

    healthy: bool
    store: StoreHealth
    versions: dict[str, str | None]
    extras: list[OptionalPart]


class MetricValue(Struct, frozen=True, kw_only=True):
    """One figure, with the labels that distinguish it from others of the same name."""

    labels: dict[str, str]
    value: float


class MetricRow(Struct, frozen=True, kw_only=True):
    """One metric of the store."""

    name: str
    help: str
    unit: str
    values: list[MetricValue]


class MetricList(Struct, frozen=True, kw_only=True):
    """The state of the store in figures."""

    metrics: list[MetricRow]


class Setting(Struct, frozen=True, kw_only=True, rename={"origin": "from"}):
    """A setting."""

    value: Any
    origin: str | None
    """The source of the value."""
    variable: str
    meaning: str


class SettingList(Struct, frozen=True, kw_only=True):
    """The settings by name."""

    settings: dict[str, Setting]


class SettingCheck(Struct, frozen=True, kw_only=True):
    """The result of a check of the configuration."""

    ok: bool
    problems: list[str]


class ConfigFile(Struct, frozen=True, kw_only=True):
    """A file that is looked for."""

    path: str
    exists: bool
    whose: str


class ConfigFiles(Struct, frozen=True, kw_only=True):
    """The files that are looked for, the strongest first."""

    files: list[ConfigFile]


class TokenMade(Struct, frozen=True, kw_only=True):
    """A new token of the HTTP service; it is shown only once."""

    token: str
    id: str
    space: str
    scope: str
    expires_at: int | None


class TokenRow(Struct, frozen=True, kw_only=True):
    """A token without its secret."""

    id: str
    space: str
    scope: str
    label: str
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    state: Literal["good", "expired", "revoked"]


class TokenList(Struct, frozen=True, kw_only=True):
    """The tokens of the HTTP service, newest first."""

    tokens: list[TokenRow]


class SpaceRow(Struct, frozen=True, kw_only=True):
    """A space, with the number of its sessions and valid tokens."""

    space: str
    sessions: int
    tokens: int


class SpaceList(Struct, frozen=True, kw_only=True):
    """The spaces for which tokens were made."""

    spaces: list[SpaceRow]


# Answers of verify, repair, prune, import and the keys.
class Soundness(OfSession, frozen=True, kw_only=True):
    """The integrity of a session."""

    ok: bool
    events: int
    size_bytes: int


class VerifiedSession(Soundness, frozen=True, kw_only=True):
    """The integrity of a session, with the findings in words."""

    findings: list[str]

    @classmethod
    def of(cls, report: Report) -> VerifiedSession:
        """Return the answer for a report."""
        return filled(cls, report, findings=report.explain())


class VerifiedSnapshot(Struct, frozen=True, kw_only=True):
    """A snapshot, and whether it is intact."""

    seq: int
    whole: bool


class VerifyReport(Soundness, frozen=True, kw_only=True):
    """Everything that was found in one session."""

    lost_events: int
    torn_bytes: int
    """Bytes of an incomplete last line, as a crash leaves them; no damage."""
    checksummed: bool
    gaps: list[Gap]
    missing_blobs: list[str]
    snapshots: list[VerifiedSnapshot]
    sealed: bool
    opened: bool
    """False for a sealed session whose key is not here: only checksums were compared."""
    tampered: list[TamperedPlace]
    head: str
    """A digest of all present events: keep it elsewhere, for `--since`."""
    kept: bool | None
    """With `--since`: whether all events of then are still there; null if that head never existed."""
    explanation: list[str]
    """The findings in sentences."""

    @classmethod
    def of(cls, report: Report) -> VerifyReport:
        """Return the answer for a report."""
        snapshots = [VerifiedSnapshot(seq=seq, whole=whole) for seq, whole in report.snapshots.items()]
        return filled(cls, report, snapshots=snapshots, explanation=report.explain())


class VerifyReports(Struct, frozen=True, kw_only=True):
    """The result for every session that was checked."""

    reports: list[VerifyReport]


class RepairedSession(OfSession, frozen=True, kw_only=True):
    """The lost events, and where the old bytes are kept."""

    gaps: list[Gap]
    quarantine: str | None


class RepairedAgent(Struct, frozen=True, kw_only=True):
    """The unreadable documents of an agent, and what became of each."""

    agent_id: str
    documents: dict[str, str]


class ImportedIds(Struct, frozen=True, kw_only=True):
    """The sessions of the imported bytes that are here now."""

    sessions: list[str]
    problems: list[str]


class ImportedSessions(Struct, frozen=True, kw_only=True):
    """The result of an import. Empty members of a session are left out."""

    sessions: list[ImportedSession]
    skipped: list[Skipped]


class Pruned(Struct, kw_only=True):
    """The result of a prune, or of its dry run."""

    dry_run: bool
    decisions: list[RetentionDecision]
    """Sessions that were archived or deleted, each with the reason."""
    spared: list[Spared]
    """Sessions that a policy would let go, and what kept them."""
    emptied: list[Trashed]
    """Sessions that left the trash for good."""
    snapshots: int
    """The number of old snapshots that were deleted."""
    failed: dict[str, str]
    """Sessions that failed, and why; the others were still processed."""


class KeyList(Struct, frozen=True, kw_only=True):
    """The keys that open what is sealed."""

    keys: list[KeyInfo]


class KeyCheck(Struct, frozen=True, kw_only=True):
    """The answer of a check that the available keys open everything that is encrypted."""

    ok: bool
    closed: dict[str, str]
    """The reason for each item that could not be decrypted, by its key in the store."""


class KeyMade(Struct, frozen=True, kw_only=True):
    """A key that was made, or whose public key was asked for."""

    id: str
    """Its fingerprint; with public the public key."""
    source: str
