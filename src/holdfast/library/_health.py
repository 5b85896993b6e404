"""Verifying and repairing logs."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import Tampered
from holdfast.library import _finder
from holdfast.library._core import LEASE_MS, Core, check_text
from holdfast.library._views import of_known_format
from holdfast.model import Notice, check_id
from holdfast.session import read_range

if TYPE_CHECKING:
    from holdfast.model import Gap
    from holdfast.session import Report

_AGENTS = "agents/"


class AgentDocuments:
    """Unreadable documents of agents, and their repair: ``hf.agents``."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def damaged(self) -> dict[str, list[str]]:
        """Return the documents that cannot be read, by agent. Changes nothing."""
        from holdfast.session import damaged_documents

        store = self._core.store
        self._core.check_open()
        found = {}
        for key in sorted(store.folders(_AGENTS)):
            names = [one.document for one in damaged_documents(store.documents(key))]
            if names:
                found[key.removeprefix(_AGENTS)] = names
        return found

    def repair(self, agent_id: str) -> dict[str, str]:
        """Set aside the unreadable documents of an agent; return what became of each, by name.

        Each document is begun anew, and its old bytes are kept in the agent's quarantine; the new
        ``agent.json`` names the agent's newest session. What can be read is left alone.
        """
        from holdfast.session import AGENT, AgentDocument, damaged_documents, set_aside

        core = self._core
        core.check_open()
        documents = core.store.documents(f"{_AGENTS}{check_id(agent_id, what='agent id')}")
        done = {}
        for damaged in damaged_documents(documents):
            fresh = damaged.shape()
            if damaged.document == AGENT:
                newest = _finder.list_sessions(core, 1, agent_id=agent_id)
                current = newest[0].session_id if newest else None
                fresh = AgentDocument(version=1, agent_id=agent_id, current_session=current)
            done[damaged.document] = set_aside(documents, damaged, fresh)
        return done


def verify(core: Core, id: str, *, head: str | None = None) -> Report:
    from holdfast.session import verify_log

    check_text("head", head)
    key = core.stored(id)
    report = verify_log(id, core.store.log(key), core.store.documents(key), head=head)
    lost = None if report.events or report.gaps or report.damage else core.lost_whole(id)
    vanished = core.catalog.vanished(id)
    if not vanished:
        return report
    gaps = report.gaps if lost is None else [lost]
    return msgspec.structs.replace(report, ok=False, vanished=vanished, gaps=gaps)


def repair(core: Core, id: str) -> list[Gap]:
    from holdfast.session import repair_log, rewriter_for

    key = core.stored(id)
    # If a sealed log was tampered with, the repair reports what is left.
    with contextlib.suppress(Tampered):
        for _ in of_known_format(read_range(core.store.log(key))):
            pass
    with core.store.lease(key).held("repair", LEASE_MS) as epoch:
        log = core.store.log(key)
        sealer, lost_whole = partial(rewriter_for, core.store, key, log, epoch), partial(core.lost_whole, id)
        gaps = repair_log(log, core.store.documents(key), epoch, sealer=sealer, lost_whole=lost_whole)
    if gaps:
        core.hub.publish(id, Notice("repaired", id, {"gaps": len(gaps)}))
    return gaps
