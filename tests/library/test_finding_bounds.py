"""Times that are none are refused before an index meets them."""

from __future__ import annotations

import datetime as dt

import pytest

import holdfast
from holdfast.errors import UsageError


@pytest.mark.parametrize("when", [0, 1_700_000_000, 1e300, float("nan"), "2026-05-01", dt.date.min])
def test_a_time_is_a_datetime(when):
    """Bare seconds and texts are refused by lists, searches and figures: nobody could tell them."""
    with holdfast.open("memory:") as hf:
        with hf.session("one") as session:
            session.user("hello")
        for ask in (lambda: hf.list(since=when), lambda: hf.search("hello", until=when), lambda: hf.stats(since=when)):
            with pytest.raises(UsageError):
                ask()
