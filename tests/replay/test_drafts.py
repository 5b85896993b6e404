"""Drafts of messages, end to end in one list, and dicts that share their keys."""

from __future__ import annotations

import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.replay._pieces import ROLES, Drafts
from holdfast.replay._text import template

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(ROLES), st.sampled_from(["text", "image"])),
        st.tuples(st.just("cut"), st.integers(0, 40)),
        st.tuples(st.just("summary"), st.just("")),
    ),
    max_size=60,
)


@given(_STEPS)
def test_drafts_are_what_a_list_for_each_message_would_be(steps: list[tuple[str, Any]]) -> None:
    """Whatever is added and cut, each message has its blocks, events, role and mark."""
    drafts = Drafts()
    plain: list[dict[str, Any]] = []
    for seq, (what, value) in enumerate(steps):
        before = _told(drafts)
        if what == "cut":
            first = drafts.cut(min(value, len(drafts.flat)))
            plain = _cut(plain, min(value, sum(len(one["blocks"]) for one in plain)))
            assert _told(drafts)[:first] == before[:first]
            assert all(old != new for old, new in zip(before[first:], plain[first:], strict=False))
        elif what == "summary":
            if plain:
                drafts.mark_summary()
                plain[-1]["summary"] = True
        elif plain or what == "user":
            drafts.add(what, {"type": value}, seq)
            if not plain or plain[-1]["role"] != what:
                plain.append({"role": what, "blocks": [], "seqs": [], "summary": False})
            plain[-1]["blocks"].append({"type": value})
            plain[-1]["seqs"].append(seq)
        assert _told(drafts) == plain
        assert len(drafts) == len(plain)
        last = plain[-1]["blocks"] if plain else []
        assert drafts.last_count() == len(last)
        if last:
            assert drafts.last_blocks(1) == last[1:]
            assert drafts.last_is_texts() == all(block["type"] == "text" for block in last)


def test_a_summary_goes_with_its_message() -> None:
    """A message that is cut off, or cut short, is no longer one with a summary in it."""
    drafts = Drafts()
    for seq, role in enumerate(("user", "assistant", "user", "user")):
        drafts.add(role, {"type": "text"}, seq)
        drafts.mark_summary()
    assert drafts.cut(3) == 2
    assert [one.summary for one in drafts] == [True, True, False]
    assert drafts.cut(1) == 1
    assert [one.summary for one in drafts] == [True]


def _told(drafts: Drafts) -> list[dict[str, Any]]:
    found = [{"role": one.role, "blocks": one.blocks, "seqs": list(one.seqs), "summary": one.summary} for one in drafts]
    for index, one in enumerate(found):
        assert drafts.blocks(index) == one["blocks"]
        assert list(drafts.seqs(index)) == one["seqs"]
    return found


def _cut(plain: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    kept = []
    for one in plain:
        if count <= 0:
            break
        if count >= len(one["blocks"]):
            kept.append(one)
        else:
            blocks, seqs = one["blocks"][:count], one["seqs"][:count]
            kept.append({**one, "blocks": blocks, "seqs": seqs, "summary": False})
        count -= len(one["blocks"])
    return kept


def test_copies_of_a_template_are_plain_dicts_that_take_less() -> None:
    """They are equal to ordinary ones, may be changed alone, and are smaller."""
    of_text = template(type="text", text="")
    one, other = of_text.copy(), of_text.copy()
    one["text"] = "a"
    other["text"] = "b"
    other["more"] = 1
    assert (one, other) == ({"type": "text", "text": "a"}, {"type": "text", "text": "b", "more": 1})
    assert type(one) is dict
    assert list(one) == ["type", "text"]
    assert of_text == {"type": "text", "text": ""}
    assert sys.getsizeof(one) < sys.getsizeof({"type": "text", "text": "a"})
