"""5,000 hostile strings through every screen: what is written holds only our own sequences."""

from __future__ import annotations

import random
import re
import unicodedata
from itertools import islice

import pytest
from textual.drivers.headless_driver import HeadlessDriver

import holdfast
from holdfast.apps.tui import _page_screen
from holdfast.apps.tui._dialogs import Buttons, Pick, Prompt
from holdfast.catalog import Hit, Page, SessionFigures, Share, Snippet, Stats, ToolFigures, TopicCount
from holdfast.library.answers.turns import ToolQuestion
from holdfast.model import SessionMetadata
from holdfast.testing.model_server import AskForTool, Fail, Say

# Thousands of draws: without the coverage tracer, and other tests cover the same lines.
pytestmark = pytest.mark.slow

COUNT = 5_000
SIZE = (200, 300)
DIALOG = (90, 170)  # a dialog is no wider, and what lies behind it is drawn with it
WIDE = 640  # for what has one line; then few lines hold all of the strings
PLACES = 650  # no screen here is wider or higher
_ON_A_LINE = 32

# What a terminal would obey; the figures in it are such as the app itself never writes.
_CONTROLS = [*map(chr, range(0x20)), "\x7f", *map(chr, range(0x80, 0xA0))]
_SEQUENCES = [
    "\x1b[7777m",
    "\x1b[666;6666H",
    "\x1b[?6666h",
    "\x1b[2J",
    "\x1b[6n",
    "\x1b]0;owned\x07",
    "\x1b]8;;http://evil\x1b\\x\x1b]8;;\x1b\\",
    "\x1b]52;c;AAAA\x07",
    "\x9d52;c;AAAA\x9c",
    "\x9b7777m",
    "\x1bP+q544e\x1b\\",
    "\x90+q\x9c",
    "\x1b_Gi=1;AAAA\x1b\\",
    "\x1b^private\x1b\\",
    "\x1bXstring\x1b\\",
    "\x1bc",
    "\x1b(0",
    "\x1b#8",
    "\x1b[",  # the rest is in the string after it
    "\x1b",
    "7777m",
    "]0;split\x07",
    "&#27;[7777m",
    "&#155;7777m",
    "&#x202e;",
    "[@click=app.quit]x[/] [bold",
    "`\x1b[7777m`",
    "[x](\x1b]8;;y)",
]
_HIDDEN = [
    *map(chr, (0xAD, 0x34F, 0x61C, 0x115F, 0x17B4, 0x180E, 0x3164, 0xFEFF, 0xFFA0, 0xFFF9)),
    *map(chr, range(0x200B, 0x2010)),
    *map(chr, range(0x2028, 0x202F)),
    *map(chr, range(0x2060, 0x2070)),
    *map(chr, (0x13430, 0x1343F, 0xE0001, 0xE0041, 0xE007F, 0x1D173)),
]
_SURROGATES = ["\ud800", "\udfff", "\udc9b", "\udc1b"]

# What the app writes: colours, a place on the screen, modes that it sets, the mouse's shape.
_OURS = re.compile(r"\x1b\[(?:([0-9;]*)m|(\d+);(\d+)H|\?(\d+)[hl])|\x1b\]22;[a-z]{1,9}\x07")
_MODES = {"25", "2026"}


def strings(count=COUNT, *, surrogates=False):
    """As many hostile strings, always the same; each begins with a word of its own."""
    chance = random.Random(9)
    pieces = [*_CONTROLS, *_SEQUENCES, *_HIDDEN, *(_SURROGATES if surrogates else [])]
    for number in range(count):
        hostile = [pieces[number % len(pieces)], *chance.choices(pieces, k=chance.randrange(3))]
        yield f"h{number:04}" + "".join(hostile)


def batched(texts, size):
    """Lists of so many."""
    rest = iter(texts)
    while found := list(islice(rest, size)):
        yield found


