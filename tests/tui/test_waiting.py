"""The inbox in the terminal app: what sessions wait for, looked at and answered by keys."""

from __future__ import annotations

import pytest

from holdfast import Result
from holdfast.errors import UsageError

EDIT = {"path": "a.py", "old_string": "one\ntwo", "new_string": "one\n2"}


def wait(hf, id, tool, args, ask):
    """A session whose call waits, as an agent leaves it."""
    with hf.session(id, agent_id="coder") as s:
        s.append("tool_call", {"id": "c1", "tool": tool, "params": args, "begun": False})
        s.append("suspended", {"id": ask, "kind": "permission", "call": "c1", "tool": tool, "agent": "coder"})


def answered(hf, ask):
    """What was answered, as who gives another answer is told."""
    with pytest.raises(UsageError, match="answered already") as told:
        hf.answer(ask, Result("another"))
    return str(told.value)


async def test_questions_are_answered_by_keys(sit, hf):
    """A change is a diff; y allows, n asks why not, e gives other arguments, and each is kept at once."""
    for number, ask in enumerate(("aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc")):
        wait(hf, f"work-{number}", "edit_file" if number == 0 else "pay", EDIT if number == 0 else {"amount": 90}, ask)
    async with sit(size=(100, 30)) as seat:
        await seat.sees("work-2")
        await seat.press("w")
        await seat.sees("edit_file", "-two", "+2", 'path = "a.py"', "work-1")
        await seat.press("y")
        await seat.sees("amount = 90")
        await seat.until(lambda: len(hf.waiting()) == 2)
        await seat.press("n")
        await seat.sees("Why may it not use pay?")
        await seat.press(*"later", "enter")
        await seat.until(lambda: len(hf.waiting()) == 1)
        await seat.until(lambda: len(seat.app.screen._found) == 1)
        await seat.press("e")
        await seat.sees("The arguments of pay")
        await seat.press("delete", "ctrl+s")
        await seat.sees("arguments are not valid JSON: Extra data: line 2 column 11", '"amount": 90')
        await seat.press("up", "home", "{", "ctrl+s")
        await seat.sees("Nothing waits for you.")
    assert "allowed by" in answered(hf, "aaaaaaaaaaaa")
    assert "denied by" in answered(hf, "bbbbbbbbbbbb")
    assert "allowed with other arguments by" in answered(hf, "cccccccccccc")


async def test_the_session_of_a_question_is_read(sit, hf):
    """Enter leads to it."""
    wait(hf, "work", "pay", {"amount": 90}, "aaaaaaaaaaaa")
    async with sit() as seat:
        await seat.sees("work")
        await seat.press("w")
        await seat.sees("amount = 90")
        await seat.press("enter")
        await seat.until(lambda: getattr(seat.app.screen, "conversation", None) is not None)
        await seat.until(lambda: seat.app.screen.conversation.session_id == "work")


async def test_nothing_of_a_call_is_cut(sit, hf):
    """What is too long for a line goes on below, so that nobody allows what they did not see."""
    wait(hf, "work", "run_command", {"command": "echo " + "a" * 100 + " && rm -rf important"}, "aaaaaaaaaaaa")
    async with sit(size=(80, 24)) as seat:
        await seat.sees("work")
        await seat.press("w")
        await seat.sees("rm -rf important")
