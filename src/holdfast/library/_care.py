"""Looking after logs: saying what is whole, and mending what is not."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import Tampered
from holdfast.library._finding import Finding
from holdfast.library._given import check_text
from holdfast.library._ground import LEASE_MS
from holdfast.library._reading import of_known_format
from holdfast.model import Notice
from holdfast.session import read_range

if TYPE_CHECKING:
    from holdfast.model import Gap
    from holdfast.session import Report

__all__ = ["Care"]


class Care(Finding):
    """What can be done for one session's bytes."""

    def verify(self, id: str, *, head: str | None = None) -> Report:
        """Look at every byte of a session and say what is whole. Changes nothing.

        ``head`` is that of an earlier report, kept elsewhere: the log must still begin with what it
        stands for, else it was put back to an earlier state. Raises UsageError if it is none.
        """
        from holdfast.session import verify_log

        check_text("head", head)
        key = self._stored(id)
        report = verify_log(id, self._store.log(key), self._store.documents(key), head=head)
        vanished = self._catalog.vanished(id)
        if not vanished:
            return report
        return msgspec.structs.replace(report, ok=False, vanished=vanished)

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
            )
        finally:
            lease.release()
        if gaps:
            self._hub.publish(id, Notice("repaired", id, {"gaps": len(gaps)}))
        return gaps
