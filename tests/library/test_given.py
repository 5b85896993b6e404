"""What callers give in the place of what is asked for: a UsageError, before anything is done."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest

from holdfast.errors import HoldfastError, InvalidId, UsageError
from holdfast.library import Holdfast

WRONG = (None, True, 1.5, float("inf"), "", "x", "\ud800", b"x", [], {}, object(), 10**400)


@pytest.fixture(scope="module")
def hf():
    """One session in memory, which nothing here changes."""
    with Holdfast("memory:", timers=False) as library:
        with library.session("a") as s:
            s.user("x")
        yield library


ASKED = {
    "list": lambda hf, wrong: [
        partial(hf.list, **{name: wrong})
        for name in ("limit", "tags", "agent_id", "status", "sort", "model", "parent", "after")
    ],
    "search": lambda hf, wrong: [
        partial(hf.search, **{"query": "x", name: wrong})
        for name in ("query", "limit", "tags", "session_id", "role", "tool")
    ],
    "events": lambda hf, wrong: [
        partial(hf.events, **{"id": "a", name: wrong}) for name in ("id", "start", "stop", "types", "limit")
    ],
    "one session": lambda hf, wrong: [
        lambda: hf.follow("a", wrong),
        lambda: hf.state("a", wrong),
        lambda: hf.recover("a", at=wrong),
        lambda: hf.recover("a", window_tokens=wrong),
        lambda: hf.export("a", at=wrong),
        lambda: hf.export("a", zone=wrong),
        lambda: hf.lineage(wrong),
        lambda: hf.session(wrong, read_only=True),
    ],
    "the store": lambda hf, wrong: [
        lambda: hf.stats(tz=wrong),
        lambda: hf.session_ids(wrong),
        lambda: hf.prune(dry_run=True, policies=wrong),
        lambda: hf.import_(wrong),
        lambda: hf.import_(b"[]", format=wrong),
        lambda: hf.copy_to(wrong, ids=()) if not isinstance(wrong, str) else None,
        lambda: Holdfast("memory:", key=wrong),
        lambda: Holdfast("memory:", config=wrong) if not isinstance(wrong, str) else None,
    ],
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: ascii(wrong)[:12])
@pytest.mark.parametrize("place", ASKED)
def test_what_is_given_is_taken_or_refused_in_our_words(hf, place, wrong):
    """No method lets an error of Python or of a database out."""
    for ask in ASKED[place](hf, wrong):
        with suppress(HoldfastError):
            ask()


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda hf: hf.list(limit=1.5), "whole number"),
        (lambda hf: hf.list(tags=[5]), "list of texts"),
        (lambda hf: hf.events("a", start="1"), "whole number"),
        (lambda hf: hf.state("a", at="1"), "whole number"),
        (lambda hf: hf.import_(5), "not int"),
        (lambda hf: hf.prune(policies=[{}]), "Policy"),
        (lambda hf: Holdfast(5), "not int"),
        (lambda hf: Holdfast("memory:", key=5), "not int"),
        (lambda hf: Holdfast("memory:", config=5), "not int"),
    ],
)
def test_the_refusal_names_what_was_wrong(hf, ask, words):
    """A UsageError says what it takes."""
    with pytest.raises(UsageError, match=words):
        ask(hf)


def test_an_id_that_cannot_be_one_is_refused_in_the_same_way(hf):
    """Whatever it is."""
    for wrong in ([], {}, 5, b"x"):
        with pytest.raises(InvalidId):
            hf.session(wrong)


def test_a_single_type_of_event_is_one_type(hf):
    """And not every type whose name is part of it; the order of arguments is the documented one."""
    assert [event.type for event in hf.events("a", 0, None, "user", False, 5)] == ["user"]
    assert list(hf.events("a", types="user and opened")) == []


@pytest.mark.parametrize(
    "do",
    [
        lambda s: s.add_turn([], "x"),
        lambda s: s.extend(5),
        lambda s: s.todos.write(5),
        lambda s: s.memory.get([]),
        lambda s: s.memory.delete([]),
        lambda s: s.messages([]),
        lambda s: s.events("x"),
        lambda s: s.append("metadata", {}, key=[]),
    ],
)
def test_a_session_refuses_in_our_words_too(do):
    """Nothing is recorded then."""
    with Holdfast("memory:", timers=False) as hf, hf.session("b") as s:
        s.user("x")
        before = s.seq
        with pytest.raises(HoldfastError):
            do(s)
        assert s.seq == before
