"""Tokens are estimated where nobody told how many were used, and marked as estimates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.catalog import Tally
from holdfast.model import Event

pytestmark = pytest.mark.stores("files", "sqlite", "postgres")


def note(hf, id="notes", **more):
    with hf.session(id) as s:
        s.user("Remember the milk.", **more)
        s.assistant("I will.")


@pytest.mark.req("S2-109")
def test_a_session_without_usage_has_an_estimate(hf):
    """In its row and in the sums, marked, and apart from what was told; reindex changes nothing."""
    note(hf)
    with hf.session("told") as s:
        s.user("hi")
        s.assistant("ho", usage={"input_tokens": 100, "output_tokens": 5}, model="gpt-5")
    for _ in range(2):
        rows = {row.session_id: (row.total_tokens, row.tokens_estimated) for row in hf.list()}
        assert rows == {"notes": (7, True), "told": (105, False)}
        stats = hf.stats(tz="UTC")
        assert (stats.tokens, stats.estimated_tokens) == (105, 7)
        assert [period.estimated_tokens for period in stats.periods] == [7]
        assert stats.unpriced_tokens == 0
        hf.reindex()


@pytest.mark.req("S2-109")
def test_what_a_message_says_of_itself_counts(hf):
    """``token_count`` is taken before any guess; nonsense in it is not."""
    note(hf, token_count=12)
    assert hf.info("notes").total_tokens == 12 + 2
    for number, wrong in enumerate([-1, True, "9", 1.5, None]):
        note(hf, f"n{number}", token_count=wrong)
        assert hf.info(f"n{number}").total_tokens == 7


def test_usage_ends_the_estimate(hf):
    """The first figure that is told counts, and nothing is estimated any more."""
    note(hf)
    assert hf.info("notes").tokens_estimated
    with hf.session("notes") as s:
        s.usage(input_tokens=50, output_tokens=4)
    row = hf.info("notes")
    assert (row.total_tokens, row.tokens_estimated) == (54, False)
    assert hf.stats(tz="UTC").estimated_tokens == 0


def test_forks_have_estimates_of_their_own(hf):
    """A fork's row tells the whole conversation, and the sum has each message once."""
    note(hf)
    fork = hf.fork("notes")
    with hf.session(fork) as s:
        s.user("1234" * 10)
    assert hf.info(fork).total_tokens == 17
    assert hf.stats(tz="UTC").estimated_tokens == 17


def test_tools_and_blocks_are_estimated_too(hf):
    """Calls, results and texts in blocks have a length as well."""
    with hf.session("a") as s:
        s.user([{"type": "text", "text": "x" * 40}, {"type": "image", "source": {}}, "odd"])
        call = s.tool_call("Read", {"path": "a" * 31})
        s.tool_result(call, "y" * 38)
    assert hf.info("a").total_tokens == 10 + 11 + 10


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant", "system", "forked"]),
        st.text(max_size=40),
        st.one_of(st.none(), st.integers(-5, 100)),
    ),
    max_size=12,
)


@given(EVENTS, st.integers(0, 12))
def test_pieces_do_not_matter(said, cut):
    """A tally that is kept and gone on with gives the same estimate as one made at once."""
    events = [
        Event.make(type, {"content": text, "token_count": count}, seq=seq, timestamp=seq + 1)
        for seq, (type, text, count) in enumerate(said)
    ]
    whole = Tally().feed(events)
    part = Tally.from_bytes(Tally().feed(events[:cut]).to_bytes()).feed(events[cut:])
    assert part.to_bytes() == whole.to_bytes()
    counts = [count if count is not None and count >= 0 else None for _, _, count in said]
    assert whole.estimate == sum(
        -(-len(text.encode()) // 4) if count is None else count
        for (type, text, _), count in zip(said, counts, strict=True)
        if type != "forked"
    )
