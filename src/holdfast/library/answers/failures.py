"""Failures and warnings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class Failed(Struct, frozen=True, kw_only=True):
    """Why a command failed."""

    code: str
    """The code of the error as in docs/reference/errors.md; also usage, system, stopped, defect."""
    message: str
    remedy: str
    exit_code: Annotated[int, Meta(ge=1)]


class ErrorLine(Struct, frozen=True, kw_only=True):
    """A failure, on one line of standard error."""

    error: Failed


class Advice(Struct, frozen=True, kw_only=True):
    """Something to know."""

    message: str
    remedy: str


class WarningLine(Struct, frozen=True, kw_only=True):
    """Something that is no failure, on one line of standard error."""

    warning: Advice


class ProblemTold(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong, for a client that is connected; where it was about a session, which."""

    status: int
    code: str
    detail: str
    remedy: str
    session_id: str | None = None
    seq: int | None = None
    limit: int | None = None
    needed_bytes: int | None = None
