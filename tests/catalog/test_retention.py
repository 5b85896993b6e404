"""Which sessions policies let go."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.catalog._retention import Policy, age_ms, live_limit, plan, read_policies, size_in_bytes
from holdfast.errors import UsageError
from holdfast.model import SessionMetadata

DAY = 86_400_000
NOW = 1000 * DAY


def row(id, days=0, **more):
    return SessionMetadata(session_id=id, updated_at=NOW - days * DAY, size_bytes=100, **more)


def decided(rows, *policies):
    return [(one.session_id, one.action) for one in plan(rows, policies, NOW).decisions]


def test_an_age_lets_go_what_was_not_used_for_longer():
    """A policy by age takes what is older, and says how old it is."""
    found = plan([row("a", 3), row("b", 91)], read_policies([{"older_than": "90d"}]), NOW)
    assert [(one.session_id, one.action) for one in found.decisions] == [("b", "archive")]
    assert found.decisions[0].why == "last used 91 days ago, over 90"


def test_a_number_keeps_the_newest():
    """A policy by number takes what comes after the newest so many."""
    assert decided([row("a"), row("b", 1), row("c", 2)], Policy(keep=2)) == [("c", "archive")]


def test_a_size_keeps_the_newest_that_fit():
    """A policy by size takes what the newer ones leave no room for."""
    rows = [row("a"), row("b", 1), row("c", 2)]
    assert decided(rows, Policy(size_bytes=200)) == [("c", "archive")]


def test_a_policy_speaks_only_of_its_tag_and_agent():
    """Sessions without the tag, or of another agent, are not counted and not taken."""
    rows = [
        row("a", tags=("x",)),
        row("b", tags=("y",)),
        row("c", agent_id="z", tags=("x",)),
        row("d", auto_tags=("x",)),
    ]
    assert decided(rows, Policy(tag="x", keep=0)) == [("a", "archive"), ("c", "archive"), ("d", "archive")]
    assert decided(rows, Policy(tag="x", agent="z", keep=0)) == [("c", "archive")]


def test_deletion_counts_before_archiving_whatever_the_order():
    """A session that one policy archives and another deletes is deleted."""
    policies = [Policy(keep=0), Policy(older_than_ms=DAY, action="delete")]
    assert decided([row("a"), row("b", 5)], *policies) == [("a", "archive"), ("b", "delete")]


def test_what_is_archived_is_not_archived_again_and_does_not_count_as_live():
    """The limit of live sessions looks at live ones alone; deletion looks at all."""
    rows = [row("a", archived=True), row("b"), row("c", 1)]
    assert decided(rows, live_limit(1)) == [("c", "archive")]
    assert decided(rows, Policy(keep=2, action="delete")) == [("c", "delete")]


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        ({"held": True}, "it is under legal hold"),
        ({"pinned": True}, "it is pinned"),
        ({"tags": ("keep",)}, "it is tagged keep"),
        ({"open": True}, "it is open"),
        ({"state": "sealed"}, "it cannot be read"),
    ],
)
def test_what_people_keep_is_spared_and_it_is_said_why(kept, why):
    """Open, pinned, held and tagged-keep sessions are let go by no policy."""
    found = plan([row("a", 500, **kept)], [Policy(keep=0, action="delete")], NOW)
    assert (found.decisions, [one.why for one in found.spared]) == ([], [why])


@given(
    st.lists(
        st.builds(
            SessionMetadata,
            session_id=st.uuids().map(str),
            updated_at=st.integers(-(2**62), 2**62),
            size_bytes=st.integers(0, 2**40),
            tags=st.sampled_from([(), ("keep",), ("x",)]),
            pinned=st.booleans(),
            held=st.booleans(),
            open=st.booleans(),
            archived=st.booleans(),
        ),
        max_size=20,
    ),
    st.lists(
        st.builds(
            Policy,
            tag=st.sampled_from([None, "x"]),
            older_than_ms=st.none() | st.integers(0, 2**50),
            keep=st.none() | st.integers(0, 5),
            size_bytes=st.none() | st.integers(0, 2**41),
            action=st.sampled_from(["archive", "delete"]),
        ),
        max_size=3,
    ),
)
def test_no_set_of_policies_takes_what_is_kept_and_each_session_is_told_once(rows, policies):
    """Whatever the clocks and policies say: kept sessions stay, and each decision has a reason."""
    found = plan(rows, policies, NOW)
    kept = {r.session_id for r in rows if r.pinned or r.held or r.open or "keep" in r.tags}
    taken = [one.session_id for one in found.decisions]
    assert not kept & set(taken)
    assert len(taken) == len(set(taken))
    assert all(one.why for one in found.decisions)


def test_policies_are_read_as_people_write_them():
    """Ages and sizes have units."""
    written = [{"tag": "scratch", "older_than": "12h", "size": "2 GB", "action": "delete"}]
    assert read_policies(written) == [
        Policy(tag="scratch", older_than_ms=DAY // 2, size_bytes=2 * 1024**3, action="delete")
    ]
    assert (age_ms("1y"), age_ms("2w")) == (365 * DAY, 14 * DAY)
    assert (size_in_bytes("10"), size_in_bytes(7), size_in_bytes("1kib")) == (10, 7, 1024)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({}, "list of tables"),
        ([{}], "policy 1 names no bound"),
        ([{"keep": 1}, {"olderthan": "3d"}], "policy 2: .*olderthan"),
        ([{"older_than": "soon"}], "is no age"),
        ([{"size": "much"}], "is no size"),
        ([{"keep": -1}], "0 or more"),
        ([{"keep": 1, "action": "burn"}], "burn"),
        (["x"], "policy 1"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_its_number(written, said):
    """A misspelt member, an unknown action or a missing bound is a clear error, never a guess."""
    with pytest.raises(UsageError, match=said):
        read_policies(written)


def test_a_plan_is_data_for_programs():
    """The plan can be printed as JSON."""
    found = plan([row("a", 5)], [Policy(keep=0)], NOW)
    assert b'"action":"archive"' in msgspec.json.encode(found)