class Written:
    """Everything that was written to the terminal."""

    def __init__(self):
        self.parts = []

    def check(self, least=COUNT):
        """Only our own sequences are in it, and so many of the strings were seen.

        All of them, but for screens that cut what they show: there a part.
        """
        text = "".join(self.parts)
        self.parts.clear()
        rest = _OURS.sub(_known, text)
        bad = {char for char in set(rest) if _is_obeyed(char)}
        assert not bad, [rest[max(rest.index(char) - 30, 0) :][:60] for char in sorted(bad)]
        text.encode("utf-8")
        seen = set(re.findall(r"h\d{4}", rest))
        assert len(seen) >= least, len(seen)


def _known(found):
    """Nothing in the place of a sequence of ours; anything else stays to be found."""
    colours, row, column, mode = found.groups()
    if colours is not None:
        is_ours = all(int(part or 0) < 256 for part in colours.split(";"))
    elif mode is not None:
        is_ours = mode in _MODES
    else:
        is_ours = row is None or (int(row) <= PLACES and int(column) <= PLACES)
    return "" if is_ours else found[0]


def _is_obeyed(char):
    if char in "\n\ufe0e\ufe0f":
        return False
    is_hidden = unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    return is_hidden or char in "\u034f\u115f\u17b4\u3164\uffa0"


@pytest.fixture
def written(monkeypatch):
    """What a real terminal would get."""
    found = Written()
    monkeypatch.setattr(HeadlessDriver, "is_headless", property(lambda _: False))
    monkeypatch.setattr(HeadlessDriver, "write", lambda _, data: found.parts.append(data))
    return found


async def leaf_through(seat, view):
    """Every page of what scrolls."""
    place = 0
    while True:
        view.scroll_to(y=place, animate=False, immediate=True)
        await seat.pilot.pause()
        await seat.until(lambda: not getattr(view, "_busy", False))
        if view.scroll_offset.y >= view.max_scroll_y:
            return
        # From where it came to: beyond the end it stays there until the next part is fetched.
        place = view.scroll_offset.y + view.size.height - 2


def test_the_check_finds_what_it_is_for():
    """Each hostile piece that came through as it is would be found."""
    for piece in [*_CONTROLS, *_SEQUENCES[:20], *_HIDDEN]:
        if piece != "\n" and any(_is_obeyed(char) for char in piece):
            found = Written()
            found.parts.append(f"\x1b[1;38;2;9;9;9mfine\x1b[3;4H{piece}")
            with pytest.raises(AssertionError):
                found.check(0)


