"""Answers of a search, apart from the others: they need not load what searches."""

from __future__ import annotations

from msgspec import Struct

from holdfast.catalog import Hit


class SearchHits(Struct, frozen=True, kw_only=True):
    """The hits of a search, best first."""

    hits: list[Hit]


class SearchAnswer(SearchHits, frozen=True, kw_only=True):
    """A query and its hits, best first."""

    query: str
