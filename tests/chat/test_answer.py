"""What is drawn of calls: in a line each, with the time that they took, and what people are asked about them."""

from __future__ import annotations

import io
import itertools

import pyte
import pytest
from rich.cells import cell_len

from holdfast.apps.cli import _answer
from holdfast.apps.cli._answer import AnswerView, Theme, drawn_markdown
from holdfast.apps.cli._talk import _show
from holdfast.model import Event


@pytest.fixture
def screen():
    """What is written."""
    return io.StringIO()


@pytest.fixture
def view(screen, monkeypatch):
    """A view without colours; whenever it asks what time it is, a second has gone by."""
    seconds = itertools.count()
    monkeypatch.setattr(_answer.time, "monotonic", lambda: float(next(seconds)))
    return AnswerView(screen, Theme(colour=False))


def drawn_on(columns, written):
    """The lines that an emulator shows of it."""
    shown = pyte.Screen(columns, 20)
    pyte.Stream(shown).feed(written.replace("\n", "\r\n"))
    return "\n".join(line.rstrip() for line in shown.display).rstrip("\n").split("\n")


def test_the_time_of_a_call_is_its_own(view, screen, monkeypatch):
    """The time in which somebody was asked is not counted: calls begin when the last of them is decided."""
    now = [0.0]
    monkeypatch.setattr(_answer.time, "monotonic", lambda: now[0])
    for id in ("a", "b", "c"):
        view.begins(id, f"tool_{id}", {})
    now[0] = 60.0
    view.decided("a", "x")
    now[0] = 90.0
    view.decided("b", "y")
    now[0] = 90.5
    for id in ("a", "b", "c"):
        view.ends(id, "fine", failed=False)
    shown = screen.getvalue()
    assert "● tool_a  ✓ 1 line  0.5 s\n" in shown
    assert "● tool_b  ✓ 1 line  0.5 s\n" in shown
    assert "● tool_c  ✓ 1 line  90.5 s\n" in shown


def test_what_went_wrong_is_told_in_words(view, screen):
    """The message of an error, not its JSON, whether it comes now or is read from the log."""
    for result in ({"error": True, "message": "Permission denied"}, '{"error":true,"message":"Permission denied"}'):
        view.begins("a", "read_file", {"path": "a.txt"})
        view.ends("a", result, failed=True)
    assert screen.getvalue().count("● read_file a.txt  ✗ Permission denied  ") == 2
    assert "{" not in screen.getvalue()
    for result in ("NotFound: there is no a.txt", "Permission denied: the user did not allow read_file"):
        view.begins("a", "read_file", {"path": "a.txt"})
        view.ends("a", {"error": True, "message": result}, failed=True)
    assert "a.txt  ✗ there is no a.txt" in screen.getvalue()
    assert "a.txt  ✗ not allowed  " in screen.getvalue()


def test_a_call_takes_one_line(view, screen, monkeypatch):
    """However much was asked for and came of it, in letters of whatever width; both keep at least half of it."""
    for width in (40, 79):
        monkeypatch.setattr(type(view), "_width", width)
        for words in ("p" * 100, "名" * 100, "p"):
            view.begins("a", "read_file", {"path": words})
            view.ends("a", {"error": True, "message": "there is no such tool" * 5}, failed=True)
        told = ["●" + line.partition("●")[2] for line in screen.getvalue().splitlines() if "●" in line][-3:]
        assert width - 1 <= max(map(cell_len, told)) <= width
        assert all("● read_file p" in line or "● read_file 名" in line for line in told)
        assert all("✗ there is" in line for line in told)


def test_two_answers_of_a_turn_are_two(view, screen):
    """What is said after somebody was heard stands apart from what was said before, whose end may come late."""
    view.piece("The ")
    _show(view, Event.make("assistant", {"role": "assistant", "content": "The first"}))
    view.piece("first")
    _show(view, Event.make("user", {"role": "user", "content": "And then?"}))
    view.piece("The second")
    view.end()
    assert drawn_on(80, screen.getvalue()) == ["The first", "", "The second"]


def test_what_is_told_meanwhile_leaves_nothing_behind(view, screen):
    """A warning in the middle of an answer stands below it, and what was drawn of its end is taken away."""
    view.piece("Half a sentence")
    view.make_room(lambda: screen.write("warning: mind the gap\n"))
    view.piece(" and the rest.")
    view.end()
    shown = drawn_on(80, screen.getvalue())
    assert shown == ["Half a sentence", "", "warning: mind the gap", "", "and the rest."]


def test_an_edit_is_told_by_its_size(view, screen):
    """Neither its line nor the question about it repeats the texts, which are shown as a difference."""
    args = {"path": "a.py", "old_string": "one\ntwo\n", "new_string": "one\n2\nthree\n"}
    view.begins("a", "edit", args)
    view.asks("edit", args, "[N]o: ")
    asked = screen.getvalue()
    assert "\n  -two\n  +2\n  +three\n" in asked
    assert asked.endswith("\nAllow edit a.py?\n")
    view.answered()
    view.ends("a", "edited", failed=False)
    assert "● edit a.py (+2 −1)  ✓ 1 line" in screen.getvalue()
    assert "old_string" not in screen.getvalue()


def test_who_is_asked_sees_everything(view, screen):
    """However long they are, all arguments are in the question; and nothing in them is obeyed."""
    command = f"echo {'x' * 300}; rm -rf build\x1b[2J"
    view.asks("run", {"command": command, "cwd": "/srv"}, "[N]o: ")
    shown = screen.getvalue()
    assert "Allow run?\n  command: echo xxx" in shown
    assert "; rm -rf build" in shown
    assert "\n  cwd: /srv\n" in shown
    assert "\x1b" not in shown


def test_a_new_file_is_shown_before_it_is_written(view, screen):
    """What a call would write as a whole is shown as lines that are added."""
    view.asks("write", {"path": "a.py", "content": "one\ntwo\n"}, "[N]o: ")
    assert "  +one\n  +two\n" in screen.getvalue()
    assert "Allow write a.py?" in screen.getvalue()


def test_blocks_are_set_apart(view, screen):
    """Words, calls and answers have an empty line between them; calls in a row have none."""
    view.asked("hi\nthere")
    for id in ("a", "b"):
        view.called(id, "look", {"at": id}, 0)
        view.ends(id, "x", failed=False, at=100)
    view.said("Fine.")
    view.end()
    assert screen.getvalue() == ("› hi\n  there\n\n● look a  ✓ 1 line  0.1 s\n● look b  ✓ 1 line  0.1 s\n\nFine.\n\n")


def test_a_restored_answer_looks_as_it_did_when_it_came(view, screen):
    """One empty line between blocks, whether they are drawn one after the other or all at once; code keeps its own."""
    text = "# A\n\nb\n\n- c\n- d\n\n```python\nx = 1\n\n\ny = 2\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> e\n"
    whole = drawn_markdown(text, 79, Theme(colour=False))
    for line in text.splitlines(keepends=True):
        view.piece(line)
    view.settle()
    assert drawn_on(80, screen.getvalue()) == whole
    code = [line.strip() for line in whole].index("x = 1")
    assert [line.strip() for line in whole[code : code + 6]] == ["x = 1", "", "", "y = 2", "", "a  b"]
