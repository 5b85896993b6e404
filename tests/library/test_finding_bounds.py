"""Times that are none are refused before an index meets them."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.errors import UsageError


@pytest.mark.parametrize("when", [1e300, -1e300, 2**80, float("inf"), float("nan"), 1e16])
def test_a_time_beyond_every_calendar_is_refused(when):
    """UsageError from lists, searches and figures, never an error of the database."""
    with holdfast.open("memory:") as hf:
        with hf.session("one") as session:
            session.user("hello")
        for ask in (
            lambda: hf.list(since=when),
            lambda: hf.search("hello", until=when),
            lambda: hf.stats(since=when),
        ):
            with pytest.raises(UsageError):
                ask()
