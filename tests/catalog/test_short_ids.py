"""Ids as short as they can be told apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.catalog._short_ids import short_id


def test_a_short_id_is_as_long_as_it_must_be():
    """At least seven characters, none of them a separator at the end; a name of sixteen stays whole."""
    long = "01m7pqkhhn0hrs2kctbpcpp1bm"
    assert short_id(long, [long]) == "01m7pqk"
    assert short_id(long, [long, "01M7PQKHHX0hrs2kctbpcpp1bm"]) == "01m7pqkhhn"
    assert short_id("from-the-future", []) == "from-the-future"
    assert short_id("release-the-hounds-now", ["releasex"]) == "release-t"


@given(st.lists(st.text("ab-", min_size=17, max_size=20), min_size=1, max_size=6, unique=True))
def test_no_other_id_begins_like_a_short_one(ids):
    """What is shown is taken: it is the beginning of one id only, or a whole one."""
    for id in ids:
        short = short_id(id, ids)
        assert id.startswith(short)
        assert short == id or sum(other.startswith(short) for other in ids) == 1


def test_what_a_list_shows_is_taken(tmp_path):
    """The short forms that the library gives are beginnings by which each session is found."""
    with holdfast.open(tmp_path / "store") as hf:
        made = []
        for _ in range(20):
            with hf.session() as s:
                s.user("hi")
                made.append(s.id)
        short = hf.short_ids(made)
        assert all(hf.session_ids(short[id]) == [id] for id in made)
        assert max(map(len, short.values())) < 14
