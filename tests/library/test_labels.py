"""Titles, tags, pins and holds through the facade."""

from __future__ import annotations

import subprocess
import sys
from operator import attrgetter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.errors import Locked, NotFound, TooLarge, UsageError


@pytest.fixture
def library(store_root):
    """A store with one session that is closed."""
    with holdfast.open(store_root) as found:
        with found.session("trip") as session:
            session.user("Plan a week in Lisbon, with flights and a hotel")
        yield found


def test_title(library):
    """Shown, set, and reset to the first words of the user."""
    assert library.title("trip").startswith("Plan a week")
    assert library.title("trip", "Lisbon") == "Lisbon"
    assert library.info("trip").title == "Lisbon"
    assert library.title("trip", "").startswith("Plan a week")


@pytest.mark.req("S2-61")
def test_tags(library):
    """Added and taken away as events; the session is closed afterwards."""
    assert library.tag("trip", "travel", "may") == ["travel", "may"]
    assert library.untag("trip", "travel") == ["may"]
    assert library.info("trip").tags == ("may",)
    assert [event.type for event in library.events("trip")].count("tag") == 2
    assert library.info("trip").open is False


@pytest.mark.req("S2-62")
def test_filter_by_given_and_automatic_tags(library):
    """A list by tag finds both kinds."""
    library.tag("trip", "mine")
    assert [row.session_id for row in library.list(tags=["mine"])] == ["trip"]
    assert [row.session_id for row in library.list(tags=["mine", "travel"])] == ["trip"]
    assert library.list(tags=["cooking"]) == []


@pytest.mark.req("S2-63")
def test_automatic_tags_are_no_events(library):
    """They are shown, explained, and nowhere in the log."""
    assert library.info("trip").auto_tags == ("travel",)
    first = library.topics("trip")[0]
    assert (first.tag, "1x hotel" in first.why) == ("travel", True)
    assert "tag" not in {event.type for event in library.events("trip")}


@pytest.mark.parametrize("tag", ["", "  ", "\n"])
def test_empty_tags_are_refused(library, tag):
    """None of the tags is recorded then."""
    with pytest.raises(UsageError):
        library.tag("trip", "fine", tag)
    assert library.info("trip").tags == ()


def test_tags_that_are_too_long(library):
    """Up to the limit they are kept, beyond it refused."""
    library.tag("trip", "x" * 200)
    with pytest.raises(TooLarge):
        library.tag("trip", "x" * 10_000)
    assert library.info("trip").tags == ("x" * 200,)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=200))
def test_tags_are_kept_exactly(library, tag):
    """Newlines, controls, emoji, quotes: a tag comes back as it was given, and is found."""
    if not tag.strip():
        return
    library.tag("trip", tag)
    assert tag in library.info("trip").tags
    assert [row.session_id for row in library.list(tags=[tag])] == ["trip"]
    library.untag("trip", tag)


def test_a_title_of_ten_thousand_characters(library):
    """It is kept whole."""
    assert library.title("trip", "é" * 10_000) == "é" * 10_000
    assert library.info("trip").title == "é" * 10_000


def test_pin(library):
    """Pinned and unpinned; doing it twice records it once."""
    library.policies.pin("trip")
    library.policies.pin("trip")
    assert library.info("trip").pinned
    library.policies.unpin("trip")
    library.policies.unpin("trip")
    assert not library.info("trip").pinned
    assert [event.type for event in library.events("trip")].count("metadata") == 2


def test_legal_hold(library):
    """Held with a reason until it is released."""
    library.policies.hold("trip", "case 7")
    assert library.info("trip").held
    assert library.state("trip").metadata["legal_hold"] == "case 7"
    library.policies.release("trip")
    assert not library.info("trip").held


def test_a_hold_needs_a_reason(library):
    """And not an endless one."""
    with pytest.raises(UsageError):
        library.policies.hold("trip", " ")
    with pytest.raises(TooLarge):
        library.policies.hold("trip", "x" * 2001)
    assert not library.info("trip").held


@pytest.mark.parametrize("verb", ["tag", "untag", "policies.hold", "title"])
def test_no_such_session(library, verb):
    """Labels make no sessions."""
    with pytest.raises(NotFound):
        attrgetter(verb)(library)("nobody", "x")
    assert not library.exists("nobody")


def test_a_session_that_is_open_here(library):
    """The live object is used, and stays open."""
    with library.session("trip") as session:
        library.tag("trip", "live")
        assert session.tags == ["live"]
        session.user("still here")


def test_a_session_that_another_process_has(library, store_root):
    """It is refused, with who has it."""
    program = (
        "import sys, holdfast\n"
        "s = holdfast.open(sys.argv[1]).session('trip')\n"
        "s.user('mine'); print('open', flush=True); sys.stdin.read()\n"
    )
    arguments = [sys.executable, "-c", program, str(store_root)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(Locked):
            library.tag("trip", "x")
        other.stdin.close()
    assert library.tag("trip", "x") == ["x"]