@pytest.fixture
def crowd(hf, monkeypatch):
    """5,000 sessions of which everything is hostile."""
    texts = list(strings())
    rows = [
        SessionMetadata(
            session_id=f"s{number}",
            title=text,
            tags=[texts[-number - 1]],
            auto_tags=[texts[number // 2]],
            model="".join(texts[number * _ON_A_LINE % COUNT :][:_ON_A_LINE]),
            status="waiting",
            updated_at=COUNT - number,
        )
        for number, text in enumerate(texts)
    ]
    monkeypatch.setattr(hf, "list", lambda *_, **__: Page(rows))


@pytest.mark.usefixtures("crowd")
async def test_the_list(sit, written):
    """Titles, tags, topics and states."""
    async with sit(size=SIZE) as seat:
        await seat.sees("h0001")
        await leaf_through(seat, seat.app.screen.sessions)
        written.check()


@pytest.mark.usefixtures("crowd")
async def test_the_line_of_status(sit, written):
    """The model of each session, as the cursor comes to it."""
    async with sit(size=(WIDE, 6)) as seat:
        await seat.sees("h0001")
        for _ in range(COUNT // _ON_A_LINE):
            seat.app.screen.sessions.action_move(1)
            seat.app.screen.tell_status()
            await seat.pilot.pause()
        written.check(int(COUNT * 0.6))


async def test_conversation_time_travel_and_comparison(sit, hf, written):
    """Words, thinking, calls, results, failures, notes, memory, variables and todos."""
    record(hf, "evil", strings())
    hf.fork("evil", 20, new_id="twin", title="twin\x1b[2J")
    record(hf, "twin", reversed(list(strings())))
    async with sit(size=SIZE, session_id="evil") as seat:
        view = seat.app.screen.conversation
        await seat.until(lambda: view.loaded[1] > 0)
        await seat.press("o", "home")
        await seat.sees("h0001")
        await leaf_through(seat, view)
        await seat.until(lambda: view.loaded[0] == 0)
        written.check()
        await seat.press("v")
        await seat.sees("Memory (")
        await leaf_through(seat, seat.app.screen.page)
        written.check(COUNT // 5)
        await seat.press("escape", "escape", "space", "up", "equals_sign")  # the newer one, "twin", is above
        await seat.sees("Turns")
        await seat.press("o")
        await seat.until(lambda: seat.app.screen._full)
        await seat.rests()
        await leaf_through(seat, seat.app.screen.page)
        written.check(COUNT // 2)


def record(hf, session_id, texts):
    """A session in which every kind of event holds some of the strings."""
    with hf.session(session_id, title="\x1b]0;owned\x07") as s:
        clean = (text.replace("\0", "") for text in texts)  # which no session takes
        for number, few in enumerate(batched(clean, 20)):
            text = "\n".join(few)
            if number % 5 == 0:
                s.user(text)
            elif number % 5 == 1:
                s.assistant(text)
            elif number % 5 == 2:
                s.append("thinking", {"content": text})
            elif number % 5 == 3:
                s.tool_result(s.tool_call(few[0][:60], {few[1]: text}), text)
            else:
                s.memory.set(f"m{number}", " ".join(few))
                s.variables[f"v{number}"] = " ".join(few)
                s.todos.write([{"content": one, "status": "pending"} for one in few])
                s.tool_result(s.tool_call("t", {}), text, is_error=True)


async def test_search(sit, hf, written, monkeypatch):
    """Titles, tools and snippets of hits; and what is pasted into the query."""
    hits = [
        Hit(
            session_id="s",
            seq=1,
            role=few[0],
            tool=few[1],
            title=few[2],
            snippet=Snippet("".join(few[3:]), ((3, 9),)),
            score=1.0,
            timestamp=0,
        )
        for few in batched(strings(), 8)
    ]
    answers = [hits]
    monkeypatch.setattr(hf, "search", lambda *_, **__: answers.pop() if answers else [])
    async with sit(size=(WIDE, 100)) as seat:
        await seat.press("f", "x")
        await seat.sees("h0001")
        await leaf_through(seat, seat.app.screen.query_one("HitList"))
        for few in batched(strings(surrogates=True), _ON_A_LINE):
            seat.app.screen.query_one("#query").value = "".join(few)
            await seat.pilot.pause()
        written.check()


async def test_branches(sit, hf, trip, written, monkeypatch):
    """Titles and ids of a family of 5,000."""
    rows = [
        SessionMetadata(session_id=trip if not number else text, title=text, updated_at=-number)
        for number, text in enumerate(strings())
    ]
    monkeypatch.setattr(_page_screen, "family", lambda *_: (rows, False))
    async with sit(size=SIZE) as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("b")
        await seat.sees("h0001")
        await leaf_through(seat, seat.app.screen.page)
        written.check()


async def test_analytics(sit, hf, written, monkeypatch):
    """Names of models, agents, tags, tools, topics and sessions, page by page."""
    pages = [_stats(few) for few in batched(strings(), 500)]
    monkeypatch.setattr(hf, "stats", lambda *_, **__: pages.pop() if len(pages) > 1 else pages[0])
    async with sit(size=SIZE) as seat:
        await seat.press("a")
        while len(pages) > 1:
            left = len(pages)
            await seat.until(lambda: seat.app.screen.page._lines)
            await seat.press("p")
            await seat.until(lambda left=left: len(pages) < left)
            await seat.rests()
        written.check(COUNT // 2)


def _stats(few):
    parts = ["".join(some) for some in batched(few, 10)]
    return Stats(
        sessions=1,
        tokens=1,
        tz=parts[0],
        unpriced_tokens=1,
        unpriced_models=parts[1:4],
        hours=[1] * 24,
        weekdays=[1] * 7,
        models=[Share(name=part, tokens=1) for part in parts[4:12]],
        agents=[Share(name=part, tokens=1) for part in parts[12:20]],
        tags=[Share(name=part, tokens=1) for part in parts[20:28]],
        tools=[ToolFigures(name=part, calls=1) for part in parts[28:36]],
        topics=[TopicCount(part, 1) for part in parts[36:42]],
        longest=[SessionFigures(session_id=part, title=part) for part in parts[42:46]],
        most_expensive=[SessionFigures(session_id=part, title=part) for part in parts[46:]],
    )


async def test_dialogs_permissions_and_messages(sit, hf, trip, written):
    """Questions, details, choices, names of files, arguments of tools, and what is told."""
    async with sit(size=DIALOG) as seat:
        app = seat.app
        for few in batched(strings(surrogates=True), 500):
            text = " ".join(few)
            for dialog in (
                Prompt(text[: len(text) // 2], few[0], text[len(text) // 2 :]),
                Buttons(text, [("y", "Yes", "y")], text[:900]),
                Pick(few[1], [(one, one) for one in few[:40]]),
            ):
                app.push_screen(dialog)
                await seat.pilot.pause()
                await seat.press("escape")
            parts = {"session_id": few[5], "tool_id": few[6], "tool_name": few[2], "description": few[4]}
            app.ask_permission(ToolQuestion(**parts, params={few[3]: text}, question=few[0]))
            await seat.pilot.pause()
            await seat.press("escape")
            app.tell(f"wrote {text}")
            app.tell_failure(OSError(text))
            app.tell_failure(holdfast.HoldfastError(text, remedy=few[7]))
            await seat.pilot.pause()
            app.clear_notifications()
        written.check()


async def test_what_was_typed_before(sit, trip, written):
    """Lines of the history, which are a file, in the line to talk in."""
    async with sit(size=(WIDE, 12), session_id=trip) as seat:
        await seat.press("c")
        line = seat.app.screen.query_one("#say")
        await seat.until(lambda: line._history is not None)
        line._lines = ["".join(few) for few in batched(strings(surrogates=True), 2 * _ON_A_LINE)]
        line._at = len(line._lines)
        for _ in line._lines:
            line.action_recall(-1)
            line.cursor_position = 0
            await seat.pilot.pause()
        written.check(COUNT // 4)


_ROUNDS = 4


async def test_talking(sit, hf, trip, model, written):
    """Words as they come, thinking, names and arguments of tools, what comes of them, failures."""
    shares = list(batched((text.replace("\0", "\1") for text in strings()), COUNT // _ROUNDS))
    script = (step for share in shares for step in _talk(share))
    model.follow(lambda _: next(script))
    async with sit(size=(116, 190), ready="Just so.", session_id=trip) as seat:  # without the list
        await seat.press("c", *"go")
        for share in shares:
            seat.app.screen.query_one("#say").value = share[3]
            await seat.press("enter")
            await seat.sees("May the agent use read_file?")
            await seat.press("y")
            await seat.sees("the end of it")
            await seat.until(lambda: not seat.app.talks.is_running(trip))
            await seat.press("escape", "o", "c")
            await seat.pilot.pause()
            hf.title(trip, share[4])
            seat.app.screen.query_one("#say").value = "and"
            await seat.press("enter")
            await seat.until(lambda: seat.app._notifications)
            await seat.pilot.pause()
            seat.app.clear_notifications()
        written.check(int(COUNT * 0.9))
    recorded = [event.data["content"] for event in hf.events(trip, types=["assistant"])]
    assert "the end of it" in recorded[-1]


def _talk(share):
    """What a model says in one round: a tool that needs a permission, an answer, a failure."""
    yield AskForTool("read_file", {"path": f"./{' '.join(share[:40])}"})
    yield AskForTool("".join(share[40:43]), {share[43]: " ".join(share[44:80])})
    # A piece of an answer ends at a blank; each is some strings long.
    said = " ".join("·".join(few) for few in batched(share[80:], 25))
    yield Say(f"{said} the end of it", thinking=" ".join(share[:80]))
    yield Fail(400, " ".join(share[:60]))
