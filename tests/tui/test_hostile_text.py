"""Whatever a session holds: only our own control sequences reach the terminal."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.markdown import Markdown
from rich.text import Text

import holdfast
from holdfast.apps.tui import SessionsApp
from holdfast.apps.tui._dialogs import Buttons
from holdfast.apps.tui._entry_lines import EntryLook, block_of
from holdfast.apps.tui._safe import content, cut, lay_out, one_line
from holdfast.replay import Entry

pytestmark = pytest.mark.unmeasured

_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
TRICKS = [
    "\x1b]0;owned\x07",
    "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[H",
    "\x9b31m\x9d52;c;AAAA\x9c",
    "\x1bP+q544e\x1b\\",
    "\u202egnp.exe",
    "a\u200bb\u2066c\u2069",
    "\r\nover\rwritten\x08\x08",
    "[bold red]markup[/] [link=http://evil]x[/link] [@click=app.quit]quit[/]",
    "&#27;[31m &#x202e; &#155; &ZeroWidthSpace; &rlm;",
    "[x](http://evil 'title') ![i](file:///etc/passwd) <script>alert(1)</script>",
    "\ud7ff\U000e0001\U000e007f",
    "```\x1b[31m\n\x1b]0;x\x07\n```",
    "| a\x1b[1m | b |\n|---|---|\n| \x9b | \u200d |",
]
texts = st.one_of(
    st.sampled_from(TRICKS),
    st.text(max_size=60),
    st.lists(
        st.sampled_from([*"\x1b\x9b\x9d\x07\r\b\u202e\u2066\u200d[];m0", "&#27;", "`", "*", "|", "\n"]), max_size=30
    ).map("".join),
)


def is_harmless(text):
    """No character in it could be obeyed or hidden."""
    return not _HARMFUL.search(text) and not any(
        unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") and char != "\n" for char in text
    )


@settings(max_examples=400)
@given(text=texts, kind=st.sampled_from(["user", "assistant", "thinking", "call", "failure", "note"]))
def test_lines_of_an_entry(text, kind):
    """Every line of a conversation is harmless, folded or not, and no wider than it may be."""
    entry = Entry(1, 0, 0, kind, (text,), value={text[:5]: text} if kind == "call" else None)
    who = text[:20] or "who"
    for is_open in (False, True):
        for line in block_of(entry, who, EntryLook(40), is_open=is_open, found=is_open).lines:
            assert is_harmless(line.text)
            assert line.cell_length <= 40
            assert not any(segment.control for segment in line)
            assert not any(segment.style and segment.style.link for segment in line)


@settings(max_examples=300)
@given(text=texts)
def test_single_lines_and_widgets(text):
    """A cell, a title and a question are harmless, and nothing in them is markup."""
    assert is_harmless(one_line(text))
    assert "\n" not in cut(text, 20)
    shown = content(text)
    assert is_harmless(shown.plain)
    assert not shown.spans
    assert all(is_harmless(line.text) for line in lay_out(Text(text), 30))
    assert all(is_harmless(line.text) for line in lay_out(Markdown(text), 30))


async def test_every_screen_with_hostile_sessions(tmp_path):
    """List, conversation, search, branches, comparison, time travel, dialogs: all harmless."""
    with holdfast.open(tmp_path / "store") as hf:
        for number in range(3):
            trick = " ".join(TRICKS[number::3])
            with hf.session(f"trick-{number}", title=f"T{trick}"[:100]) as s:
                s.tag(f"t{number}{trick}"[:40])
                s.user(f"needle {trick}")
                s.append("thinking", {"content": trick})
                s.tool_result(s.tool_call(f"Tool{trick}", {trick[:20]: trick}), trick)
                s.assistant(trick)
                s.variables["v"] = trick
                s.memory.set("m", trick)
        hf.fork("trick-0", title=TRICKS[0])
        app = SessionsApp(hf)
        async with app.run_test(size=(140, 30), notifications=True) as pilot:
            await pilot.pause(0.3)
            await _walk(app, pilot)


async def _walk(app, pilot):
    check(app)
    for _ in range(3):
        await pilot.press("enter", "o")
        await pilot.pause(0.1)
        check(app)
        await pilot.press("escape", "down")
    await pilot.press("space", "up", "equals_sign")
    await _look(app, pilot)
    for key in ("v", "b", "a", "r", "t", "d", "m"):
        await pilot.press(key)
        await _look(app, pilot)
    await pilot.press("f", *"needle")
    await pilot.pause(0.6)
    await _look(app, pilot)
    app.tell_failure(ValueError(TRICKS[0]))
    app.push_screen(Buttons(TRICKS[0], [("y", "Yes", "y")], "".join(TRICKS)))
    await _look(app, pilot)


async def _look(app, pilot):
    await pilot.pause(0.2)
    check(app)
    await pilot.press("escape")
    await pilot.pause()


def check(app):
    """Nothing on the screen could be obeyed; nothing on it is a link or an action of a session."""
    for strip in app.screen._compositor.render_strips():
        assert is_harmless(strip.text), repr(strip.text)
        for segment in strip:
            assert not segment.control
            assert not (segment.style and segment.style.link)
