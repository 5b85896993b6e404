"""The catalogue: a derived index of all sessions. Disposable, and never trusted about content.

``Catalog`` is the interface for one store. ``Catalog.answer(question)`` catches up with the logs and then calls
``question(index)``; a problem of the index is repaired, or worked around, before the question is asked again.

How the parts fit together: for every session whose log has grown, the index reads the new events once
and hands them to each part in the same transaction (``_look.py``, ``sqlite/rows.py``):

    search.create_tables(…)                 when an index is created
    search.forget(…, row)                   the session is gone, or is read anew from its beginning
    search.add(…, row, events)              the events after those that were added before
    Tally.from_bytes(data).feed(events)      the same events; Tally().to_bytes() is kept in the row
    auto_tags(tally)                         the session's automatic tags, as lists show them

``row`` is the integer key of the session in the index (``sessions.row``).
"""

from __future__ import annotations

from holdfast._lazy import lazy

TYPE_CHECKING = False  # loading `typing` takes longer than the whole of a short command
if TYPE_CHECKING:
    from holdfast.catalog._catalog import Catalog, Health, Reindexed
    from holdfast.catalog._catch_up import Progress
    from holdfast.catalog._feeder import Feeder
    from holdfast.catalog._figures import Period, SessionFigures, Share, Stats, ToolFigures, TopicCount
    from holdfast.catalog._filter import (
        EVERYTHING,
        NEWEST,
        Filter,
        Order,
        Page,
        arranged,
        read_cursor,
        read_order,
        words_in,
    )
    from holdfast.catalog._index import Row, make_page, shown
    from holdfast.catalog._look import look
    from holdfast.catalog._newest import Listed, Newest, Number, newest
    from holdfast.catalog._prices import Prices, cost_of, read_prices
    from holdfast.catalog._retention import (
        Policy,
        RetentionDecision,
        RetentionPlan,
        Spared,
        live_limit,
        plan,
        protection,
        read_policies,
    )
    from holdfast.catalog._search import Asked, Hit, Hits, Snippet, scan_logs
    from holdfast.catalog._search_texts import ROLES
    from holdfast.catalog._short_ids import SHORT_CHARS, short_id
    from holdfast.catalog._stats import Timeline, TurnFigures, Wanted, count_index, timeline_of
    from holdfast.catalog._tally import Tally
    from holdfast.catalog._topics import Topic, topics
    from holdfast.catalog._usage import Calendar

# Loaded when first asked for: a program that only records needs none of it.
__getattr__ = lazy(
    __name__,
    {
        "_catalog": "Catalog Health Reindexed",
        "_catch_up": "Progress",
        "_feeder": "Feeder",
        "_figures": "Period SessionFigures Share Stats ToolFigures TopicCount",
        "_filter": "EVERYTHING NEWEST Filter Order Page arranged read_cursor read_order words_in",
        "_index": "Row make_page shown",
        "_look": "look",
        "_newest": "Listed Newest Number newest",
        "_retention": ("Policy RetentionDecision RetentionPlan Spared live_limit plan protection read_policies"),
        "_search": "Asked Hit Hits Snippet scan_logs",
        "_search_texts": "ROLES",
        "_short_ids": "SHORT_CHARS short_id",
        "_stats": "Timeline TurnFigures Wanted count_index timeline_of",
        "_tally": "Tally",
        "_topics": "Topic topics",
        "_prices": "Prices cost_of read_prices",
        "_usage": "Calendar",
    },
)

__all__ = ["Catalog", "Feeder", "Health", "Progress", "Reindexed"]
__all__ += ["Period", "SessionFigures", "Share", "Stats", "ToolFigures", "TopicCount"]
__all__ += ["EVERYTHING", "NEWEST", "Filter", "Order", "Page", "arranged", "read_cursor", "read_order", "words_in"]
__all__ += ["Listed", "Newest", "Number", "Row", "look", "make_page", "newest", "shown"]
__all__ += ["Policy", "RetentionDecision", "RetentionPlan", "Spared", "live_limit", "plan", "protection"]
__all__ += ["ROLES", "Asked", "Hit", "Hits", "Snippet", "read_policies", "scan_logs"]
__all__ += [
    "SHORT_CHARS",
    "Tally",
    "Timeline",
    "Topic",
    "TurnFigures",
    "Wanted",
    "count_index",
    "short_id",
    "timeline_of",
    "topics",
]
__all__ += ["Calendar", "Prices", "cost_of", "read_prices"]
