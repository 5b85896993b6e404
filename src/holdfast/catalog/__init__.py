"""The catalogue: a derived index of all sessions. Disposable, and never believed about content.

``Catalog`` is the whole of it for one store. ``Catalog.ask(question)`` catches up with the logs and
then calls ``question(connection)`` with the SQLite connection of the index; whatever is wrong with
the index is mended, or gone round, before the question is asked again.

How the parts fit together: for every session whose log went on, the index reads the new events once
and hands them to each part in the same transaction (``_look.py``, ``sqlite/writer.py``):

    search_tables.create_tables(…)          when an index is made
    search_tables.forget(…, row)            the session is gone, or is read anew from its beginning
    search_tables.add(…, row, events)       the events after those that were added before
    Tally.from_bytes(data).feed(events)      the same events; Tally().to_bytes() is kept in the row
    auto_tags(tally)                         what a list shows as the session's automatic tags

``row`` is the whole number of the session in the index (``sessions.row``).
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # loading `typing` takes longer than what the command's quick start needs
if TYPE_CHECKING:
    from typing import Any

    from holdfast.catalog._catalog import Catalog, Health, Reindexed
    from holdfast.catalog._catch_up import Progress
    from holdfast.catalog._feeder import Feeder
    from holdfast.catalog._filter import EVERYTHING, Filter, Page, read_cursor
    from holdfast.catalog._index import Row, make_page, shown
    from holdfast.catalog._look import look
    from holdfast.catalog._orders import NEWEST, Order, arranged, read_order, words_in
    from holdfast.catalog._retention import (
        Decision,
        Plan,
        Policy,
        Spared,
        live_limit,
        plan,
        protection,
        read_policies,
    )
    from holdfast.catalog._search import Asked, Hit, scan_logs, search_index
    from holdfast.catalog._search_texts import ROLES
    from holdfast.catalog._snippets import Snippet

# Loaded when first asked for: a program that only records needs none of it.
_LAZY = {
    "EVERYTHING": "_filter",
    "Asked": "_search",
    "Hit": "_search",
    "ROLES": "_search_texts",
    "Snippet": "_snippets",
    "scan_logs": "_search",
    "search_index": "_search",
    "Catalog": "_catalog",
    "Decision": "_retention",
    "Feeder": "_feeder",
    "Filter": "_filter",
    "Health": "_catalog",
    "Page": "_filter",
    "Plan": "_retention",
    "Policy": "_retention",
    "Progress": "_catch_up",
    "Reindexed": "_catalog",
    "Spared": "_retention",
    "live_limit": "_retention",
    "look": "_look",
    "NEWEST": "_orders",
    "Order": "_orders",
    "arranged": "_orders",
    "make_page": "_index",
    "plan": "_retention",
    "protection": "_retention",
    "read_cursor": "_filter",
    "read_order": "_orders",
    "read_policies": "_retention",
    "Row": "_index",
    "shown": "_index",
    "words_in": "_orders",
}

__all__ = [
    "EVERYTHING",
    "NEWEST",
    "ROLES",
    "Asked",
    "Catalog",
    "Decision",
    "Feeder",
    "Filter",
    "Health",
    "Hit",
    "Order",
    "Page",
    "Plan",
    "Policy",
    "Progress",
    "Reindexed",
    "Row",
    "Snippet",
    "Spared",
    "arranged",
    "live_limit",
    "look",
    "make_page",
    "plan",
    "protection",
    "read_cursor",
    "read_order",
    "read_policies",
    "scan_logs",
    "search_index",
    "shown",
    "words_in",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value
