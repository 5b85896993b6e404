"""Failures and warnings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class Failed(Struct, frozen=True, kw_only=True):
    """The reason why a command failed."""

    code: str
    """The code of the error as in docs/reference/errors.md; also usage, system, stopped, defect."""
    message: str
    remedy: str
    exit_code: Annotated[int, Meta(ge=1)]


class ErrorLine(Struct, frozen=True, kw_only=True):
    """A failure, on one line of standard error."""

    error: Failed


class Advice(Struct, frozen=True, kw_only=True):
    """A piece of advice."""

    message: str
    remedy: str


class WarningLine(Struct, frozen=True, kw_only=True):
    """A warning, on one line of standard error."""

    warning: Advice


class ProblemTold(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem, for a connected client, with the session that it is about."""

    status: int
    code: str
    detail: str
    remedy: str
    session_id: str | None = None
    seq: int | None = None
    limit: int | None = None
    needed_bytes: int | None = None
