"""The catalogue: a derived index of all sessions. Disposable, and never believed about content.

``Catalog`` is the whole of it for one store. ``Catalog.ask(question)`` catches up with the logs and
then calls ``question(connection)`` with the SQLite connection of the index; whatever is wrong with
the index is mended, or gone round, before the question is asked again.

How the parts fit together: for every session whose log went on, the index reads the new events once
and hands them to each part in the same transaction (``_derived.py`` is the one place that calls):

    _words.create_tables(connection)         when an index is made
    _words.forget(connection, row)           the session is gone, or is read anew from its beginning
    _words.add(connection, row, events)      the events after those that were added before
    Tally.from_bytes(data).feed(events)      the same events; Tally().to_bytes() is kept in the row
    auto_tags(tally)                         what a list shows as the session's automatic tags

``row`` is the whole number of the session in the index (``sessions.row``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.catalog._catalog import Catalog, Health, Reindexed
    from holdfast.catalog._catching_up import Progress
    from holdfast.catalog._feeder import Feeder
    from holdfast.catalog._filter import Filter, Page
    from holdfast.catalog._retention import (
        Decision,
        Plan,
        Policy,
        Spared,
        live_limit,
        plan,
        read_policies,
    )

# Loaded when first asked for: a program that only records needs none of it.
_LAZY = {
    "Catalog": "_catalog",
    "Decision": "_retention",
    "Feeder": "_feeder",
    "Filter": "_filter",
    "Health": "_catalog",
    "Page": "_filter",
    "Plan": "_retention",
    "Policy": "_retention",
    "Progress": "_catching_up",
    "Reindexed": "_catalog",
    "Spared": "_retention",
    "live_limit": "_retention",
    "plan": "_retention",
    "read_policies": "_retention",
}

__all__ = [
    "Catalog",
    "Decision",
    "Feeder",
    "Filter",
    "Health",
    "Page",
    "Plan",
    "Policy",
    "Progress",
    "Reindexed",
    "Spared",
    "live_limit",
    "plan",
    "read_policies",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value
