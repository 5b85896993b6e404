"""Answers of agents."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class TurnAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a turn ended: completed, suspended (``resume_token`` goes on) or interrupted."""

    session_id: str
    output: str
    status: Literal["completed", "suspended", "interrupted"] = "completed"
    usage: dict[str, Any] = {}
    resume_token: str | None = None
    resume_as: str | None = None
    reason: str | None = None


class RunAnswer(Struct, frozen=True, kw_only=True):
    """The answer of an agent to one prompt."""

    output: Any
    session_id: str | None
    """Null if nothing is recorded, with the store `none`."""
    agent: str
    model: str
    usage: dict[str, Any]
    finish_reason: str | None
    suspended: bool
    """Whether it waits for somebody to decide."""


class AcpAnswer(Struct, frozen=True, kw_only=True):
    """The answer of an external agent."""

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


class AcpInstalled(Struct, frozen=True, kw_only=True):
    """What is in the settings of an editor."""

    file: str
    name: str
    entry: dict[str, Any]
    written: bool
    backup: str | None
