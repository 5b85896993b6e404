"""Calls with their results, edits as differences, and parts of a conversation."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.model import Event
from holdfast.replay import Entry, PairedEntry, edit_of, paired, read_transcript


@pytest.fixture
def worked(store_root):
    """Two turns: an edit that works and a command that fails, then a thank-you."""
    with holdfast.open(store_root) as hf, hf.session("work", title="Work") as s:
        s.user("Mend it")
        edit = s.tool_call("Edit", {"path": "a.py", "old_string": "x = 1\ny = 2", "new_string": "x = 1\ny = 3"})
        bash = s.tool_call("Bash", {"command": "make"})
        s.tool_result(edit, "done")
        s.tool_result(bash, "no rule", is_error=True)
        s.assistant("It is **mended**.")
        s.user("Thanks")


def entry(seq, kind, id=None, **more):
    return Entry(seq, 0, 1000 * seq, kind, id=id, **more)


def test_results_stand_with_their_calls():
    """Also where calls ran side by side, and where the next question came before the result."""
    said = [
        entry(0, "call", "a"),
        entry(1, "call", "b"),
        entry(2, "failure", "b"),
        entry(3, "result", "a"),
        entry(4, "call", "c"),
        entry(5, "user"),
        entry(6, "result", "c"),
    ]
    steps = list(paired(said))
    assert [(s.entry.seq, s.result and s.result.seq) for s in steps] == [(0, 3), (1, 2), (4, 6), (5, None)]
    assert [s.took_ms for s in steps] == [3000, 1000, 2000, 0]
    assert [s.went_wrong for s in steps] == [False, True, False, False]


def test_a_call_that_was_left_is_told():
    """A call without a result is open where the next question of its run came, or the events ended."""
    said = [
        entry(0, "call", "a"),
        entry(1, "user"),
        entry(2, "call", "a"),
        entry(3, "result", "a"),
        entry(4, "call", "b"),
        entry(5, "user", run="other"),
        entry(6, "call", "b"),
    ]
    assert [s.entry.seq for s in paired(said) if s.is_open] == [0, 6]


def test_the_time_of_a_call_is_its_own():
    """The time in which somebody was asked is not counted; calls that were asked about together run after the last."""
    told = [
        ("tool_call", {"id": "a", "tool": "Read", "params": {}, "begun": False}),
        ("tool_call", {"id": "b", "tool": "Edit", "params": {}, "begun": False}),
        ("tool_call", {"id": "c", "tool": "Look", "params": {}}),
        ("permission", {"tool": "Read", "call": "a", "decision": "allow"}),
        ("permission", {"tool": "Edit", "call": "b", "decision": "deny"}),
        ("tool_result", {"toolCallId": "a", "result": "yes"}),
        ("tool_result", {"toolCallId": "b", "result": "no", "is_error": True}),
        ("tool_result", {"toolCallId": "c", "result": "yes"}),
    ]
    events = [
        Event.make(type, data, seq=seq, timestamp=1000 * seq, run="r") for seq, (type, data) in enumerate(told, 1)
    ]
    steps = [step for step in paired(read_transcript(events)) if step.result is not None]
    assert [step.took_ms for step in steps] == [1000, 2000, 5000]


def test_much_is_not_held_back():
    """A call that never ends lets through what stands behind it."""
    shown = paired([entry(0, "call", "a"), *(entry(seq, "note") for seq in range(1, 100))])
    assert next(shown) == PairedEntry(entry(0, "call", "a"))


def test_an_edit_is_a_difference():
    """Whatever its arguments are called; the others are told beside it."""
    call = entry(0, "call", value={"path": "a.py", "old_str": "x\ny", "new_str": "x\nz"})
    assert edit_of(call) == ('path="a.py"', [" x", "-y", "+z"])
    assert edit_of(entry(0, "call", value={"old": 1, "new": 2})) is None


def test_calls_results_and_edits(run, worked):
    """Each call, what it brought below it, and the edit line by line."""
    lines = run("show", "work").out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("→ Edit"))
    assert lines[at + 1 : at + 5] == ['  path="a.py"', "   x = 1", "  -y = 2", "  +y = 3"]
    assert lines[at + 5].startswith("← Edit")
    assert lines[at + 6] == "  done"
    assert "  It is **mended**." in lines


def test_one_turn(run, worked):
    """By its number; one that is not there is told with the last."""
    assert "Mend it" not in run("show", "work", "--turn", "2").out
    assert "Thanks" not in run("show", "work", "--turn", "1").out
    refused = run("show", "work", "--turn", "3")
    assert refused.code == 3
    assert refused.out == ""
    assert "the last is 2" in refused.err


def test_only_tools_or_errors(run, worked):
    """Calls alone, or what failed alone."""
    tools, errors = run("show", "work", "--tools").out, run("show", "work", "--errors").out
    assert "Mend it" not in tools
    assert "→ Edit" in tools
    assert "✗ Bash" in errors
    assert "Edit" not in errors
    assert run("show", "work", "--errors", "--json").code == 2


def test_what_was_interrupted_is_among_the_errors(run, store_root):
    """A call that never got its result and an answer that was cut off, also where the conversation went on."""
    with holdfast.open(store_root) as hf, hf.session("cut") as s:
        s.user("Deploy it")
        s.tool_call("Bash", {"command": "deploy"})
        s.user("And?")
        s.append("delta", {"content": "It is half"})
    for shown in (run("show", "cut").out, run("show", "cut", "--errors").out):
        assert shown.count("✗ Bash  no result was recorded") == 1
        assert "It is half" in shown
