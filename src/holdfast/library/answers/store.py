"""Answers about the store: its health, figures, settings, tokens and spaces."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class ServerHealth(Struct, frozen=True, kw_only=True):
    """How the server is."""

    status: Literal["ok", "stopping"]
    version: str


class Check(Struct, frozen=True):
    """One thing that was looked at."""

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
    """The packages that are not there."""
    install: str
    """The command that installs it."""


class StoreHealth(Struct, frozen=True, kw_only=True):
    """Where the store is, why, and how it is."""

    place: str
    reason: str
    checks: list[Check]


class DoctorAnswer(Struct, frozen=True, kw_only=True):
    """Where the store is, how it is, and what is missing."""

    healthy: bool
    store: StoreHealth
    versions: dict[str, str | None]
    extras: list[OptionalPart]


class MetricValue(Struct, frozen=True, kw_only=True):
    """One figure, with what tells it from others of the same name."""

    labels: dict[str, str]
    value: float


class MetricRow(Struct, frozen=True, kw_only=True):
    """One metric of the store."""

    name: str
    help: str
    unit: str
    values: list[MetricValue]


class MetricList(Struct, frozen=True, kw_only=True):
    """How the store is, in figures."""

    metrics: list[MetricRow]


class Setting(Struct, frozen=True, kw_only=True, rename={"origin": "from"}):
    """A setting."""

    value: Any
    origin: str | None
    """What set it."""
    variable: str
    meaning: str


class SettingList(Struct, frozen=True, kw_only=True):
    """What is set, by name."""

    settings: dict[str, Setting]


class SettingCheck(Struct, frozen=True, kw_only=True):
    """Whether the configuration is right."""

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
    """A token of the HTTP service; it is told only once."""

    token: str
    id: str
    space: str
    scope: str
    expires_at: int | None


class TokenRow(Struct, frozen=True, kw_only=True):
    """What is known of a token; never the token itself."""

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
    """A space, with how many sessions and good tokens it has."""

    space: str
    sessions: int
    tokens: int


class SpaceList(Struct, frozen=True, kw_only=True):
    """The spaces for which tokens were made."""

    spaces: list[SpaceRow]
