"""Reading: the end first, earlier parts on demand, folds, jumps, and what is written meanwhile."""

from __future__ import annotations

import re

import pytest

import holdfast
from holdfast.apps.tui._window import PageReader, find_seq
from holdfast.errors import NotFound, UsageError


@pytest.fixture
def long(hf):
    """A session of many short turns."""
    with hf.session("long", title="A long talk") as s:
        for number in range(600):
            s.user(f"question {number}")
            s.assistant(f"answer {number}")
    return "long"


@pytest.mark.req("S2-55")
async def test_a_conversation_is_shown(sit, trip):
    """Markdown is laid out, code is there, calls and thinking are folded, images are named."""
    async with sit(size=(80, 40)) as seat:
        await seat.press("enter")
        shown = await seat.sees("Plan a week in Lisbon", "Just so.")
        assert "train to Sintra (https://example.org)" in shown
        assert "**" not in shown
        assert "for day in week:" in shown
        assert "▸ → Weather" in shown
        assert "day 0: sunny (+39 lines)" in shown
        assert "day 7: sunny" not in shown
        assert "▸ … thinking  Weather first. (+1 line)" in shown
        assert "[image]" in shown


async def test_folds_open_and_close(sit, trip):
    """Enter unfolds the chosen entry, o all of them, and a click one."""
    async with sit(size=(80, 100)) as seat:
        await seat.press("enter")
        await seat.sees("Just so.")
        await seat.press("left_square_bracket", "right_square_bracket")
        await seat.press("enter")
        await seat.sees("Then trains.")
        await seat.press("enter")
        await seat.misses("Then trains.")
        await seat.press("o")
        await seat.sees("Then trains.", "day 39: sunny")
        await seat.press("o")
        await seat.misses("day 39: sunny")
        line = next(at for at, text in enumerate(seat.shown.splitlines()) if "← Weather" in text)
        await seat.pilot.click(offset=(5, line))
        await seat.sees("day 39: sunny")


@pytest.mark.req("S2-94")
async def test_the_end_is_shown_without_reading_all(sit, hf, long, monkeypatch):
    """A long session opens at its end; only the last of its events are read for that."""
    read = []
    events = hf.events

    def counted(*arguments, **options):
        for event in events(*arguments, **options):
            read.append(event.seq)
            yield event

    monkeypatch.setattr(hf, "events", counted)
    async with sit() as seat:
        await seat.press("enter")
        await seat.sees("answer 599")
        assert min(read) > 1000
        await seat.press("home")
        await seat.sees("question 0")


@pytest.mark.unmeasured
async def test_earlier_parts_come_while_scrolling(sit, long):
    """What stands before is fetched when the top is near, and the lines in sight stay."""
    async with sit() as seat:
        await seat.press("enter")
        await seat.sees("answer 599")
        view = seat.app.screen.conversation
        first = view.loaded[0]
        view.scroll_to(y=0, animate=False)
        await seat.until(lambda: view.loaded[0] < first)
        assert view.loaded[1] > 1200
        await seat.press("end")
        await seat.sees("answer 599")


@pytest.mark.unmeasured
async def test_later_parts_come_too(sit, long):
    """From the beginning one comes to the end again by scrolling."""
    async with sit() as seat:
        await seat.press("enter")
        await seat.sees("answer 599")
        await seat.press("home")
        await seat.sees("question 0")
        view = seat.app.screen.conversation
        stop = view.loaded[1]
        view.scroll_end(animate=False)
        await seat.until(lambda: view.loaded[1] > stop)
        await seat.press("end")
        await seat.sees("answer 599")


@pytest.mark.unmeasured
@pytest.mark.parametrize(("text", "expected"), [("500", "question 2"), ("t10", "question 9"), ("t-1", "question 599")])
async def test_jumping(sit, long, text, expected):
    """To an event by its number, and to a turn from either end."""
    async with sit() as seat:
        await seat.press("enter")
        await seat.sees("answer 599")
        await seat.press("colon")
        await seat.sees("Jump to")
        await seat.type(text)
        await seat.press("enter")
        await seat.sees(expected)
        await seat.misses("Jump to")


