"""A client for external agents: their conversations on sessions of ours, whatever they keep."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.apps.acp.client.config import (
    ClientConfig,
    FileHandler,
    Files,
    Permission,
    PermissionQuestion,
    Provider,
    TerminalHandler,
)
from holdfast.apps.acp.client.session import AcpSession, AgentWarning
from holdfast.apps.acp.client.store import (
    SessionMetrics,
    SessionSnapshot,
    SnapshotMessage,
    SnapshotStats,
    SnapshotStore,
    Snapshotter,
)
from holdfast.apps.acp.client.turn import Answer, PromptTurn, Update
from holdfast.apps.acp.recording.channel import long_limits
from holdfast.apps.wire.frames import objects_in
from holdfast.errors import DataError, UsageError
from holdfast.library import Holdfast
from holdfast.session import Session

__all__ = ["ClientConfig", "FileHandler", "Files", "Permission", "PermissionQuestion", "Provider", "TerminalHandler"]
__all__ += ["AcpSession", "AgentWarning"]
__all__ += ["SessionMetrics", "SessionSnapshot", "SnapshotMessage", "SnapshotStats", "SnapshotStore", "Snapshotter"]
__all__ += ["Answer", "PromptTurn", "Update", "create_or_resume"]


async def create_or_resume(
    provider: Provider | str | Sequence[str],
    id: str | None = None,
    config: ClientConfig | None = None,
    *,
    library: Holdfast | None = None,
    snapshotter: Snapshotter | None = None,
) -> AcpSession:
    """Start an agent on a session of ours: the stored one of that id, or a new one.

    A stored session goes on by the agent's ``session/resume`` if it has one that works, else by its
    ``session/load``, whose replay is not recorded again, else in a new session of the agent that is
    told the conversation with the first prompt, with a warning. If it was not closed in order, the
    load comes first: only its replay shows what the agent has lost.

    Without ``library``, sessions are kept in this process only, or, if the configuration enables
    persistence, at ``snapshot_storage_path`` or the default place.

    Raises AgentError if the agent cannot be started, AgentNoLoadSupport if it cannot go on and the
    configuration says so, NotFound and UsageError by the resume policy, Locked, Damaged.
    """
    provider, config = Provider.of(provider), config or ClientConfig()
    closing = contextlib.ExitStack()
    with contextlib.ExitStack() as undo:
        undo.callback(closing.close)
        if library is None:
            place = config.snapshot_storage_path if config.persists else "memory:"
            library = closing.enter_context(Holdfast(place))
        if snapshotter is None:
            snapshotter = Snapshotter(library)
            closing.callback(snapshotter.close)
        session = await asyncio.to_thread(_open, library, id, provider, config)
        undo.callback(session.close)
        params, warnings = _params(session, config)
        found = AcpSession(
            library,
            session,
            provider=provider,
            config=config,
            params=params,
            snapshotter=snapshotter,
            on_close=closing.close,
        )
        undo.pop_all()  # from now on it closes all of this itself
    try:
        for warning in warnings:
            found.warn(warning)
        await found.start()
    except BaseException:
        await found.close()
        raise
    return found


def _open(library: Holdfast, id: str | None, provider: Provider, config: ClientConfig) -> Session:
    limits = long_limits(library.limits)
    return library.session(
        id,
        resume=config.resume,
        provider_type=provider.type,
        snapshot_ms=0,  # ours, if persistence is enabled, and then as often as it says
        limits=msgspec.structs.replace(limits, snapshots_kept=config.max_snapshots_per_session),
    )


def _params(session: Session, config: ClientConfig) -> tuple[dict[str, Any], list[DataError]]:
    """Return the parameters for the agent: all of them, every time, since the agent restores none."""
    known = session.live_state.metadata
    cwd = config.cwd or known.get("cwd") or os.getcwd()
    if not os.path.isdir(cwd):
        raise UsageError(f"the working directory {cwd} is not there", remedy="Give another cwd.")
    servers, missing = config.mcp_servers, list[str]()
    if servers is None:  # those that can be started from what was recorded, which has no secrets
        recorded = objects_in(known, "acp", "mcpServers")
        servers = [one for one in recorded if not (one.get("env") or one.get("headers"))]
        missing = [str(one.get("name")) for one in recorded if one not in servers]
    params: dict[str, Any] = {"cwd": cwd, "mcpServers": [dict(server) for server in servers]}
    if config.additional_directories:
        params["additionalDirectories"] = list(config.additional_directories)
    if not missing:
        return params, []
    warning = DataError(
        f"the secrets of MCP servers are not recorded; left out: {', '.join(missing)}",
        remedy="Give mcp_servers in the configuration.",
        session_id=session.id,
    )
    return params, [warning]
