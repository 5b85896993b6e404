"""Looking after logs: saying what is whole, and mending what is not."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import Tampered
from holdfast.library._arguments import check_text
from holdfast.library._base import LEASE_MS
from holdfast.library._finder import Finding
from holdfast.library._views import of_known_format
from holdfast.model import Notice, check_id
from holdfast.session import read_range

if TYPE_CHECKING:
    from holdfast.model import Gap
    from holdfast.session import Report

_AGENTS = "agents/"


class Care(Finding):
    """What can be done for the bytes of one session, or of one agent."""

    def damaged_documents(self) -> dict[str, list[str]]:
        """The documents of agents that cannot be read, by agent. Changes nothing."""
        from holdfast.session import damaged_documents

        self._check_open()
        found = {}
        for key in sorted(self._store.folders(_AGENTS)):
            names = [one.document for one in damaged_documents(self._store.documents(key))]
            if names:
                found[key.removeprefix(_AGENTS)] = names
        return found

    def repair_agent(self, agent_id: str) -> dict[str, str]:
        """Set aside what cannot be read of an agent's documents; what became of each, by name.

        Each is begun anew, and its old bytes are kept in the agent's quarantine; of ``agent.json``
        the new one names the agent's newest session. What can be read is left alone.
        """
        from holdfast.session import AGENT, AgentDocument, damaged_documents, set_aside

        self._check_open()
        documents = self._store.documents(f"{_AGENTS}{check_id(agent_id, what='agent id')}")
        done = {}
        for damaged in damaged_documents(documents):
            fresh = damaged.shape()
            if damaged.document == AGENT:
                newest = self.list(limit=1, agent_id=agent_id)
                current = newest[0].session_id if newest else None
                fresh = AgentDocument(version=1, agent_id=agent_id, current_session=current)
            done[damaged.document] = set_aside(documents, damaged, fresh)
        return done

    def verify(self, id: str, *, head: str | None = None) -> Report:
        """Look at every byte of a session and say what is whole. Changes nothing.

        ``head`` is that of an earlier report, kept elsewhere: the log must still begin with what it
        stands for, else it was put back to an earlier state. Raises UsageError if it is none.
        """
        from holdfast.session import verify_log

        check_text("head", head)
        key = self._stored(id)
        report = verify_log(id, self._store.log(key), self._store.documents(key), head=head)
        lost = None
        if not (report.events or report.gaps or report.damage):
            lost = self._lost_whole(id)
        vanished = self._catalog.vanished(id)
        if not vanished:
            return report
        gaps = report.gaps if lost is None else [lost]
        return msgspec.structs.replace(report, ok=False, vanished=vanished, gaps=gaps)

    def repair(self, id: str) -> list[Gap]:
        """Write a whole log in the place of a damaged one; what was missing from it.

        The old bytes are kept in quarantine. An undamaged session is left alone, and so is one of
        a newer format: TooNew.
        """
        from holdfast.session import repair_log, rewriter_for

        key = self._stored(id)
        # Where a sealed log was tampered with, it is for the repair to say what is left.
        with contextlib.suppress(Tampered):
            for _ in of_known_format(read_range(self._store.log(key))):
                pass
        lease = self._store.lease(key)
        epoch = lease.acquire("repair", LEASE_MS)
        try:
            log = self._store.log(key)
            gaps = repair_log(
                log,
                self._store.documents(key),
                epoch,
                sealer=lambda: rewriter_for(self._store, key, log, epoch),
                lost_whole=lambda: self._lost_whole(id),
            )
        finally:
            lease.release()
        if gaps:
            self._hub.publish(id, Notice("repaired", id, {"gaps": len(gaps)}))
        return gaps
