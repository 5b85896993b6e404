"""Searching what was said in sessions."""

from __future__ import annotations

import builtins
from collections.abc import Collection
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.library._finding import Finding, filter_of
from holdfast.library._given import check_text, limit_of

if TYPE_CHECKING:
    import datetime as dt

    from holdfast.catalog import Asked, Hit

__all__ = ["Searching"]

_BOTH_SIDES = ("tool_call", "tool_result")


class Searching(Finding):
    """What can be asked of every word of all sessions."""

    def search(
        self,
        query: str,
        session_id: str | None = None,
        *,
        tags: Collection[str] = (),
        since: float | dt.datetime | None = None,
        until: float | dt.datetime | None = None,
        agent_id: str | None = None,
        model: str | None = None,
        role: str | None = None,
        tool: str | None = None,
        limit: int | None = 20,
    ) -> builtins.list[Hit]:
        """The events in which something was said, best first; None as limit gives all.

        Words must all be in one event; ``"…"`` is a phrase, ``word*`` a beginning, ``-word`` an
        exclusion, ``a OR b`` a choice; whatever else is in a query is text. ``since`` and ``until``
        are of the event; ``tags``, ``agent_id`` and ``model`` of its session; ``role`` may be
        "tool" for calls and results. What was appended before the call is found, also what other
        processes appended. Raises NotFound for a session that is not there, and UsageError for a
        query that is no text, a role, limit or time that is none.
        """
        from holdfast.catalog import Asked, Filter

        _check(query, role)
        limit = limit_of(limit, "hits")
        check_text("a tool", tool)
        if session_id is not None:
            self._stored(session_id)
        self._check_open()
        wanted = filter_of(tags, since, until, agent_id, model=model)
        asked = Asked(
            query=query,
            session_id=session_id,
            sessions=Filter(tags=wanted.tags, agent_id=agent_id, model=model),
            since=wanted.since,
            until=wanted.until,
            roles=_BOTH_SIDES if role == "tool" else () if role is None else (role,),
            tool=tool,
            limit=limit,
        )
        return self._search(asked)

    def _search(self, asked: Asked) -> builtins.list[Hit]:
        hits = self._catalog.answer(lambda index: index.search(self._inner, asked))
        return self._sealed_books.search(hits, asked) if self._store.has_keys else hits


def _check(query: object, role: str | None) -> None:
    from holdfast.catalog import ROLES

    if not isinstance(query, str):
        raise UsageError(f"a query is a text, not {type(query).__name__}")
    if role not in (None, "tool", *ROLES):
        remedy = f"One of {', '.join(ROLES)}, or tool for calls and results."
        raise UsageError(f"{str(role)[:40]!a} is no role", remedy=remedy)