def test_where_a_jump_leads(hf, trip):
    """Numbers beyond the end, times and turns; what is none of these is refused."""
    newest = PageReader(hf, trip).newest_seq()
    assert find_seq(hf, trip, "#99999") == newest
    assert find_seq(hf, trip, "2001-01-01") == 0
    assert find_seq(hf, trip, "2999-01-01") == newest
    assert find_seq(hf, trip, "0:00") == 0
    with pytest.raises(NotFound):
        find_seq(hf, trip, "t99")
    with pytest.raises(UsageError):
        find_seq(hf, trip, "somewhere")


async def test_what_another_program_writes_appears(sit, hf, trip, store_root):
    """A session that someone else records is followed, also the words of a stream."""
    async with sit() as seat:
        await seat.press("enter")
        await seat.sees("Just so.")
        with holdfast.open(store_root) as other, other.session(trip) as s:
            s.user("And then?")
            await seat.sees("And then?")
            s.delta("Home")
            shown = await seat.sees("Home")
            assert "cut off" not in shown
            s.assistant("Homewards.")
            await seat.sees("Homewards.")


async def test_side_by_side_where_there_is_room(sit, trip, fill):
    """On a wide terminal the conversation of the chosen session is beside the list."""
    fill(2)
    async with sit(size=(150, 40)) as seat:
        await seat.sees("words of note 1")
        await seat.press("down", "down")
        await seat.sees("Plan a week in Lisbon", "Note 1")
        await seat.pilot.resize_terminal(80, 24)
        await seat.misses("Plan a week in Lisbon")


async def test_a_session_that_cannot_be_read_is_told(sit, hf, trip, monkeypatch):
    """A failure of the store is a sentence, and the app goes on."""

    def fails(*arguments, **options):
        raise NotFound("it went away")

    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        monkeypatch.setattr(hf, "events", fails)
        await seat.press("enter")
        await seat.sees("it went away")
        await seat.press("escape")
        await seat.sees("Trip to Lisbon")


async def test_a_slow_store_is_told(sit, hf, trip, monkeypatch):
    """While the store takes its time the keys still work, and the screen says what it waits for."""
    import threading

    gate, events = threading.Event(), hf.events

    def slow(*arguments, **options):
        gate.wait(120)
        return events(*arguments, **options)

    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        monkeypatch.setattr(hf, "events", slow)
        await seat.press("enter")
        await seat.sees("reading …")
        await seat.press("question_mark")
        await seat.sees("Everywhere")
        await seat.press("escape")
        gate.set()
        await seat.sees("Just so.")


def test_a_long_turn_is_cut_into_chunks(hf):
    """A turn of many calls is read in parts; a result knows that its call is further back."""
    with hf.session("deep") as s:
        s.user("go")
        for number in range(700):
            s.tool_result(s.tool_call("Step", {"n": number}), "done")
    reader = PageReader(hf, "deep")
    last = reader.before(None)
    assert 0 < last.first < last.stop
    before = reader.before(last.first)
    assert before.stop == last.first
    assert all("not in the log" not in last.who(entry) for entry in last.entries)
    assert reader.around(3).first == 0


async def test_what_has_no_room_any_more_is_followed_to_its_end(sit, hf):
    """The first growth beyond the screen is seen to its end, and no line loses its own."""
    with hf.session("short") as s:
        s.user("count")
        s.flush()
        async with sit(ready="count", session_id="short") as seat:
            numbers = "".join(f"{number:03}" for number in range(420))
            s.user(f"{numbers} END")
            await seat.sees("END")

            def is_whole():
                counted = "".join(re.findall(r"(?m)^ +(\d+)\b", seat.shown))
                return len(counted) > 800 and numbers.endswith(counted)

            await seat.until(is_whole, "the end of it, with every line whole")


async def test_a_session_without_words_says_so(hf, sit):
    """Until something is said, which is shown in its place."""
    with hf.session("quiet", title="Quiet") as session:
        session.variables["x"] = 1
    async with sit() as seat:
        await seat.sees("Quiet")
        await seat.press("enter")
        await seat.sees("Nothing was said yet. Press c to talk.")
        with hf.session("quiet") as session:
            session.user("Hello there")
        await seat.sees("Hello there")
        await seat.misses("Nothing was said yet")
